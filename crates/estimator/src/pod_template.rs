//! The pods of a request: their requirements, decoded from messages of the protocol.

use std::collections::BTreeMap;

use berth_api::node_requirements::NodeRequirements;
use berth_api::node_resources::{in_units, is_counted};
use berth_api::quantity::Quantity;
use berth_estimator_protocol::kubernetes_types::DecodeError;
use berth_estimator_protocol::wire::pb;

use crate::node_claim;

/// The requirements of each pod of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodTemplate {
    /// The requested amounts by resource, in the units of these resources. All amounts are positive.
    pub(crate) requests: BTreeMap<String, i64>,
    pub(crate) claim: NodeRequirements,
    pub(crate) priority_class: String,
}

/// One component of a workload: a number of equal pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Component {
    /// The requirements of each pod. `None` if the request has none.
    pub(crate) template: Option<PodTemplate>,
    /// The number of pods.
    pub(crate) replicas: i64,
}

/// A workload that was placed in the cluster and that the cluster does not report yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AssumedWorkload {
    pub(crate) namespace: String,
    pub(crate) components: Vec<Component>,
}

impl PodTemplate {
    /// Decodes the requirements of a request.
    ///
    /// # Errors
    /// When the bytes of a Kubernetes type are malformed.
    pub(crate) fn decode(requirements: &pb::ReplicaRequirements) -> Result<Self, DecodeError> {
        Ok(Self {
            requests: amounts(requirements.decode_resource_request()?),
            claim: node_claim::decode(requirements.node_claim.as_ref())?,
            priority_class: requirements.priority_class_name.clone(),
        })
    }
}

impl Component {
    /// Decodes a component of a request.
    ///
    /// # Errors
    /// When the bytes of a Kubernetes type are malformed.
    pub(crate) fn decode(component: &pb::Component) -> Result<Self, DecodeError> {
        let template = component.replica_requirements.as_ref().map(|requirements| {
            Ok::<_, DecodeError>(PodTemplate {
                requests: amounts(requirements.decode_resource_request()?),
                claim: node_claim::decode(requirements.node_claim.as_ref())?,
                priority_class: requirements.priority_class_name.clone(),
            })
        });
        Ok(Self {
            template: template.transpose()?,
            replicas: i64::from(component.replicas),
        })
    }

    /// Decodes the components of a request.
    ///
    /// # Errors
    /// When the bytes of a Kubernetes type are malformed.
    pub(crate) fn decode_all(components: &[pb::Component]) -> Result<Vec<Self>, DecodeError> {
        components.iter().map(Self::decode).collect()
    }
}

impl AssumedWorkload {
    /// Decodes the assumed workloads of a request.
    ///
    /// # Errors
    /// When the bytes of a Kubernetes type are malformed.
    pub(crate) fn decode_all(workloads: &[pb::AssumedWorkload]) -> Result<Vec<Self>, DecodeError> {
        let decode = |workload: &pb::AssumedWorkload| {
            Ok(Self {
                namespace: workload.namespace.clone(),
                components: Component::decode_all(&workload.components)?,
            })
        };
        workloads.iter().map(decode).collect()
    }
}

/// Returns the positive amounts of the resources that schedulers count. The number of pods is not a request.
fn amounts(quantities: BTreeMap<String, Quantity>) -> BTreeMap<String, i64> {
    let amounts = quantities.into_iter().map(|(resource, quantity)| {
        let amount = in_units(&resource, quantity);
        (resource, amount)
    });
    amounts
        .filter(|(resource, amount)| *amount > 0 && resource != "pods" && is_counted(resource))
        .collect()
}
