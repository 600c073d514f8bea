//! A harness for tests: an engine with extenders. As in the scheduler, a decision is repeated until the extenders have
//! answered all its requests.

use std::sync::Arc;
use std::time::Duration;

use berth_api::Binding;
use berth_api::feature_gates::EngineGates;
use berth_engine::{
    Engine, EngineOptions, Filter, Fleet, Outcome, Plugins, Request, Snapshot, Weighted,
};
use berth_metrics::Format;
use serde_json::{Value, json};

use crate::extender::{Answers, ExtenderConfig, ExtenderMetrics, Extenders, Unanswered};
use crate::framework::plugin::FilterPoint;

/// Time limit of every wait, so that a hang fails the test.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Awaits a future, or fails the test after [`TIMEOUT`].
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.unwrap()
}

/// Four clusters `m1` to `m4`, an engine, and extenders.
pub(crate) struct Harness {
    pub(crate) extenders: Extenders,
    metrics: ExtenderMetrics,
    pub(crate) snapshot: Arc<Snapshot>,
    engine: Engine,
}

/// A final decision.
pub(crate) struct Decision {
    pub(crate) outcome: Outcome,
    /// The number of runs of the engine.
    pub(crate) runs: usize,
    /// The number of calls to extenders.
    pub(crate) calls: usize,
}

impl Decision {
    /// Returns the names of the chosen clusters, or the error.
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

impl Harness {
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
        let mut plugins = Plugins::in_tree(EngineGates::default());
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

    /// Returns the metrics of the extenders.
    pub(crate) fn metrics_text(&self) -> String {
        Format::Text.render(|registry| self.metrics.register(registry))
    }

    /// Runs the engine once, with the answers in the cache.
    pub(crate) fn decide_once(&mut self, binding: &Binding) -> Outcome {
        self.engine.schedule(&self.snapshot, &request(binding))
    }

    /// Runs the engine once without answers. Returns the requests that the decision needs.
    pub(crate) fn first_requests(&mut self, binding: &Binding) -> Unanswered {
        let extenders = self.extenders.clone();
        let (_, _, unanswered) = extenders.decide(Answers::default(), || self.decide_once(binding));
        unanswered.unwrap()
    }

    /// Runs the engine and calls the extenders until the decision has all answers.
    pub(crate) async fn decide(&mut self, binding: &Arc<Binding>) -> Decision {
        let request = request(binding);
        let (mut answers, mut runs) = (Answers::default(), 0);
        loop {
            let decision = || self.engine.schedule(&self.snapshot, &request);
            let (outcome, known, unanswered) = self.extenders.decide(answers, decision);
            runs += 1;
            let Some(unanswered) = unanswered else {
                let calls = known.calls();
                return Decision {
                    outcome,
                    runs,
                    calls,
                };
            };
            assert!(
                self.extenders
                    .may_call(&known, request.placement().terms().len())
            );
            let (binding, snapshot) = (Arc::clone(binding), Arc::clone(&self.snapshot));
            answers = soon(self.extenders.call(unanswered, binding, snapshot, known)).await;
        }
    }
}

pub(crate) fn request(binding: &Binding) -> Request {
    Request::new(&binding.key, &binding.spec, &binding.status).unwrap()
}

/// Returns a binding of a Deployment that is placed in all clusters that pass the filters.
pub(crate) fn everywhere() -> Arc<Binding> {
    placed(json!({}))
}

/// Returns a binding of a Deployment that is placed in the cluster with the highest score.
pub(crate) fn to_one() -> Arc<Binding> {
    placed(
        json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] }),
    )
}

/// Returns a binding of a Deployment with this placement.
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
