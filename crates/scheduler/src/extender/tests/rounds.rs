//! Decides in rounds, as the service does.

use std::sync::Arc;
use std::time::Duration;

use berth_core::{
    Engine, EngineOptions, Filter, Fleet, Gates, Outcome, Plugins, Request, Snapshot, Weighted,
};
use serde_json::{Value, json};

use crate::binding::Binding;
use crate::extender::{Answers, ExtenderConfig, ExtenderMetrics, Extenders, Wanted};
use crate::framework::plugin::FilterPoint;

/// Longer than anything should take, so that a hang fails the test.
const PATIENCE: Duration = Duration::from_mins(1);

/// Fails the test when something never comes.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

/// Four clusters `m1` to `m4`, an engine, and extenders.
pub(crate) struct Rounds {
    pub(crate) extenders: Extenders,
    pub(crate) metrics: ExtenderMetrics,
    pub(crate) snapshot: Arc<Snapshot>,
    engine: Engine,
}

/// A decision, and how it came about.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) rounds: usize,
    pub(crate) calls: usize,
}

impl Ended {
    /// The names of the clusters, or the error.
    pub(crate) fn clusters(&self) -> Result<Vec<String>, String> {
        match &self.outcome.result {
            Ok(placed) => {
                let targets = placed.targets.iter();
                Ok(targets.map(|target| target.name.to_string()).collect())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Rounds {
    pub(crate) fn new(configs: &[ExtenderConfig]) -> Self {
        let metrics = ExtenderMetrics::default();
        let extenders = Extenders::new(configs, &metrics).unwrap().unwrap();
        let mut fleet = Fleet::new().keeping_objects();
        for number in 1..=4 {
            let cluster = json!({
                "metadata": { "name": format!("m{number}"), "labels": { "number": number.to_string() } },
                "spec": { "syncMode": "Push" },
                "status": { "apiEnablements": [{ "groupVersion": "apps/v1", "resources": [
                    { "name": "deployments", "kind": "Deployment" }] }] },
            });
            fleet.apply(&serde_json::from_value(cluster).unwrap());
        }
        let options = EngineOptions::default();
        let mut plugins = Plugins::in_tree(Gates::default());
        for plugin in extenders.plugins() {
            match plugin.filter {
                Some(FilterPoint::Binding(filter)) => plugins.filters.push(Filter::Binding(filter)),
                Some(FilterPoint::Placement(filter)) => {
                    plugins.filters.push(Filter::Placement(filter));
                }
                None => {}
            }
            if let Some(plugin) = plugin.score {
                plugins.scores.push(Weighted { plugin, weight: 1 });
            }
        }
        Self {
            extenders,
            metrics,
            snapshot: fleet.snapshot(),
            engine: Engine::with_plugins(options, plugins).unwrap(),
        }
    }

    /// Decides once, with what lies on the desk.
    pub(crate) fn once(&mut self, binding: &Binding) -> Outcome {
        self.engine.schedule(&self.snapshot, &request(binding))
    }

    /// What the first round of a decision wants to know.
    pub(crate) fn wants(&mut self, binding: &Binding) -> Wanted {
        let extenders = self.extenders.clone();
        let (_, _, wanted) = extenders.decide(Answers::default(), || self.once(binding));
        wanted.unwrap()
    }

    /// Decides until nothing is wanted any more.
    pub(crate) async fn decide(&mut self, binding: &Arc<Binding>) -> Ended {
        let request = request(binding);
        let (mut answers, mut rounds) = (Answers::default(), 0);
        loop {
            let decision = || self.engine.schedule(&self.snapshot, &request);
            let (outcome, known, wanted) = self.extenders.decide(answers, decision);
            rounds += 1;
            let Some(wanted) = wanted else {
                let calls = known.calls();
                return Ended {
                    outcome,
                    rounds,
                    calls,
                };
            };
            assert!(
                self.extenders
                    .may_ask(&known, request.placement().terms().len())
            );
            let (binding, snapshot) = (Arc::clone(binding), Arc::clone(&self.snapshot));
            answers = soon(self.extenders.ask(wanted, binding, snapshot, known)).await;
        }
    }
}

pub(crate) fn request(binding: &Binding) -> Request {
    let namespace = binding.key.namespace.as_deref();
    Request::new(namespace, &binding.key.name, &binding.spec, &binding.status).unwrap()
}

/// A Deployment that goes to all clusters that fit.
pub(crate) fn everywhere() -> Arc<Binding> {
    placed(json!({}))
}

/// A Deployment that goes to one cluster: the one with the highest score.
pub(crate) fn to_one() -> Arc<Binding> {
    placed(
        json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] }),
    )
}

pub(crate) fn placed(placement: Value) -> Arc<Binding> {
    let binding: berth_api::ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web-deployment", "namespace": "shop", "uid": "u-1" },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
            "replicas": 2, "placement": placement,
        },
    }))
    .unwrap();
    Arc::new(binding.into())
}
