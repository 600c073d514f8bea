//! Decisions with the members' accurate estimators: decide, query the estimators, decide again with their answers.
//!
//! Only a control plane knows the addresses of estimators.

use std::sync::Arc;

use berth_api::Cluster;
use berth_core::Estimator;
use berth_scheduler::binding::Binding;
use berth_scheduler::connect::RateLimit;
use berth_scheduler::estimator::{
    AnswerCache, Answers, EstimateRequest, EstimatorClient, EstimatorOptions,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Number of query rounds in addition to one per affinity term, as in the scheduler.
const EXTRA_ROUNDS: usize = 2;

/// The estimators of a fleet. Dropping it closes the connections.
#[derive(Debug)]
pub(crate) struct Estimators {
    cache: AnswerCache,
    client: EstimatorClient,
    _connections: DropGuard,
}

impl Estimators {
    /// Returns the estimators known to the client's control plane.
    pub(crate) fn new(client: kube::Client, options: &EstimatorOptions) -> Self {
        let connected = CancellationToken::new();
        let unlimited = Arc::new(RateLimit::new(None));
        Self {
            cache: AnswerCache::new(),
            client: EstimatorClient::new(client, unlimited, options, connected.clone()),
            _connections: connected.drop_guard(),
        }
    }

    /// Connects to the estimators of these clusters.
    pub(crate) fn follow<'a>(&self, clusters: impl IntoIterator<Item = &'a Cluster>) {
        for cluster in clusters {
            self.client.apply(cluster);
        }
    }

    /// Returns the plugin for the engine.
    pub(crate) fn estimator(&self) -> Arc<dyn Estimator> {
        Arc::new(self.cache.estimator())
    }

    /// Repeats a decision about a binding until it needs no further estimates.
    pub(crate) async fn decide<T>(&self, binding: &Binding, mut decision: impl FnMut() -> T) -> T {
        let placement = binding.spec.placement.as_ref();
        let terms = placement.map_or(0, |placement| placement.cluster_affinities.len());
        let mut answers = Arc::<Answers>::default();
        for _ in 0..terms + EXTRA_ROUNDS {
            let (decided, unanswered) = self.cache.decide(Arc::clone(&answers), &mut decision);
            let Some(unanswered) = unanswered else {
                return decided;
            };
            let Ok(request) = EstimateRequest::new(&binding.spec, unanswered.unit) else {
                return decided;
            };
            let fresh = self.client.estimate(&request, unanswered.clusters).await;
            answers = Arc::new(Arc::unwrap_or_clone(answers).merge(fresh));
        }
        self.cache.decide(answers, decision).0
    }
}
