//! The service `default/kubernetes` and the address behind it, by which clients within a cluster find the API.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::queue::Work;
use super::{ensure, internal, resource_of};
use crate::error::{ApiError, Reason};
use crate::shared::Shared;
use crate::store::{Key, TableName};
use crate::verbs::delete::{self, Options};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const SERVICES: &str = "services";
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The first address of the range of services.
const CLUSTER_IP: &str = "10.96.0.1";
const PORT_NAME: &str = "https";

/// Reports whether an object is one of those that are published here.
pub(super) fn is_part(table: &str, key: &Key) -> bool {
    matches!(table, SERVICES | ENDPOINTS | SLICES)
        && &*key.namespace == NAMESPACE
        && &*key.name == NAME
}

/// Creates the service, its endpoints and its slice, or brings them in line with the address that is listened on.
pub(crate) async fn publish(shared: &Arc<Shared>) {
    let address = shared.advertised;
    for (object, done) in [
        ("service", service(shared, address).await),
        ("endpoints", endpoints(shared, address).await),
        ("slice", slice(shared, address).await),
    ] {
        if let Err(error) = done {
            shared.failed(Work::ApiService);
            tracing::debug!(object, %error, "the address of the API was not published");
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
        // A folder of an earlier version may have given the address to another service.
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
    let known = shared.store.get(SLICES, &key());
    if known.is_some_and(|known| known.value()["addressType"] != family) {
        // The family of a slice does not change; another start may listen on one of the other.
        remove_slice(shared).await?;
    }
    ensure(shared, SLICES, &key(), new, |slice| {
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
    let resource = resource_of(shared, &TableName::from(SLICES));
    let resource = resource.ok_or_else(ApiError::path_not_found)?;
    let call = internal(shared, &resource, NAMESPACE, NAME);
    delete::remove(&call, &key(), &Options::background())
        .await
        .map(drop)
}
