//! Tests of the plugin Coscheduling: members of a gang wait, are placed together, and are rejected together.

use berth_api::ResourceBinding;
use berth_engine::Fleet;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::framework::plugin_messages::{PermitDecision, PluginMessage};

fn binding(name: &str, labels: Value, clusters: Value) -> Binding {
    serde_json::from_value::<ResourceBinding>(json!({
        "metadata": { "name": name, "namespace": "n", "labels": labels },
        "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "clusters": clusters },
    }))
    .unwrap()
    .into()
}

/// Returns an unplaced member of gang `g`, which needs three members.
fn member(name: &str) -> Binding {
    binding(
        name,
        json!({ "podGroup": "g", "minAvailable": "3" }),
        json!([]),
    )
}

fn placed(name: &str) -> Binding {
    let clusters = json!([{ "name": "m1", "replicas": 1 }]);
    binding(
        name,
        json!({ "podGroup": "g", "minAvailable": "3" }),
        clusters,
    )
}

fn decided(binding: Binding) -> Decided {
    Decided {
        binding: Arc::new(binding),
        targets: Arc::default(),
        snapshot: Fleet::new().snapshot(),
    }
}

struct Fixture {
    gangs: Coscheduling,
    messages: mpsc::UnboundedReceiver<PluginMessage>,
    waits: Vec<Decided>,
}

impl Fixture {
    fn new() -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        let permits = Permits::new(Coscheduling::NAME, sender);
        let templates = Templates::disabled();
        let timeout = Duration::from_mins(1);
        Self {
            gangs: Coscheduling::new("default-scheduler", timeout, templates, permits),
            messages,
            waits: Vec::new(),
        }
    }

    fn with(names: &[&str]) -> Self {
        let mut fixture = Self::new();
        for name in names {
            fixture.gangs.present(&member(name));
        }
        fixture.requeued();
        fixture
    }

    /// Runs Reserve and Permit for a member. Returns the permission, and the plugin's messages about parked decisions.
    fn permit(&mut self, binding: Binding) -> (Permission, Vec<(String, PermitDecision)>) {
        let decided = decided(binding);
        let mut state = CycleState::new();
        self.gangs.reserve(&decided, &mut state).unwrap();
        let mut waiting = Waiting {
            plugin: Coscheduling::NAME.into(),
            decided: self.waits.iter().collect(),
            messages: Vec::new(),
        };
        let permission = self.gangs.permit(&decided, &mut state, &mut waiting);
        let messages = decisions(waiting.messages);
        match &permission {
            Permission::Allow => {}
            Permission::Wait(_) => self.waits.push(decided),
            Permission::Deny(_) => self.gangs.unreserve(&decided, &mut state),
        }
        (permission, messages)
    }

    /// Returns the names of the bindings that the plugin has requeued.
    fn requeued(&mut self) -> Vec<String> {
        let mut requeued = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            if let PluginMessage::Requeue(keys) = message {
                requeued.extend(keys.iter().map(|key| key.name.to_string()));
            }
        }
        requeued
    }
}

fn decisions(messages: Vec<PluginMessage>) -> Vec<(String, PermitDecision)> {
    messages
        .into_iter()
        .filter_map(|message| match message {
            PluginMessage::Decide { key, decision, .. } => Some((key.name.to_string(), decision)),
            PluginMessage::Requeue(_) => None,
        })
        .collect()
}

fn closed(why: &str) -> Gate {
    Gate::Closed(why.to_owned())
}

#[test]
fn a_member_is_gated_until_enough_members_exist() {
    let mut fixture = Fixture::with(&["a"]);
    let gate = |fixture: &Fixture, name| fixture.gangs.pre_enqueue(&member(name));
    assert_eq!(
        gate(&fixture, "a"),
        closed("1 of 3 members of group \"g\" exist")
    );
    fixture.gangs.present(&member("b"));
    assert_eq!(fixture.requeued(), ["a"], "the message of a is outdated");
    assert_eq!(
        gate(&fixture, "b"),
        closed("2 of 3 members of group \"g\" exist")
    );
    // Bindings of another gang, namespace or scheduler are not members.
    let other = binding(
        "x",
        json!({ "podGroup": "h", "minAvailable": "3" }),
        json!([]),
    );
    let mut elsewhere = member("y");
    elsewhere.key.namespace = Some("elsewhere".into());
    let mut foreign = member("z");
    foreign.spec.scheduler_name = Some("another".into());
    for binding in [&other, &elsewhere, &foreign] {
        fixture.gangs.present(binding);
    }
    assert_eq!(
        gate(&fixture, "b"),
        closed("2 of 3 members of group \"g\" exist")
    );
    fixture.requeued();
    fixture.gangs.present(&member("c"));
    assert_eq!(fixture.requeued(), ["a", "b"]);
    assert_eq!(gate(&fixture, "a"), Gate::Open);
    fixture.gangs.gone(&member("c").key);
    assert_eq!(
        gate(&fixture, "a"),
        closed("2 of 3 members of group \"g\" exist")
    );
}

#[test]
fn bindings_without_a_gang_pass_and_invalid_labels_are_reported() {
    let fixture = Fixture::new();
    for labels in [
        json!({}),
        json!({ "podGroup": "g" }),
        json!({ "podGroup": "", "minAvailable": "3" }),
        json!({ "podGroup": "g", "minAvailable": "1" }),
    ] {
        let alone = binding("a", labels.clone(), json!([]));
        fixture.gangs.present(&alone);
        assert_eq!(fixture.gangs.pre_enqueue(&alone), Gate::Open, "{labels}");
    }
    let wrong = binding(
        "a",
        json!({ "podGroup": "g", "minAvailable": "some" }),
        json!([]),
    );
    assert_eq!(
        fixture.gangs.pre_enqueue(&wrong),
        closed("label minAvailable is \"some\": it must be a whole number")
    );
}

#[test]
fn decisions_of_a_gang_wait_for_each_other_and_pass_together() {
    let mut fixture = Fixture::with(&["a", "b", "c", "d"]);
    let wait = Permission::Wait(Duration::from_mins(1));
    assert_eq!(fixture.permit(member("a")), (wait.clone(), vec![]));
    assert_eq!(
        fixture.requeued(),
        ["b", "c", "d"],
        "b, c and d may be waiting"
    );
    assert_eq!(fixture.permit(member("b")), (wait, vec![]));
    let all = vec![
        ("a".to_owned(), PermitDecision::Allow),
        ("b".to_owned(), PermitDecision::Allow),
    ];
    assert_eq!(fixture.permit(member("c")), (Permission::Allow, all));
    fixture.waits.clear();
    for name in ["a", "b", "c"] {
        fixture.gangs.present(&placed(name));
    }
    assert_eq!(
        fixture.permit(member("d")).0,
        Permission::Allow,
        "the gang already has the minimum number of members"
    );
    assert_eq!(fixture.permit(placed("a")).0, Permission::Allow);
}

#[test]
fn a_member_is_denied_if_too_few_members_of_its_gang_fit() {
    let mut fixture = Fixture::with(&["a", "b", "c"]);
    fixture
        .gangs
        .state()
        .set_state(&member("b").key, MemberState::Failed);
    let (permission, _) = fixture.permit(member("a"));
    assert_eq!(
        permission,
        Permission::Deny("n/b of group \"g\" does not fit".to_owned())
    );
    // Member b fits now, so the other members are requeued.
    let (permission, _) = fixture.permit(member("b"));
    assert!(matches!(permission, Permission::Wait(_)));
    assert_eq!(fixture.requeued(), ["a", "c"]);
}

#[test]
fn the_rejection_of_a_member_rejects_the_parked_members_of_its_gang() {
    let mut fixture = Fixture::with(&["a", "b", "c"]);
    let lone = binding(
        "x",
        json!({ "podGroup": "h", "minAvailable": "2" }),
        json!([]),
    );
    fixture.gangs.present(&lone);
    fixture.gangs.present(&binding(
        "y",
        json!({ "podGroup": "h", "minAvailable": "2" }),
        json!([]),
    ));
    for binding in [member("a"), member("b"), lone] {
        fixture.permit(binding);
    }
    let left: Vec<&Decided> = fixture.waits.iter().skip(1).collect();
    let mut waiting = Waiting {
        plugin: Coscheduling::NAME.into(),
        decided: left,
        messages: Vec::new(),
    };
    fixture.gangs.rejected(&member("a"), &mut waiting);
    let why = "n/a of group \"g\" was rejected while it waited for the other members".to_owned();
    assert_eq!(
        decisions(waiting.messages),
        [("b".to_owned(), PermitDecision::Reject(why))]
    );
}
