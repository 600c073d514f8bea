//! What estimators are asked, built from a binding.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use berth_api::binding::{BindingSpec, Component, NodeClaim};
use berth_api::cluster::ResourceList;
use berth_api::quantity::QuantityError;
use berth_core::estimate::Unit;
use prost::Message;
use tonic::metadata::{Ascii, MetadataValue};

use super::k8s;
use super::wire::pb;

/// Why a binding cannot be asked about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource {resource:?}: {source}")]
pub struct AskError {
    /// The requested resource.
    pub resource: String,
    /// What is wrong with its quantity.
    pub source: QuantityError,
}

#[derive(Clone, Debug)]
enum Question {
    Replicas(Option<pb::ReplicaRequirements>),
    ComponentSets {
        components: Vec<pb::Component>,
        namespace: String,
    },
}

/// The call that asks one cluster.
pub(super) enum Call {
    Replicas(pb::MaxAvailableReplicasRequest),
    ComponentSets(pb::MaxAvailableComponentSetsRequest),
}

/// A question to the estimators of some clusters.
#[derive(Clone, Debug)]
pub struct Ask {
    question: Question,
    /// Names the resource in the servers' logs.
    object: Option<MetadataValue<Ascii>>,
    assumed: HashMap<String, Vec<Arc<AssumedWork>>>,
    fingerprint: u64,
}

impl Ask {
    /// Asks about a binding: in replicas, or in sets of all components.
    ///
    /// # Errors
    /// When a requested quantity cannot be read.
    pub fn new(spec: &BindingSpec, unit: Unit) -> Result<Self, AskError> {
        let question = match unit {
            Unit::Replicas => Question::Replicas(replica_requirements(spec)?),
            Unit::ComponentSets => Question::ComponentSets {
                components: components(&spec.components)?,
                namespace: spec.resource.namespace.clone().unwrap_or_default(),
            },
        };
        let resource = &spec.resource;
        let namespace = resource.namespace.as_deref().unwrap_or_default();
        let object = format!("kind={}, name={namespace}/{}", resource.kind, resource.name);
        let mut ask = Self {
            question,
            object: object.parse().ok(),
            assumed: HashMap::new(),
            fingerprint: 0,
        };
        ask.fingerprint = ask.hash();
        Ok(ask)
    }

    /// Says that a cluster holds a workload that it does not show yet.
    pub fn assume(&mut self, cluster: &str, work: Arc<AssumedWork>) {
        let all = self.assumed.entry(cluster.to_owned()).or_default();
        all.push(work);
    }

    /// What is counted.
    pub fn unit(&self) -> Unit {
        match self.question {
            Question::Replicas(_) => Unit::Replicas,
            Question::ComponentSets { .. } => Unit::ComponentSets,
        }
    }

    /// The method that answers.
    pub fn method(&self) -> &'static str {
        match self.question {
            Question::Replicas(_) => "MaxAvailableReplicas",
            Question::ComponentSets { .. } => "MaxAvailableComponentSets",
        }
    }

    /// Equal for equal questions, whoever asks. What is assumed does not count: an earlier answer cannot
    /// know what was placed since.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn object(&self) -> Option<&MetadataValue<Ascii>> {
        self.object.as_ref()
    }

    /// The call that asks this cluster.
    pub(super) fn call(&self, cluster: &str) -> Call {
        let cluster = cluster.to_owned();
        let assumed_workloads = self
            .assumed
            .get(&cluster)
            .map_or(&[][..], |work| work)
            .iter()
            .map(|work| work.0.clone())
            .collect();
        match &self.question {
            Question::Replicas(requirements) => Call::Replicas(pb::MaxAvailableReplicasRequest {
                cluster,
                replica_requirements: requirements.clone(),
                assumed_workloads,
            }),
            Question::ComponentSets {
                components,
                namespace,
            } => Call::ComponentSets(pb::MaxAvailableComponentSetsRequest {
                cluster,
                components: components.clone(),
                namespace: namespace.clone(),
                assumed_workloads,
            }),
        }
    }

    fn hash(&self) -> u64 {
        let bytes = match &self.question {
            Question::Replicas(None) => Vec::new(),
            Question::Replicas(Some(requirements)) => requirements.encode_to_vec(),
            Question::ComponentSets {
                components,
                namespace,
            } => pb::MaxAvailableComponentSetsRequest {
                components: components.clone(),
                namespace: namespace.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        };
        // Maps are ordered, so equal questions have equal bytes.
        let mut hasher = DefaultHasher::new();
        std::mem::discriminant(&self.question).hash(&mut hasher);
        bytes.hash(&mut hasher);
        // No requirements are something else than empty ones.
        matches!(self.question, Question::Replicas(None)).hash(&mut hasher);
        hasher.finish()
    }
}

/// A workload that takes room in a cluster, although the cluster does not show it yet.
#[derive(Clone, Debug)]
pub struct AssumedWork(pb::AssumedWorkload);

impl AssumedWork {
    /// So many replicas of a binding; all components, where it has components.
    ///
    /// # Errors
    /// When a requested quantity cannot be read.
    pub fn new(spec: &BindingSpec, replicas: i32) -> Result<Self, AskError> {
        let components = if spec.components.is_empty() {
            vec![pb::Component {
                name: spec.resource.name.clone(),
                replica_requirements: replica_requirements(spec)?.map(|requirements| {
                    pb::ComponentReplicaRequirements {
                        node_claim: requirements.node_claim,
                        resource_request: requirements.resource_request,
                        priority_class_name: requirements.priority_class_name,
                        resource_request_bytes: requirements.resource_request_bytes,
                    }
                }),
                replicas,
            }]
        } else {
            components(&spec.components)?
        };
        Ok(Self(pb::AssumedWorkload {
            namespace: spec.resource.namespace.clone().unwrap_or_default(),
            components,
        }))
    }
}

fn replica_requirements(spec: &BindingSpec) -> Result<Option<pb::ReplicaRequirements>, AskError> {
    let Some(requirements) = &spec.replica_requirements else {
        return Ok(None);
    };
    let resources = resources(&requirements.resource_request)?;
    Ok(Some(pb::ReplicaRequirements {
        node_claim: requirements.node_claim.as_ref().map(node_claim),
        resource_request: resources.clone(),
        namespace: requirements.namespace.clone().unwrap_or_default(),
        priority_class_name: requirements.priority_class_name.clone().unwrap_or_default(),
        resource_request_bytes: resources,
    }))
}

fn components(components: &[Component]) -> Result<Vec<pb::Component>, AskError> {
    let component = |component: &Component| {
        let requirements = component.replica_requirements.as_ref().map(|requirements| {
            let resources = resources(&requirements.resource_request)?;
            Ok(pb::ComponentReplicaRequirements {
                node_claim: requirements.node_claim.as_ref().map(node_claim),
                resource_request: resources.clone(),
                priority_class_name: requirements.priority_class_name.clone().unwrap_or_default(),
                resource_request_bytes: resources,
            })
        });
        Ok(pb::Component {
            name: component.name.clone(),
            replica_requirements: requirements.transpose()?,
            replicas: component.replicas,
        })
    };
    components.iter().map(component).collect()
}

fn resources(list: &ResourceList) -> Result<BTreeMap<String, Vec<u8>>, AskError> {
    let encoded = list.iter().map(|(resource, text)| {
        let quantity = text.parse().map_err(|source| AskError {
            resource: resource.clone(),
            source,
        })?;
        Ok((resource.clone(), k8s::quantity(quantity)))
    });
    encoded.collect()
}

fn node_claim(claim: &NodeClaim) -> pb::NodeClaim {
    let affinity = claim.hard_node_affinity.as_ref();
    let affinity = affinity.map(k8s::node_selector).unwrap_or_default();
    let tolerations: Vec<_> = claim.tolerations.iter().map(k8s::toleration).collect();
    pb::NodeClaim {
        node_affinity: affinity.clone(),
        node_selector: claim.node_selector.clone(),
        tolerations: tolerations.clone(),
        node_affinity_bytes: affinity,
        tolerations_bytes: tolerations,
    }
}
