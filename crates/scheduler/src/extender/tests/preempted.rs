//! The preempt verb: what may be preempted is what extenders leave of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use berth_core::{CycleState, PluginError, Snapshot};
use serde_json::{Value, json};

use super::fake::Fake;
use super::rounds::{Rounds, everywhere, request, soon};
use crate::binding::{Binding, BindingKey};
use crate::extender::Answers;
use crate::framework::{Bindings, Nomination, PostFilter, PostFilterContext, Victim};

/// Nominates the first assignment that it finds.
#[derive(Debug, Default)]
struct TakesTheFirst {
    seen: Mutex<usize>,
}

impl PostFilter for TakesTheFirst {
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        _state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        *self.seen.lock().unwrap() += 1;
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

struct All(BTreeMap<BindingKey, Arc<Binding>>);

impl Bindings for All {
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

/// What is preempted in the end, as `name@cluster`, and how many rounds it took.
async fn nominated(extender: &Fake, fields: Value) -> (Result<Option<Vec<String>>, String>, usize) {
    let rounds = Rounds::new(&[extender.config(fields)]);
    let plugin = rounds.extenders.narrow(Arc::new(TakesTheFirst::default()));
    let bindings = [other("a", &["m1", "m2"]), other("b", &["m3"])];
    let all = All(bindings
        .iter()
        .map(|binding| (binding.key.clone(), Arc::clone(binding)))
        .collect());
    let binding = everywhere();
    let request = request(&binding);
    let snapshot: Arc<Snapshot> = Arc::clone(&rounds.snapshot);
    let (mut answers, mut asked) = (Answers::default(), 0);
    loop {
        let (nomination, known, wanted) = rounds.extenders.decide(answers, || {
            let mut attempt = |_: &[Victim]| unreachable!("nobody tries");
            let mut context = PostFilterContext {
                binding: &binding,
                request: &request,
                snapshot: &snapshot,
                bindings: &all,
                attempt: &mut attempt,
            };
            plugin.post_filter(&mut context, &mut CycleState::new())
        });
        let Some(wanted) = wanted else {
            let text = |victim: &Victim| format!("{}@{}", victim.key.name, victim.cluster);
            let names = |nomination: Nomination| nomination.victims.iter().map(text).collect();
            let result = nomination.map(|inner| inner.map(names));
            return (result.map_err(|error| error.to_string()), asked);
        };
        asked += 1;
        let ask = rounds
            .extenders
            .ask(wanted, Arc::clone(&binding), Arc::clone(&snapshot), known);
        answers = soon(ask).await;
    }
}

#[tokio::test]
async fn what_an_extender_spares_is_not_preempted_and_others_are_looked_for() {
    let extender = Fake::answering(|_, body| {
        let mut victims = body["clusterNameToVictims"].clone();
        victims
            .as_object_mut()
            .unwrap()
            .retain(|cluster, _| cluster == "m3");
        json!({ "clusterNameToVictims": victims })
    })
    .await;
    let (result, asked) = nominated(&extender, json!({ "preemptVerb": "preempt" })).await;
    assert_eq!((result, asked), (Ok(Some(vec!["b@m3".to_owned()])), 3));
    let came = extender.came();
    let first = json!({ "m1": { "bindings": [{ "namespace": "shop", "name": "a" }] } });
    assert_eq!(came[0].body["clusterNameToVictims"], first);
    assert_eq!(
        came[0].body["binding"]["metadata"]["name"],
        "web-deployment"
    );
}

#[tokio::test]
async fn where_everything_is_spared_nothing_is_preempted() {
    let extender = Fake::answering(|_, _| json!({ "clusterNameToVictims": null })).await;
    let (result, asked) = nominated(&extender, json!({ "preemptVerb": "preempt" })).await;
    assert_eq!((result, asked), (Ok(None), 3));
}

#[tokio::test]
async fn a_failure_stops_the_preemption_unless_ignorable() {
    let extender = Fake::answering(|_, _| json!([])).await;
    let (result, _) = nominated(&extender, json!({ "preemptVerb": "preempt" })).await;
    let error = result.unwrap_err();
    assert!(error.contains("malformed answer"), "{error}");
    let fields = json!({ "preemptVerb": "preempt", "ignorable": true });
    let (result, _) = nominated(&extender, fields).await;
    assert_eq!(result, Ok(Some(vec!["a@m1".to_owned()])));
}

#[tokio::test]
async fn extenders_without_the_verb_change_nothing() {
    let extender = Fake::answering(|_, _| json!({})).await;
    for fields in [
        json!({ "filterVerb": "filter" }),
        json!({ "preemptVerb": "p", "managedResources": [{ "apiVersion": "v1", "kind": "ConfigMap" }] }),
    ] {
        let (result, asked) = nominated(&extender, fields).await;
        assert_eq!((result, asked), (Ok(Some(vec!["a@m1".to_owned()])), 0));
    }
    assert!(extender.came().is_empty());
}
