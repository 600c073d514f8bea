//! Tests of the preempt verb. An extender permits or spares each nominated victim.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{Binding, BindingKey};
use berth_engine::{CycleState, PluginError, Snapshot};
use berth_test_servers::FakeExtender;
use serde_json::{Value, json};

use super::fake::config;
use super::harness::{Harness, everywhere, request, soon};
use crate::extender::Answers;
use crate::framework::{Bindings, Nomination, PostFilter, PostFilterContext, Victim};

/// A PostFilter plugin that nominates the first assignment that it finds.
#[derive(Debug, Default)]
struct NominatesFirst;

impl PostFilter for NominatesFirst {
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        _state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        let first = context.bindings.iter().find_map(|binding| {
            let cluster = binding.spec.clusters.first()?.name.clone();
            Some(Victim {
                key: binding.key.clone(),
                cluster,
            })
        });
        Ok(first.map(|victim| Nomination {
            victims: vec![victim],
        }))
    }
}

struct AllBindings(BTreeMap<BindingKey, Arc<Binding>>);

impl Bindings for AllBindings {
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        self.0.get(key).cloned()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_> {
        Box::new(self.0.values().cloned())
    }
}

fn other(name: &str, clusters: &[&str]) -> Arc<Binding> {
    let mut binding = Binding::clone(&everywhere());
    binding.key.name = name.into();
    let target =
        |name: &&str| serde_json::from_value(json!({ "name": name, "replicas": 1 })).unwrap();
    binding.spec.clusters = clusters.iter().map(target).collect();
    Arc::new(binding)
}

/// Calls the plugin and the extender until the plugin has all answers. Returns the victims as `name@cluster`, and the
/// number of calls to the extender.
async fn nominated(
    extender: &FakeExtender,
    fields: Value,
) -> (Result<Option<Vec<String>>, String>, usize) {
    let harness = Harness::new(&[config(&extender.url, fields)]);
    let plugin = harness.extenders.narrow(Arc::new(NominatesFirst));
    let bindings = [other("a", &["m1", "m2"]), other("b", &["m3"])];
    let all = AllBindings(
        bindings
            .iter()
            .map(|binding| (binding.key.clone(), Arc::clone(binding)))
            .collect(),
    );
    let binding = everywhere();
    let request = request(&binding);
    let snapshot: Arc<Snapshot> = Arc::clone(&harness.snapshot);
    let (mut answers, mut rounds) = (Answers::default(), 0);
    loop {
        let (nomination, known, unanswered) = harness.extenders.decide(answers, || {
            let mut attempt = |_: &[Victim]| unreachable!("the plugin makes no trial decision");
            let mut context = PostFilterContext {
                binding: &binding,
                request: &request,
                snapshot: &snapshot,
                bindings: &all,
                attempt: &mut attempt,
            };
            plugin.post_filter(&mut context, &mut CycleState::new())
        });
        let Some(unanswered) = unanswered else {
            let text = |victim: &Victim| format!("{}@{}", victim.key.name, victim.cluster);
            let names = |nomination: Nomination| nomination.victims.iter().map(text).collect();
            let result = nomination.map(|inner| inner.map(names));
            return (result.map_err(|error| error.to_string()), rounds);
        };
        rounds += 1;
        let call = harness.extenders.call(
            unanswered,
            Arc::clone(&binding),
            Arc::clone(&snapshot),
            known,
        );
        answers = soon(call).await;
    }
}

#[tokio::test]
async fn a_nomination_with_a_spared_victim_is_replaced_by_another_nomination() {
    let extender = FakeExtender::responding_with(|_, body| {
        let mut victims = body["clusterNameToVictims"].clone();
        victims
            .as_object_mut()
            .unwrap()
            .retain(|cluster, _| cluster == "m3");
        json!({ "clusterNameToVictims": victims })
    })
    .await;
    let (result, rounds) = nominated(&extender, json!({ "preemptVerb": "preempt" })).await;
    assert_eq!((result, rounds), (Ok(Some(vec!["b@m3".to_owned()])), 3));
    let requests = extender.requests();
    let first = json!({ "m1": { "bindings": [{ "namespace": "shop", "name": "a" }] } });
    assert_eq!(requests[0].body["clusterNameToVictims"], first);
    assert_eq!(
        requests[0].body["binding"]["metadata"]["name"],
        "web-deployment"
    );
}

#[tokio::test]
async fn nothing_is_preempted_if_all_victims_are_spared() {
    let extender =
        FakeExtender::responding_with(|_, _| json!({ "clusterNameToVictims": null })).await;
    let (result, rounds) = nominated(&extender, json!({ "preemptVerb": "preempt" })).await;
    assert_eq!((result, rounds), (Ok(None), 3));
}

#[tokio::test]
async fn a_failed_call_stops_the_preemption_unless_the_extender_is_ignorable() {
    let extender = FakeExtender::responding_with(|_, _| json!([])).await;
    let (result, _) = nominated(&extender, json!({ "preemptVerb": "preempt" })).await;
    let error = result.unwrap_err();
    assert!(error.contains("malformed response"), "{error}");
    let fields = json!({ "preemptVerb": "preempt", "ignorable": true });
    let (result, _) = nominated(&extender, fields).await;
    assert_eq!(result, Ok(Some(vec!["a@m1".to_owned()])));
}

#[tokio::test]
async fn extenders_without_a_preempt_verb_or_for_other_resources_are_not_called() {
    let extender = FakeExtender::responding_with(|_, _| json!({})).await;
    for fields in [
        json!({ "filterVerb": "filter" }),
        json!({ "preemptVerb": "p", "managedResources": [{ "apiVersion": "v1", "kind": "ConfigMap" }] }),
    ] {
        let (result, rounds) = nominated(&extender, fields).await;
        assert_eq!((result, rounds), (Ok(Some(vec!["a@m1".to_owned()])), 0));
    }
    assert!(extender.requests().is_empty());
}
