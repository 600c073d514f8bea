//! The fixture of the tests: an embedded control plane and an estimator client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_api::Cluster;
use berth_api::binding::BindingSpec;
use berth_apiserver::{Server, ServerConfig};
use berth_component_base::kube_client::RateLimit;
use berth_engine::estimate::Unit;
use berth_scheduler::estimator::{Answers, EstimateRequest, EstimatorClient, EstimatorOptions};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time limit of every wait, so that a hang fails the test.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Awaits a future, or fails the test after [`TIMEOUT`].
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.unwrap()
}

pub(crate) struct Fixture {
    pub(crate) client: EstimatorClient,
    pub(crate) server: Server,
    _closes: DropGuard,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(EstimatorOptions::default()).await
    }

    pub(crate) async fn with(options: EstimatorOptions) -> Self {
        let server = Server::start(ServerConfig::default()).await.unwrap();
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": "karmada-system" } })).unwrap();
        let _ = Api::all(server.client())
            .create(&PostParams::default(), &namespace)
            .await;
        let cancel = CancellationToken::new();
        let limit = Arc::new(RateLimit::new(None));
        Self {
            client: EstimatorClient::new(server.client(), limit, &options, cancel.clone()),
            server,
            _closes: cancel.drop_guard(),
        }
    }

    /// Creates the Service of a cluster's estimator and adds the cluster to the client.
    pub(crate) async fn join(&self, cluster: &str, address: SocketAddr) {
        let spec = json!({
            "type": "ExternalName", "externalName": address.ip().to_string(),
            "ports": [{ "port": 10352, "targetPort": address.port() }],
        });
        self.service(cluster, spec).await;
        self.client.apply(&member(cluster, "Push"));
    }

    pub(crate) async fn service(&self, cluster: &str, spec: Value) {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": format!("karmada-scheduler-estimator-{cluster}") }, "spec": spec,
        }))
        .unwrap();
        Api::namespaced(self.server.client(), "karmada-system")
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
    }

    pub(crate) async fn estimate(&self, request: &EstimateRequest, clusters: &[&str]) -> Answers {
        let clusters = clusters.iter().map(|&cluster| cluster.into());
        soon(self.client.estimate(request, clusters)).await
    }
}

pub(crate) fn member(name: &str, sync_mode: &str) -> Cluster {
    serde_json::from_value(json!({
        "metadata": { "name": name }, "spec": { "syncMode": sync_mode },
    }))
    .unwrap()
}

pub(crate) fn deployment(requirements: Value) -> BindingSpec {
    serde_json::from_value(json!({
        "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
        "replicas": 10, "replicaRequirements": requirements,
    }))
    .unwrap()
}

/// Returns an estimate request for replicas that need this amount of CPU each.
pub(crate) fn cpu(amount: &str) -> EstimateRequest {
    let spec = deployment(json!({ "resourceRequest": { "cpu": amount } }));
    EstimateRequest::new(&spec, Unit::Replicas).unwrap()
}
