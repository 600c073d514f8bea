//! Requests: bindings that are parsed and validated for a decision.
//!
//! Parsing rejects malformed quantities and converts strings to enums, so plugins can work with numbers and enums.

mod limits;
mod placement;
mod resources;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::node_requirements::NodeRequirements;
use berth_api::replica_limits::InvalidLimits;
use berth_api::{Binding, BindingKey};
use k8s_openapi::jiff::{Timestamp, Unit};

use crate::scheduled_reason::ScheduledReason;

pub use limits::{CompiledLimits, ReplicaBounds, RulesChange};
pub use placement::{CompiledPlacement, CompiledToleration, Constraint, SpreadBy, Strategy, Term};
pub use resources::{ResourceAmount, ResourceRequest, ResourceRequestError};

/// The reason why a binding cannot be scheduled on any fleet of clusters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The binding has no placement.
    #[error("failed to get placement from {}", in_messages(.0))]
    NoPlacement(BindingKey),
    /// A requested quantity is malformed.
    #[error(
        "failed to read the resource request of {}: {source}",
        in_messages(key)
    )]
    Resources {
        /// The key of the binding.
        key: BindingKey,
        /// The parse error.
        source: ResourceRequestError,
    },
    /// The annotation with the limits of the replicas is malformed.
    #[error(transparent)]
    Limits(#[from] InvalidLimits),
}

impl RequestError {
    /// Returns the reason that the scheduler sets in the condition `Scheduled`.
    pub fn reason(&self) -> ScheduledReason {
        match self {
            Self::Limits(_) => ScheduledReason::Unschedulable,
            Self::NoPlacement(_) | Self::Resources { .. } => ScheduledReason::SchedulerError,
        }
    }
}

/// Returns the name of a binding in messages: `resourceBinding(ns/name)` or `clusterResourceBinding(name)`.
fn in_messages(key: &BindingKey) -> String {
    format!("{}({key})", key.kind().name_in_messages())
}

/// The treatment of the current replicas of a workload. Duplicated workloads and static weights ignore the current
/// replicas in both modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Keeps the current replicas, and only assigns the missing replicas or removes the surplus replicas.
    Steady,
    /// Reassigns all replicas, because rescheduling was requested.
    Fresh,
}

/// The order of clusters that differ only in their names.
///
/// The order depends on the UID of the workload, so that not all workloads give the remainders of divisions to the same
/// clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TieOrder {
    /// Ascending by name.
    Ascending,
    /// Descending by name.
    Descending,
}

impl TieOrder {
    /// Returns the order for a UID: ascending if the lowest bit of the UID's 32-bit FNV-1a hash is 0, and descending
    /// otherwise. Returns the ascending order for an empty UID.
    pub fn of_uid(uid: &str) -> Self {
        // The lowest bit of the hash needs no multiplication: the prime of FNV-1a is odd, so multiplying keeps this
        // bit. The offset basis is odd, so the bit is initially 1.
        let parity = uid.bytes().fold(1, |bit, byte| bit ^ (byte & 1));
        if uid.is_empty() || parity == 0 {
            Self::Ascending
        } else {
            Self::Descending
        }
    }
}

/// A component of a workload with several pod templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRequest {
    /// The name.
    pub name: String,
    /// The number of replicas.
    pub replicas: i32,
    /// The resource request of each replica.
    pub request: ResourceRequest,
    /// The requirements of each replica on nodes.
    pub nodes: NodeRequirements,
}

/// The clusters of the other workloads in the affinity groups of a workload (feature gate WorkloadAffinity).
///
/// The caller must omit workloads in other namespaces, and the workload that is being scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadPeers {
    /// The clusters of each other workload in the affinity group. The list of a workload that is not placed is empty.
    pub affinity: Vec<Vec<String>>,
    /// The clusters of each other workload in the anti-affinity group.
    pub anti_affinity: Vec<Vec<String>>,
}

/// The request of replicas that run with an earlier and smaller request than the binding has now (feature gate
/// EstimateGrownRequests).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRequest {
    /// The resource request of each of these replicas.
    pub request: ResourceRequest,
    /// The current clusters that report replicas with the earlier request, and the number of these replicas. It can be
    /// greater than the number of current replicas: those that a decision removed are reported until they are gone.
    pub clusters: BTreeMap<String, i32>,
}

/// A parsed binding.
#[derive(Clone, Debug)]
pub struct Request {
    key: BindingKey,
    api_version: String,
    kind: String,
    ties: TieOrder,
    replicas: i64,
    /// The resource request of each replica. `None` if the binding has no replica requirements.
    requirements: Option<ResourceRequest>,
    /// The requirements of each replica on nodes.
    nodes: NodeRequirements,
    components: Vec<ComponentRequest>,
    /// The current clusters of the workload (`spec.clusters`), with their current replicas and without duplicates.
    current: Vec<(String, i64)>,
    /// The clusters from which the workload is being evicted.
    evicting: Vec<String>,
    mode: Mode,
    /// The name of the affinity term in use.
    observed_term: Option<String>,
    placement: Arc<CompiledPlacement>,
    placement_hash: u64,
    peers: WorkloadPeers,
    earlier: Option<EarlierRequest>,
    limits: Option<Box<CompiledLimits>>,
    object: Option<Arc<Binding>>,
    time: Option<Timestamp>,
}

impl Request {
    /// Parses a binding with the limits of its replicas.
    ///
    /// # Errors
    /// Returns an error as [`Self::new`] and [`Self::with_limits_of`].
    pub fn of(binding: &Binding) -> Result<Self, RequestError> {
        Self::new(&binding.key, &binding.spec, &binding.status)?.with_limits_of(binding)
    }

    /// Parses a binding without the limits of its replicas, which are in an annotation.
    ///
    /// # Errors
    /// Returns an error if the binding has no placement, or if a requested quantity is malformed.
    pub fn new(
        key: &BindingKey,
        spec: &BindingSpec,
        status: &BindingStatus,
    ) -> Result<Self, RequestError> {
        let Some(placement) = &spec.placement else {
            return Err(RequestError::NoPlacement(key.clone()));
        };
        let placement = Arc::new(CompiledPlacement::new(placement));
        let resources = |list| {
            ResourceRequest::new(list).map_err(|source| RequestError::Resources {
                key: key.clone(),
                source,
            })
        };
        let requirements = spec
            .replica_requirements
            .as_ref()
            .map(|requirements| resources(&requirements.resource_request))
            .transpose()?;
        let components = spec.components.iter().map(|component| {
            let requirements = component.replica_requirements.as_ref();
            let request = match requirements {
                Some(requirements) => resources(&requirements.resource_request)?,
                None => ResourceRequest::default(),
            };
            let claim = requirements.and_then(|requirements| requirements.node_claim.as_ref());
            Ok(ComponentRequest {
                name: component.name.clone(),
                replicas: component.replicas,
                request,
                nodes: NodeRequirements::new(claim),
            })
        });
        let components = components.collect::<Result<_, RequestError>>()?;
        let requirements_of_replica = spec.replica_requirements.as_ref();
        let claim = requirements_of_replica.and_then(|it| it.node_claim.as_ref());
        let mut current: Vec<(String, i64)> = Vec::with_capacity(spec.clusters.len());
        for cluster in &spec.clusters {
            if !current.iter().any(|(name, _)| *name == cluster.name) {
                current.push((cluster.name.clone(), i64::from(cluster.replicas)));
            }
        }
        Ok(Self {
            api_version: spec.resource.api_version.clone(),
            kind: spec.resource.kind.clone(),
            ties: TieOrder::of_uid(spec.resource.uid.as_deref().unwrap_or_default()),
            replicas: i64::from(spec.replicas).max(0),
            requirements,
            nodes: NodeRequirements::new(claim),
            components,
            current,
            evicting: spec
                .graceful_eviction_tasks
                .iter()
                .map(|task| task.from_cluster.clone())
                .collect(),
            mode: mode(spec, status),
            observed_term: status
                .scheduler_observing_affinity_name
                .clone()
                .filter(|name| !name.is_empty()),
            placement_hash: hash_of(&placement),
            placement,
            peers: WorkloadPeers::default(),
            earlier: None,
            limits: None,
            object: None,
            time: None,
            key: key.clone(),
        })
    }

    /// Adds the clusters of the other workloads in the affinity groups.
    #[must_use]
    pub fn with_peers(mut self, peers: WorkloadPeers) -> Self {
        self.peers = peers;
        self
    }

    /// Adds the earlier request of the current replicas.
    #[must_use]
    pub fn with_earlier(mut self, earlier: EarlierRequest) -> Self {
        self.earlier = Some(earlier);
        self
    }

    /// Adds the limits in the annotation of a binding.
    ///
    /// # Errors
    /// Returns an error if the annotation is malformed.
    pub fn with_limits_of(mut self, binding: &Binding) -> Result<Self, RequestError> {
        self.limits = CompiledLimits::of(binding)?.map(Box::new);
        Ok(self)
    }

    /// Returns the limits of the replicas, or `None` if the replicas are not limited or not divided.
    pub fn limits(&self) -> Option<&CompiledLimits> {
        let limits = self.limits.as_deref()?;
        (self.divides_replicas() && !self.placement.duplicates()).then_some(limits)
    }

    /// Adds the binding from which the request was parsed, for plugins that read fields beyond the request.
    #[must_use]
    pub fn with_object(mut self, object: Arc<Binding>) -> Self {
        self.object = Some(object);
        self
    }

    /// Returns the binding from which the request was parsed, or `None` if no binding was added.
    pub fn object(&self) -> Option<&Binding> {
        self.object.as_deref()
    }

    /// Sets the time of the decision, for plugins whose rules depend on the time. It is rounded to microseconds, the
    /// precision of recorded decisions.
    #[must_use]
    pub fn with_time(mut self, time: Timestamp) -> Self {
        self.time = Some(time.round(Unit::Microsecond).unwrap_or(time));
        self
    }

    /// Returns the time of the decision, or the earliest time if none was set. Plugins must not read a clock, so that a
    /// repeated decision has the same result.
    pub fn time(&self) -> Timestamp {
        self.time.unwrap_or(Timestamp::MIN)
    }

    /// Returns the key of the binding.
    pub fn key(&self) -> &BindingKey {
        &self.key
    }

    /// Returns the `apiVersion` and kind of the resource.
    pub fn resource(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }

    /// Returns the requested number of replicas.
    pub fn replicas(&self) -> i64 {
        self.replicas
    }

    /// Returns the resource request of each replica, or `None` if the binding has no replica requirements.
    pub fn requirements(&self) -> Option<&ResourceRequest> {
        self.requirements.as_ref()
    }

    /// Returns the requirements of each replica on nodes.
    pub fn nodes(&self) -> &NodeRequirements {
        &self.nodes
    }

    /// Returns the components of a workload with several pod templates.
    pub fn components(&self) -> &[ComponentRequest] {
        &self.components
    }

    /// Returns the current clusters of the workload (`spec.clusters`), with their current replicas.
    pub fn current(&self) -> &[(String, i64)] {
        &self.current
    }

    /// Reports whether a cluster already has the workload.
    pub fn holds(&self, cluster: &str) -> bool {
        self.current.iter().any(|(name, _)| name == cluster)
    }

    /// Returns the clusters from which the workload is being evicted.
    pub fn evicting(&self) -> &[String] {
        &self.evicting
    }

    /// Returns the treatment of the current replicas.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Reports whether the resource is a workload. A workload has replicas, resource requirements or components.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.requirements.is_some() || !self.components.is_empty()
    }

    /// Returns the order of clusters that differ only in their names.
    pub fn ties(&self) -> TieOrder {
        self.ties
    }

    /// Returns the clusters of the other workloads in the affinity groups.
    pub fn peers(&self) -> &WorkloadPeers {
        &self.peers
    }

    /// Returns the earlier request of the current replicas, if clusters still report the replicas with this request.
    pub fn earlier(&self) -> Option<&EarlierRequest> {
        self.earlier.as_ref()
    }

    /// Returns the placement.
    pub fn placement(&self) -> &CompiledPlacement {
        &self.placement
    }

    /// Returns the placement and its hash.
    pub(crate) fn shared_placement(&self) -> (&Arc<CompiledPlacement>, u64) {
        (&self.placement, self.placement_hash)
    }

    /// Returns the name of the affinity term in use.
    pub fn observed_term(&self) -> Option<&str> {
        self.observed_term.as_deref()
    }

    /// Reports whether a decision assigns a number of replicas to each selected cluster. If not, the selected clusters
    /// get the resource without a number of replicas.
    pub fn divides_replicas(&self) -> bool {
        (self.replicas > 0 || self.requirements.is_some()) && self.components.len() <= 1
    }
}

fn mode(spec: &BindingSpec, status: &BindingStatus) -> Mode {
    match (&spec.reschedule_triggered_at, &status.last_scheduled_time) {
        (Some(triggered), Some(scheduled)) if triggered.0 > scheduled.0 => Mode::Fresh,
        _ => Mode::Steady,
    }
}

fn hash_of(placement: &CompiledPlacement) -> u64 {
    // The keys of this hasher are fixed, so a placement has the same hash in every run.
    let mut hasher = DefaultHasher::new();
    placement.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_decides_the_tie_order() {
        for (uid, order) in [
            ("", TieOrder::Ascending),
            ("4858ca61-3ff8-4095-8267-f3d059d8074c", TieOrder::Ascending),
            ("d43fdeeb-d750-4e2b-bee3-64eb94534f4c", TieOrder::Descending),
        ] {
            assert_eq!(TieOrder::of_uid(uid), order, "{uid:?}");
        }
    }

    #[test]
    fn parity_of_low_bits_equals_low_bit_of_the_hash() {
        for uid in ["a", "b", "ab", "0123456789abcdef", "é"] {
            let hash = uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
            let expected = if hash & 1 == 0 {
                TieOrder::Ascending
            } else {
                TieOrder::Descending
            };
            assert_eq!(TieOrder::of_uid(uid), expected, "{uid:?}");
        }
    }

    #[test]
    fn errors_name_the_binding_and_the_cause() {
        let spec = |value| serde_json::from_value::<BindingSpec>(value).unwrap();
        let resource =
            serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        for (namespace, spec, expected) in [
            (
                "shop",
                spec(serde_json::json!({"resource": resource})),
                "failed to get placement from resourceBinding(shop/web)",
            ),
            (
                "",
                spec(serde_json::json!({"resource": resource})),
                "failed to get placement from clusterResourceBinding(web)",
            ),
            (
                "",
                spec(serde_json::json!({"resource": resource, "placement": {},
                    "replicaRequirements": {"resourceRequest": {"cpu": "much"}}})),
                "failed to read the resource request of clusterResourceBinding(web): resource \"cpu\": \
                 \"much\" is not a quantity: a number with an optional suffix such as m, k, Gi or e3",
            ),
        ] {
            let key = BindingKey::new(namespace, "web");
            let error = Request::new(&key, &spec, &BindingStatus::default()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
