//! When members of a gang wait, go, and are sent back.

use berth_api::ResourceBinding;
use berth_core::Fleet;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::framework::waiting::{Said, Word};

fn binding(name: &str, labels: Value, clusters: Value) -> Binding {
    serde_json::from_value::<ResourceBinding>(json!({
        "metadata": { "name": name, "namespace": "n", "labels": labels },
        "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "clusters": clusters },
    }))
    .unwrap()
    .into()
}

/// A member of gang g, which needs three.
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

struct Scene {
    gangs: Coscheduling,
    said: mpsc::UnboundedReceiver<Said>,
    waits: Vec<Decided>,
}

impl Scene {
    fn new() -> Self {
        let (sender, said) = mpsc::unbounded_channel();
        let permits = Permits::new(Coscheduling::NAME, sender);
        let templates = Templates::unread();
        let patience = Duration::from_mins(1);
        Self {
            gangs: Coscheduling::new("default-scheduler", patience, templates, permits),
            said,
            waits: Vec::new(),
        }
    }

    fn with(names: &[&str]) -> Self {
        let mut scene = Self::new();
        for name in names {
            scene.gangs.present(&member(name));
        }
        scene.woken();
        scene
    }

    /// Reserve and Permit for a member, and what is said of those that wait.
    fn permit(&mut self, binding: Binding) -> (Permission, Vec<(String, Word)>) {
        let decided = decided(binding);
        let mut state = CycleState::new();
        self.gangs.reserve(&decided, &mut state).unwrap();
        let mut waiting = Waiting {
            plugin: Coscheduling::NAME.into(),
            decided: self.waits.iter().collect(),
            said: Vec::new(),
        };
        let permission = self.gangs.permit(&decided, &mut state, &mut waiting);
        let said = words(waiting.said);
        match &permission {
            Permission::Allow => {}
            Permission::Wait(_) => self.waits.push(decided),
            Permission::Deny(_) => self.gangs.unreserve(&decided, &mut state),
        }
        (permission, said)
    }

    /// The bindings that are looked at again.
    fn woken(&mut self) -> Vec<String> {
        let mut woken = Vec::new();
        while let Ok(said) = self.said.try_recv() {
            if let Word::Look(keys) = said.word {
                woken.extend(keys.iter().map(|key| key.name.to_string()));
            }
        }
        woken
    }
}

fn words(said: Vec<Said>) -> Vec<(String, Word)> {
    said.into_iter()
        .map(|said| (said.key.name.to_string(), said.word))
        .collect()
}

fn closed(why: &str) -> Gate {
    Gate::Closed(why.to_owned())
}

#[test]
fn a_member_is_held_until_enough_exist_and_woken_by_them() {
    let mut scene = Scene::with(&["a"]);
    let gate = |scene: &Scene, name| scene.gangs.pre_enqueue(&member(name));
    assert_eq!(
        gate(&scene, "a"),
        closed("1 of 3 members of group \"g\" exist")
    );
    scene.gangs.present(&member("b"));
    assert_eq!(scene.woken(), ["a"], "its message is not true any more");
    assert_eq!(
        gate(&scene, "b"),
        closed("2 of 3 members of group \"g\" exist")
    );
    // Another gang, another namespace and another scheduler are no members.
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
        scene.gangs.present(binding);
    }
    assert_eq!(
        gate(&scene, "b"),
        closed("2 of 3 members of group \"g\" exist")
    );
    scene.woken();
    scene.gangs.present(&member("c"));
    assert_eq!(scene.woken(), ["a", "b"]);
    assert_eq!(gate(&scene, "a"), Gate::Open);
    scene.gangs.gone(&member("c").key);
    assert_eq!(
        gate(&scene, "a"),
        closed("2 of 3 members of group \"g\" exist")
    );
}

#[test]
fn labels_that_name_no_gang_hold_nobody_and_wrong_ones_say_so() {
    let scene = Scene::new();
    for labels in [
        json!({}),
        json!({ "podGroup": "g" }),
        json!({ "podGroup": "", "minAvailable": "3" }),
        json!({ "podGroup": "g", "minAvailable": "1" }),
    ] {
        let alone = binding("a", labels.clone(), json!([]));
        scene.gangs.present(&alone);
        assert_eq!(scene.gangs.pre_enqueue(&alone), Gate::Open, "{labels}");
    }
    let wrong = binding(
        "a",
        json!({ "podGroup": "g", "minAvailable": "some" }),
        json!([]),
    );
    assert_eq!(
        scene.gangs.pre_enqueue(&wrong),
        closed("label minAvailable is \"some\": it must be a whole number")
    );
}

#[test]
fn decisions_wait_for_each_other_and_pass_together() {
    let mut scene = Scene::with(&["a", "b", "c", "d"]);
    let wait = Permission::Wait(Duration::from_mins(1));
    assert_eq!(scene.permit(member("a")), (wait.clone(), vec![]));
    assert_eq!(scene.woken(), ["b", "c", "d"], "they may be asleep");
    assert_eq!(scene.permit(member("b")), (wait, vec![]));
    let all = vec![("a".to_owned(), Word::Allow), ("b".to_owned(), Word::Allow)];
    assert_eq!(scene.permit(member("c")), (Permission::Allow, all));
    scene.waits.clear();
    for name in ["a", "b", "c"] {
        scene.gangs.present(&placed(name));
    }
    assert_eq!(
        scene.permit(member("d")).0,
        Permission::Allow,
        "beyond the least number"
    );
    assert_eq!(scene.permit(placed("a")).0, Permission::Allow);
}

#[test]
fn a_gang_that_cannot_be_complete_does_not_wait() {
    let mut scene = Scene::with(&["a", "b", "c"]);
    scene
        .gangs
        .books()
        .comes_to(&member("b").key, Standing::Failed);
    let (permission, _) = scene.permit(member("a"));
    assert_eq!(
        permission,
        Permission::Deny("n/b of group \"g\" does not fit".to_owned())
    );
    // It fits now: the others are asked again.
    let (permission, _) = scene.permit(member("b"));
    assert!(matches!(permission, Permission::Wait(_)));
    assert_eq!(scene.woken(), ["a", "c"]);
}

#[test]
fn whoever_is_sent_back_takes_its_gang_along() {
    let mut scene = Scene::with(&["a", "b", "c"]);
    let lone = binding(
        "x",
        json!({ "podGroup": "h", "minAvailable": "2" }),
        json!([]),
    );
    scene.gangs.present(&lone);
    scene.gangs.present(&binding(
        "y",
        json!({ "podGroup": "h", "minAvailable": "2" }),
        json!([]),
    ));
    for binding in [member("a"), member("b"), lone] {
        scene.permit(binding);
    }
    let left: Vec<&Decided> = scene.waits.iter().skip(1).collect();
    let mut waiting = Waiting {
        plugin: Coscheduling::NAME.into(),
        decided: left,
        said: Vec::new(),
    };
    scene.gangs.rejected(&member("a"), &mut waiting);
    let why = "n/a of group \"g\" was sent back while it waited for the others".to_owned();
    assert_eq!(words(waiting.said), [("b".to_owned(), Word::Reject(why))]);
}
