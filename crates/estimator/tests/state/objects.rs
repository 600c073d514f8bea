//! Objects and requests of the tests.

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;
use berth_estimator_protocol::kubernetes_types::quantity;
use berth_estimator_protocol::wire::pb;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use serde_json::{Value, json};

pub(crate) fn node(name: &str, labels: &Value, spec: &Value, allocatable: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable},
    }))
    .unwrap()
}

pub(crate) fn pod(name: &str, node: &str, phase: &str, requests: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase},
    }))
    .unwrap()
}

/// Returns a slice of the pool of a node. The devices have an index and the name `d` with this index.
pub(crate) fn slice(
    name: &str,
    node: &str,
    generation: i64,
    slices: i64,
    devices: &[i64],
) -> ResourceSlice {
    let device =
        |index: &i64| json!({"name": format!("d{index}"), "attributes": {"index": {"int": index}}});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu", "nodeName": node, "devices": devices.iter().map(device).collect::<Vec<_>>(),
            "pool": {"name": node, "generation": generation, "resourceSliceCount": slices},
        },
    }))
    .unwrap()
}

/// Returns a class of the devices from an index on.
pub(crate) fn class(name: &str, first: i64, extended_resource: Option<&str>) -> DeviceClass {
    let selector = format!("device.attributes['gpu'].index >= {first}");
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"extendedResourceName": extended_resource, "selectors": [{"cel": {"expression": selector}}]},
    }))
    .unwrap()
}

/// Returns a claim with devices of a node.
pub(crate) fn claim(name: &str, node: &str, devices: &[i64]) -> ResourceClaim {
    let result = |index: &i64| json!({"request": "r", "driver": "gpu", "pool": node, "device": format!("d{index}")});
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name},
        "spec": {},
        "status": {"allocation": {"devices": {"results": devices.iter().map(result).collect::<Vec<_>>()}}},
    }))
    .unwrap()
}

pub(crate) fn resources(list: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let encode = |text: &str| quantity(Quantity::parse(text).unwrap());
    list.iter()
        .map(|(name, text)| ((*name).to_owned(), encode(text)))
        .collect()
}

pub(crate) fn replicas(
    requests: &[(&str, &str)],
    claim: pb::NodeClaim,
) -> pb::MaxAvailableReplicasRequest {
    pb::MaxAvailableReplicasRequest {
        replica_requirements: Some(pb::ReplicaRequirements {
            node_claim: Some(claim),
            resource_request_bytes: resources(requests),
            ..pb::ReplicaRequirements::default()
        }),
        ..pb::MaxAvailableReplicasRequest::default()
    }
}

pub(crate) fn component(
    requests: &[(&str, &str)],
    claim: pb::NodeClaim,
    replicas: i32,
) -> pb::Component {
    pb::Component {
        replica_requirements: Some(pb::ComponentReplicaRequirements {
            node_claim: Some(claim),
            resource_request_bytes: resources(requests),
            ..pb::ComponentReplicaRequirements::default()
        }),
        replicas,
        ..pb::Component::default()
    }
}

pub(crate) fn with_selector(key: &str, value: &str) -> pb::NodeClaim {
    pb::NodeClaim {
        node_selector: [(key.to_owned(), value.to_owned())].into(),
        ..pb::NodeClaim::default()
    }
}
