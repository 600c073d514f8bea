//! Requests to estimators, built from a binding.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use berth_api::binding::{BindingSpec, Component, NodeClaim};
use berth_api::cluster::ResourceList;
use berth_api::quantity::QuantityError;
use berth_engine::estimate::Unit;
use berth_estimator_protocol::kubernetes_types;
use berth_estimator_protocol::wire::pb;
use prost::Message as _;
use tonic::metadata::{Ascii, MetadataValue};

/// A resource quantity of a binding that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource {resource:?}: {source}")]
pub struct EstimateRequestError {
    /// The resource.
    pub resource: String,
    /// The parse error of its quantity.
    pub source: QuantityError,
}

#[derive(Clone, Debug)]
enum Workload {
    Replicas(Option<pb::ReplicaRequirements>),
    ComponentSets {
        components: Vec<pb::Component>,
        namespace: String,
    },
}

/// The gRPC message to the estimator of one cluster.
pub(super) enum Message {
    Replicas(pb::MaxAvailableReplicasRequest),
    ComponentSets(pb::MaxAvailableComponentSetsRequest),
}

/// A request for estimates for one binding. It can be sent to the estimators of any number of clusters.
#[derive(Clone, Debug)]
pub struct EstimateRequest {
    workload: Workload,
    /// The name of the binding's resource, which servers write to their logs.
    object: Option<MetadataValue<Ascii>>,
    assumed: HashMap<String, Vec<Arc<AssumedWork>>>,
    fingerprint: u64,
}

impl EstimateRequest {
    /// Builds the request for a binding. `unit` selects whether estimators count replicas or sets of all components.
    ///
    /// # Errors
    /// If a quantity cannot be parsed.
    pub fn new(spec: &BindingSpec, unit: Unit) -> Result<Self, EstimateRequestError> {
        let workload = match unit {
            Unit::Replicas => Workload::Replicas(replica_requirements(spec)?),
            Unit::ComponentSets => Workload::ComponentSets {
                components: components(&spec.components)?,
                namespace: spec.resource.namespace.clone().unwrap_or_default(),
            },
        };
        let resource = &spec.resource;
        let namespace = resource.namespace.as_deref().unwrap_or_default();
        let object = format!("kind={}, name={namespace}/{}", resource.kind, resource.name);
        let mut request = Self {
            workload,
            object: object.parse().ok(),
            assumed: HashMap::new(),
            fingerprint: 0,
        };
        request.fingerprint = request.hash();
        Ok(request)
    }

    /// Adds a workload that was placed in a cluster and that the cluster does not report yet.
    pub fn assume(&mut self, cluster: &str, work: Arc<AssumedWork>) {
        self.assumed
            .entry(cluster.to_owned())
            .or_default()
            .push(work);
    }

    /// Returns the unit of the estimates.
    pub fn unit(&self) -> Unit {
        match self.workload {
            Workload::Replicas(_) => Unit::Replicas,
            Workload::ComponentSets { .. } => Unit::ComponentSets,
        }
    }

    /// Returns the gRPC method's name.
    pub fn method(&self) -> &'static str {
        match self.workload {
            Workload::Replicas(_) => "MaxAvailableReplicas",
            Workload::ComponentSets { .. } => "MaxAvailableComponentSets",
        }
    }

    /// Returns a hash of the workload. Requests for equal workloads have equal hashes, even if their assumed workloads
    /// differ. Therefore a request finds the earlier answer for its workload even after other workloads were placed.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn object(&self) -> Option<&MetadataValue<Ascii>> {
        self.object.as_ref()
    }

    /// Returns the message to the estimator of a cluster.
    pub(super) fn message(&self, cluster: &str) -> Message {
        let cluster = cluster.to_owned();
        let assumed_workloads = self
            .assumed
            .get(&cluster)
            .map_or(&[][..], |work| work)
            .iter()
            .map(|work| work.0.clone())
            .collect();
        match &self.workload {
            Workload::Replicas(requirements) => {
                Message::Replicas(pb::MaxAvailableReplicasRequest {
                    cluster,
                    replica_requirements: requirements.clone(),
                    assumed_workloads,
                })
            }
            Workload::ComponentSets {
                components,
                namespace,
            } => Message::ComponentSets(pb::MaxAvailableComponentSetsRequest {
                cluster,
                components: components.clone(),
                namespace: namespace.clone(),
                assumed_workloads,
            }),
        }
    }

    fn hash(&self) -> u64 {
        let bytes = match &self.workload {
            Workload::Replicas(None) => Vec::new(),
            Workload::Replicas(Some(requirements)) => requirements.encode_to_vec(),
            Workload::ComponentSets {
                components,
                namespace,
            } => pb::MaxAvailableComponentSetsRequest {
                components: components.clone(),
                namespace: namespace.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        };
        // Maps are ordered, so equal workloads have equal bytes.
        let mut hasher = DefaultHasher::new();
        std::mem::discriminant(&self.workload).hash(&mut hasher);
        bytes.hash(&mut hasher);
        // Absent requirements must have another hash than empty requirements, although both have empty bytes.
        matches!(self.workload, Workload::Replicas(None)).hash(&mut hasher);
        hasher.finish()
    }
}

/// A workload that was placed in a cluster and that the cluster does not report yet.
#[derive(Clone, Debug)]
pub struct AssumedWork(pb::AssumedWorkload);

impl AssumedWork {
    /// Converts this number of replicas of a binding. If the binding has components, the result contains one set of all
    /// components instead.
    ///
    /// # Errors
    /// If a quantity cannot be parsed.
    pub fn new(spec: &BindingSpec, replicas: i32) -> Result<Self, EstimateRequestError> {
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

fn replica_requirements(
    spec: &BindingSpec,
) -> Result<Option<pb::ReplicaRequirements>, EstimateRequestError> {
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

fn components(components: &[Component]) -> Result<Vec<pb::Component>, EstimateRequestError> {
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

fn resources(list: &ResourceList) -> Result<BTreeMap<String, Vec<u8>>, EstimateRequestError> {
    let encoded = list.iter().map(|(resource, text)| {
        let quantity = text.parse().map_err(|source| EstimateRequestError {
            resource: resource.clone(),
            source,
        })?;
        Ok((resource.clone(), kubernetes_types::quantity(quantity)))
    });
    encoded.collect()
}

fn node_claim(claim: &NodeClaim) -> pb::NodeClaim {
    let affinity = claim.hard_node_affinity.as_ref();
    let affinity = affinity
        .map(kubernetes_types::node_selector)
        .unwrap_or_default();
    let tolerations: Vec<_> = claim
        .tolerations
        .iter()
        .map(kubernetes_types::toleration)
        .collect();
    pb::NodeClaim {
        node_affinity: affinity.clone(),
        node_selector: claim.node_selector.clone(),
        tolerations: tolerations.clone(),
        node_affinity_bytes: affinity,
        tolerations_bytes: tolerations,
    }
}
