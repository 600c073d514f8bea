//! Decisions that use the accurate estimators of members. A decision that needs missing estimates is repeated after the
//! estimators have responded.
//!
//! The addresses of estimators are in Services of the control plane, so a simulation without a control plane uses no
//! accurate estimators.

use std::sync::Arc;

use berth_api::{Binding, Cluster};
use berth_component_base::kube_client::RateLimit;
use berth_engine::Estimator;
use berth_scheduler::estimator::{
    AnswerCache, Answers, EstimateRequest, EstimatorClient, EstimatorOptions,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Maximum number of query rounds, in addition to one round per affinity term. The scheduler has the same limit.
const EXTRA_ROUNDS: usize = 2;

/// Connections to the accurate estimators. Dropping this value closes the connections.
#[derive(Debug)]
pub struct Estimators {
    cache: AnswerCache,
    client: EstimatorClient,
    _connections: DropGuard,
}

impl Estimators {
    /// Creates the connections. `client` reads the addresses of the estimators from the control plane.
    pub fn new(client: kube::Client, options: &EstimatorOptions) -> Self {
        let connected = CancellationToken::new();
        let unlimited = Arc::new(RateLimit::new(None));
        Self {
            cache: AnswerCache::new(),
            client: EstimatorClient::new(client, unlimited, options, connected.clone()),
            _connections: connected.drop_guard(),
        }
    }

    /// Connects to the estimators of these clusters.
    pub(crate) fn connect_to<'a>(&self, clusters: impl IntoIterator<Item = &'a Cluster>) {
        for cluster in clusters {
            self.client.apply(cluster);
        }
    }

    /// Returns an estimator for the engine. The estimator reads the cached responses.
    pub(crate) fn estimator(&self) -> Arc<dyn Estimator> {
        Arc::new(self.cache.estimator())
    }

    /// Repeats a decision about a binding until all estimates that the decision needs are present, or the maximum
    /// number of rounds is reached.
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
