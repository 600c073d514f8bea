//! The gRPC service: answers requests from the state of the member.

use std::sync::Arc;
use std::time::Instant;

use berth_estimator_protocol::wire::pb;
use berth_estimator_protocol::wire::service::estimator_server::Estimator;
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tonic::{Request, Response, Status};

use crate::estimate::{ClusterState, Rules};
use crate::metrics::{
    GET_UNSCHEDULABLE_REPLICAS, MAX_AVAILABLE_COMPONENT_SETS, MAX_AVAILABLE_REPLICAS,
    RequestMetrics,
};

/// The service of one member cluster.
#[derive(Clone, Debug)]
pub(crate) struct EstimatorService {
    pub(crate) cluster: String,
    pub(crate) rules: Rules,
    pub(crate) state: Arc<RwLock<ClusterState>>,
    pub(crate) metrics: RequestMetrics,
}

impl EstimatorService {
    /// Answers a request with the result of `estimate`, and records it in the metrics and in the log.
    fn answer<T>(
        &self,
        method: &'static str,
        request: &Request<T>,
        cluster: &str,
        estimate: impl FnOnce(&ClusterState) -> Result<i32, String>,
    ) -> Result<i32, Status> {
        let started = Instant::now();
        let result = if cluster == self.cluster {
            estimate(&self.state.read())
        } else {
            let own = &self.cluster;
            Err(format!(
                "cluster name does not match, got: {cluster}, desire: {own}"
            ))
        };
        let duration = started.elapsed();
        self.metrics.answered(method, &result, duration);
        let object = request.metadata().get("object");
        let object = object
            .and_then(|text| text.to_str().ok())
            .unwrap_or_default();
        match &result {
            Ok(estimate) => {
                tracing::debug!(method, object, estimate, ?duration, "answered a request");
            }
            Err(error) => tracing::warn!(method, object, %error, "cannot answer a request"),
        }
        // Karmada's server returns all errors with this code.
        result.map_err(Status::unknown)
    }
}

#[tonic::async_trait]
impl Estimator for EstimatorService {
    async fn max_available_replicas(
        &self,
        request: Request<pb::MaxAvailableReplicasRequest>,
    ) -> Result<Response<pb::MaxAvailableReplicasResponse>, Status> {
        let message = request.get_ref();
        let method = MAX_AVAILABLE_REPLICAS;
        let max_replicas = self.answer(method, &request, &message.cluster, |state| {
            let estimate = state.max_replicas(message, self.rules);
            estimate.map_err(|error| format!("failed to estimate replicas: {error}"))
        })?;
        Ok(Response::new(pb::MaxAvailableReplicasResponse {
            max_replicas,
        }))
    }

    async fn max_available_component_sets(
        &self,
        request: Request<pb::MaxAvailableComponentSetsRequest>,
    ) -> Result<Response<pb::MaxAvailableComponentSetsResponse>, Status> {
        let message = request.get_ref();
        let method = MAX_AVAILABLE_COMPONENT_SETS;
        let max_sets = self.answer(method, &request, &message.cluster, |state| {
            let estimate = state.max_component_sets(message, self.rules);
            estimate.map_err(|error| format!("failed to estimate component sets: {error}"))
        })?;
        Ok(Response::new(pb::MaxAvailableComponentSetsResponse {
            max_sets,
        }))
    }

    async fn get_unschedulable_replicas(
        &self,
        request: Request<pb::UnschedulableReplicasRequest>,
    ) -> Result<Response<pb::UnschedulableReplicasResponse>, Status> {
        let message = request.get_ref();
        let method = GET_UNSCHEDULABLE_REPLICAS;
        let unschedulable_replicas = self.answer(method, &request, &message.cluster, |state| {
            let resource = message.resource.as_ref().ok_or("resource is nil")?;
            let pb::ObjectReference {
                kind,
                namespace,
                name,
                ..
            } = resource;
            let threshold = SignedDuration::from_nanos(message.unschedulable_threshold);
            let now = Timestamp::now();
            let workloads = &state.workloads;
            let count = workloads.unschedulable_replicas(kind, namespace, name, threshold, now);
            count.map_err(|error| error.to_string())
        })?;
        Ok(Response::new(pb::UnschedulableReplicasResponse {
            unschedulable_replicas,
        }))
    }
}

#[cfg(test)]
mod tests;
