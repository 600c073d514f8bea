//! The gRPC service: answers requests from the states of the members.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_estimator_protocol::wire::pb;
use berth_estimator_protocol::wire::service::estimator_server::Estimator;
use jiff::{SignedDuration, Timestamp};
use tonic::{Request, Response, Status};

use crate::estimate::{ClusterState, Rules};
use crate::metrics::{
    ExtensionPoint, GET_UNSCHEDULABLE_REPLICAS, MAX_AVAILABLE_COMPONENT_SETS,
    MAX_AVAILABLE_REPLICAS, RequestMetrics,
};
use crate::watches::Member;

/// Maximum time that a request waits for the first lists of a member.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// The service of one or more member clusters.
#[derive(Debug)]
pub(crate) struct EstimatorService {
    /// The members by name. Requests about other clusters are refused.
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) rules: Rules,
    pub(crate) metrics: RequestMetrics,
}

impl EstimatorService {
    /// Returns the member, after its first lists.
    ///
    /// # Errors
    /// When the member is unknown, or its lists are late.
    async fn member(&self, cluster: &str) -> Result<&Member, String> {
        let Some(member) = self.members.get(cluster) else {
            let names: Vec<&str> = self.members.keys().map(String::as_str).collect();
            let names = names.join(", ");
            return Err(format!(
                "cluster name does not match, got: {cluster}, desire: {names}"
            ));
        };
        if member.check_listed().is_err() {
            let listed = tokio::time::timeout(LIST_TIMEOUT, member.until_listed()).await;
            if listed.is_err() {
                member.check_listed()?;
            }
        }
        Ok(member)
    }

    /// Answers a request with the result of `estimate`, and records it in the metrics and in the log.
    async fn answer<T>(
        &self,
        method: &'static str,
        request: &Request<T>,
        cluster: &str,
        estimate: impl FnOnce(&ClusterState) -> Result<i32, String>,
    ) -> Result<i32, Status> {
        let started = Instant::now();
        let member = self.member(cluster).await;
        let result = member.and_then(|member| estimate(&member.state.read()));
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
        let max_replicas = self
            .answer(method, &request, &message.cluster, |state| {
                let mut runner = self.metrics.runner(ExtensionPoint::EstimateReplicas);
                let estimate = state.max_replicas(message, self.rules, &mut runner);
                estimate.map_err(|error| format!("failed to estimate replicas: {error}"))
            })
            .await?;
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
        let max_sets = self
            .answer(method, &request, &message.cluster, |state| {
                let mut runner = self.metrics.runner(ExtensionPoint::EstimateComponents);
                let estimate = state.max_component_sets(message, self.rules, &mut runner);
                estimate.map_err(|error| format!("failed to estimate component sets: {error}"))
            })
            .await?;
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
        if let Some(member) = self.members.get(&message.cluster) {
            member.need_workloads();
        }
        let unschedulable_replicas = self
            .answer(method, &request, &message.cluster, |state| {
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
            })
            .await?;
        Ok(Response::new(pb::UnschedulableReplicasResponse {
            unschedulable_replicas,
        }))
    }
}

#[cfg(test)]
mod tests;
