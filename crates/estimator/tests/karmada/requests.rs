//! The requests of the recording, and their messages.

use std::collections::BTreeMap;

use berth_api::binding::{NodeClaim, ReplicaRequirements};
use berth_api::cluster::ResourceList;
use berth_estimator_protocol::kubernetes_types;
use berth_estimator_protocol::wire::pb;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(tag = "method", rename_all = "camelCase")]
pub(crate) enum Request {
    Replicas(Replicas),
    Components(ComponentSets),
    Unschedulable(Unschedulable),
}

#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(crate) struct Replicas {
    pub(crate) requirements: Option<ReplicaRequirements>,
    pub(crate) assumed: Vec<Assumed>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ComponentSets {
    pub(crate) components: Vec<Component>,
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) assumed: Vec<Assumed>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unschedulable {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) threshold_seconds: i64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Assumed {
    namespace: String,
    components: Vec<Component>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Component {
    name: String,
    replicas: i32,
    replica_requirements: Option<ReplicaRequirements>,
}

impl Replicas {
    pub(crate) fn message(&self) -> pb::MaxAvailableReplicasRequest {
        let requirements = self.requirements.as_ref();
        pb::MaxAvailableReplicasRequest {
            cluster: "m1".to_owned(),
            replica_requirements: requirements.map(|it| pb::ReplicaRequirements {
                node_claim: it.node_claim.as_ref().map(node_claim),
                namespace: it.namespace.clone().unwrap_or_default(),
                priority_class_name: it.priority_class_name.clone().unwrap_or_default(),
                resource_request_bytes: resources(&it.resource_request),
                ..Default::default()
            }),
            assumed_workloads: self.assumed.iter().map(Assumed::message).collect(),
        }
    }
}

impl ComponentSets {
    pub(crate) fn message(&self) -> pb::MaxAvailableComponentSetsRequest {
        pb::MaxAvailableComponentSetsRequest {
            cluster: "m1".to_owned(),
            components: self.components.iter().map(Component::message).collect(),
            namespace: self.namespace.clone(),
            assumed_workloads: self.assumed.iter().map(Assumed::message).collect(),
        }
    }
}

impl Assumed {
    fn message(&self) -> pb::AssumedWorkload {
        pb::AssumedWorkload {
            namespace: self.namespace.clone(),
            components: self.components.iter().map(Component::message).collect(),
        }
    }
}

impl Component {
    fn message(&self) -> pb::Component {
        let requirements = self.replica_requirements.as_ref();
        pb::Component {
            name: self.name.clone(),
            replica_requirements: requirements.map(|it| pb::ComponentReplicaRequirements {
                node_claim: it.node_claim.as_ref().map(node_claim),
                priority_class_name: it.priority_class_name.clone().unwrap_or_default(),
                resource_request_bytes: resources(&it.resource_request),
                ..Default::default()
            }),
            replicas: self.replicas,
        }
    }
}

fn resources(list: &ResourceList) -> BTreeMap<String, Vec<u8>> {
    let encoded = list.iter().map(|(resource, text)| {
        let quantity = text.parse().unwrap();
        (resource.clone(), kubernetes_types::quantity(quantity))
    });
    encoded.collect()
}

fn node_claim(claim: &NodeClaim) -> pb::NodeClaim {
    let affinity = claim.hard_node_affinity.as_ref();
    let tolerations = claim.tolerations.iter();
    pb::NodeClaim {
        node_selector: claim.node_selector.clone(),
        node_affinity_bytes: affinity
            .map(kubernetes_types::node_selector)
            .unwrap_or_default(),
        tolerations_bytes: tolerations.map(kubernetes_types::toleration).collect(),
        ..Default::default()
    }
}
