//! The Service `default/kubernetes` and its endpoints. In-cluster clients find the API server with this Service.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{ensure, resource_of};
use crate::error::{ApiError, Reason};
use crate::shared::Shared;
use crate::shared::well_known::API_SERVICE;
use crate::shared::work_queue::Work;
use crate::store::Key;
use crate::table_names::{ENDPOINT_SLICES, ENDPOINTS, SERVICES};
use crate::verbs::Call;
use crate::verbs::delete;
use crate::verbs::delete_options::DeleteOptions;

const NAMESPACE: &str = API_SERVICE.0;
const NAME: &str = API_SERVICE.1;
/// The first address of the Service network.
const CLUSTER_IP: &str = "10.96.0.1";
const PORT_NAME: &str = "https";

/// Creates or updates the Service, its Endpoints object and its EndpointSlice.
pub(crate) async fn publish(shared: &Arc<Shared>) {
    let address = shared.advertised;
    for (object, done) in [
        ("service", service(shared, address).await),
        ("endpoints", endpoints(shared, address).await),
        ("slice", slice(shared, address).await),
    ] {
        if let Err(error) = done {
            shared.retry_later(Work::ApiService);
            tracing::debug!(object, %error, "cannot publish the address of the API server");
        }
    }
}

fn key() -> Key {
    Key::new(NAMESPACE, NAME)
}

async fn service(shared: &Arc<Shared>, address: SocketAddr) -> Result<(), ApiError> {
    let ports =
        json!([{"name": PORT_NAME, "port": 443, "protocol": "TCP", "targetPort": address.port()}]);
    let mut new = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"type": "ClusterIP", "clusterIP": CLUSTER_IP, "ports": ports},
    });
    let (key, ports) = (&key(), &ports);
    let put = async |new: Value| {
        ensure(shared, SERVICES, key, new, |service| {
            service["spec"]["ports"] = ports.clone();
        })
        .await
    };
    match put(new.clone()).await {
        // In an older data folder, another Service may have this cluster IP.
        Err(error) if error.reason == Reason::Invalid => {
            if let Some(spec) = new["spec"].as_object_mut() {
                spec.remove("clusterIP");
            }
            put(new).await
        }
        done => done,
    }
}

async fn endpoints(shared: &Arc<Shared>, address: SocketAddr) -> Result<(), ApiError> {
    let subsets = json!([{
        "addresses": [{"ip": address.ip()}],
        "ports": [{"name": PORT_NAME, "port": address.port(), "protocol": "TCP"}],
    }]);
    let new = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": subsets,
    });
    ensure(shared, ENDPOINTS, &key(), new, |endpoints| {
        endpoints["subsets"] = subsets.clone();
    })
    .await
}

async fn slice(shared: &Arc<Shared>, address: SocketAddr) -> Result<(), ApiError> {
    const SERVICE_NAME: &str = "kubernetes.io/service-name";
    let addresses = json!([{"addresses": [address.ip()], "conditions": {"ready": true}}]);
    let ports = json!([{"name": PORT_NAME, "port": address.port(), "protocol": "TCP"}]);
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let new = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "labels": {SERVICE_NAME: NAME}},
        "addressType": family, "endpoints": addresses, "ports": ports,
    });
    let known = shared.store.get(ENDPOINT_SLICES, &key());
    if known.is_some_and(|known| known.value()["addressType"] != family) {
        // The address family may differ from the family at the last start, and the address type of a slice is
        // immutable.
        remove_slice(shared).await?;
    }
    ensure(shared, ENDPOINT_SLICES, &key(), new, |slice| {
        slice["endpoints"] = addresses.clone();
        slice["ports"] = ports.clone();
        if !slice["metadata"]["labels"].is_object() {
            slice["metadata"]["labels"] = json!({});
        }
        slice["metadata"]["labels"][SERVICE_NAME] = json!(NAME);
    })
    .await
}

async fn remove_slice(shared: &Arc<Shared>) -> Result<(), ApiError> {
    let resource = resource_of(shared, ENDPOINT_SLICES);
    let resource = resource.ok_or_else(ApiError::path_not_found)?;
    let call = Call::internal(shared, &resource, NAMESPACE, NAME);
    delete::remove(&call, &key(), &DeleteOptions::background())
        .await
        .map(drop)
}
