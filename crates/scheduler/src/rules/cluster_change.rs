//! The effects of a cluster change on bindings: the bindings that must be reconciled, and the unscheduled bindings that
//! may fit now.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::cluster::{ClusterStatus, ResourceList, ResourceSummary};
use berth_api::placement::{ClusterAffinity, Placement, ReplicaSchedulingType};
use berth_api::quantity::Quantity;
use berth_api::well_known::NODE_POOLS;
use berth_api::{Binding, Cluster};
use berth_engine::CompiledAffinity;

/// The parts of a cluster that affect scheduling.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// The metadata and the spec of the cluster, without annotations, managed fields and resource models. The status is
    /// empty.
    pub cluster: Arc<Cluster>,
    apis: BTreeMap<String, Vec<String>>,
    /// True if `apis` are complete.
    apis_complete: bool,
    capacity: Option<ResourceSummary>,
    node_pools: Option<String>,
}

impl ClusterState {
    /// Extracts the parts of a cluster that affect scheduling.
    pub fn new(cluster: &Cluster) -> Self {
        let mut slim = Cluster {
            metadata: cluster.metadata.clone(),
            spec: cluster.spec.clone(),
            status: None,
        };
        slim.metadata.managed_fields = None;
        let mut annotations = slim.metadata.annotations.take().unwrap_or_default();
        slim.spec.resource_models = Vec::new();
        let empty = ClusterStatus::default();
        let status = cluster.status.as_ref().unwrap_or(&empty);
        Self {
            cluster: Arc::new(slim),
            apis: apis(status),
            apis_complete: status.has_complete_apis(),
            capacity: status.resource_summary.clone(),
            node_pools: annotations.remove(NODE_POOLS),
        }
    }

    /// Reports whether the cluster is being deleted.
    pub fn deleting(&self) -> bool {
        self.cluster.metadata.deletion_timestamp.is_some()
    }

    /// Reports whether the reported capacity differs from the capacity in `old`, or `old` is `None`. Returns `false` if
    /// the cluster is being deleted.
    pub fn capacity_changed(&self, old: Option<&Self>) -> bool {
        !self.deleting() && old.is_none_or(|old| old.capacity != self.capacity)
    }

    /// Reports whether the summary of the node pools differs from the one in `old`.
    pub fn node_pools_changed(&self, old: Option<&Self>) -> bool {
        let old = old.and_then(|old| old.node_pools.as_ref());
        self.node_pools.as_ref() != old
    }

    fn serves(&self, api_version: &str, kind: &str) -> bool {
        let kinds = self.apis.get(api_version);
        kinds.is_some_and(|kinds| kinds.iter().any(|served| served == kind))
    }

    fn generation(&self) -> Option<i64> {
        self.cluster.metadata.generation
    }
}

fn apis(status: &ClusterStatus) -> BTreeMap<String, Vec<String>> {
    status
        .api_enablements
        .iter()
        .map(|api| {
            let mut kinds: Vec<String> = api
                .resources
                .iter()
                .map(|resource| resource.kind.clone())
                .collect();
            kinds.sort_unstable();
            (api.group_version.clone(), kinds)
        })
        .collect()
}

/// Consequences of a cluster change for bindings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterDelta {
    /// True if bindings with a matching affinity must be reconciled, because the labels or the spec of the cluster
    /// changed or because the deletion of the cluster began.
    pub reconcile: bool,
    /// True if bindings without a fitting cluster may fit now.
    pub may_fit: bool,
    /// True if bindings that lacked capacity may find more capacity now.
    pub more_capacity: bool,
}

impl ClusterDelta {
    /// Compares two states of a cluster.
    pub fn between(old: Option<&ClusterState>, new: &ClusterState) -> Self {
        let Some(old) = old else {
            return Self {
                reconcile: false,
                may_fit: !new.deleting(),
                more_capacity: !new.deleting(),
            };
        };
        let leaving = new.deleting() && !old.deleting();
        let labels =
            |state: &ClusterState| state.cluster.metadata.labels.clone().unwrap_or_default();
        let spec_changed = labels(old) != labels(new) || old.generation() != new.generation();
        let spec_matters = labels(old) != labels(new) || old.cluster.spec != new.cluster.spec;
        let capacity = has_more_capacity(old.capacity.as_ref(), new.capacity.as_ref())
            || old.node_pools != new.node_pools;
        Self {
            reconcile: leaving || spec_changed,
            may_fit: !new.deleting() && (spec_matters || old.apis != new.apis),
            more_capacity: !new.deleting() && (spec_matters || capacity),
        }
    }
}

/// A change of the APIs that a cluster serves.
#[derive(Debug)]
pub struct ApiChange<'a> {
    old: &'a ClusterState,
    new: &'a ClusterState,
}

impl<'a> ApiChange<'a> {
    /// Compares the APIs of two states of a cluster. Returns `None` if they are the same.
    pub fn between(old: &'a ClusterState, new: &'a ClusterState) -> Option<Self> {
        let changed = old.apis != new.apis || old.apis_complete != new.apis_complete;
        (changed && !new.deleting()).then_some(Self { old, new })
    }

    /// Reports whether the change may add the cluster to a placed binding, or remove the cluster from it. A binding
    /// whose replicas are divided is unaffected: its replicas stay where they are.
    pub fn affects(&self, binding: &Binding, placement: &Placement) -> bool {
        let spec = &binding.spec;
        let divided = placement.scheduling_type() != ReplicaSchedulingType::Duplicated;
        if divided && spec.is_workload() {
            return false;
        }
        let (api_version, kind) = (&spec.resource.api_version, &spec.resource.kind);
        let served = self.new.serves(api_version, kind);
        let name = self.new.cluster.metadata.name.as_deref();
        let is_target = || {
            let mut targets = spec.clusters.iter();
            targets.any(|target| Some(target.name.as_str()) == name)
        };
        if served {
            !self.old.serves(api_version, kind) && !is_target()
        } else {
            // The APIs may have become complete after the loss.
            self.new.apis_complete && is_target()
        }
    }
}

/// Reports whether the free amount of at least one resource increased, or whether the amounts cannot be compared.
fn has_more_capacity(old: Option<&ResourceSummary>, new: Option<&ResourceSummary>) -> bool {
    if old == new {
        return false;
    }
    let (Some(old), Some(new)) = (old, new) else {
        return true;
    };
    if old.allocatable_modelings != new.allocatable_modelings {
        return true;
    }
    new.allocatable.keys().any(
        |resource| match (free(old, resource), free(new, resource)) {
            (Some(before), Some(now)) => now > before,
            _ => true,
        },
    )
}

fn free(summary: &ResourceSummary, resource: &str) -> Option<Quantity> {
    let amount = |list: &ResourceList| match list.get(resource) {
        Some(text) => Quantity::parse(&text.0).ok(),
        None => Some(Quantity::ZERO),
    };
    let allocatable = amount(&summary.allocatable)?;
    let allocated = amount(&summary.allocated)?;
    let allocating = amount(&summary.allocating)?;
    Some(allocatable - allocated - allocating)
}

/// A matcher of affinities against one state of one cluster. Thousands of bindings may share a policy, so the matcher
/// caches the result of each affinity.
#[derive(Debug)]
pub struct AffinityMatcher<'a> {
    cluster: &'a Cluster,
    cached: HashMap<ClusterAffinity, bool>,
}

impl<'a> AffinityMatcher<'a> {
    /// Creates a matcher for this state of a cluster.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            cached: HashMap::new(),
        }
    }

    /// Reports whether the binding must be reconciled after a change of the cluster. As in Karmada, only the affinity
    /// in use is matched, without its overflow affinities. If the binding has affinity terms and its status is
    /// outdated, returns `true`.
    pub fn reconciles(&mut self, binding: &Binding, placement: &Placement) -> bool {
        if placement.cluster_affinities.is_empty() {
            return placement
                .cluster_affinity
                .as_ref()
                .is_none_or(|affinity| self.matches(affinity));
        }
        if binding.status.scheduler_observed_generation.unwrap_or(0) != binding.generation() {
            return true;
        }
        let observed = binding
            .status
            .scheduler_observing_affinity_name
            .as_deref()
            .unwrap_or_default();
        let terms = &placement.cluster_affinities;
        let term = terms
            .iter()
            .find(|term| term.affinity_name == observed)
            .or_else(|| terms.first());
        term.is_some_and(|term| self.matches(&term.affinity))
    }

    /// Reports whether any affinity of the placement selects the cluster. Overflow affinities count as well.
    pub fn could_be_target(&mut self, placement: &Placement) -> bool {
        if placement.cluster_affinities.is_empty() {
            return placement
                .cluster_affinity
                .as_ref()
                .is_none_or(|affinity| self.matches(affinity));
        }
        placement.cluster_affinities.iter().any(|term| {
            self.matches(&term.affinity)
                || term
                    .overflow_affinities
                    .iter()
                    .any(|tier| self.matches(&tier.affinity))
        })
    }

    fn matches(&mut self, affinity: &ClusterAffinity) -> bool {
        if let Some(cached) = self.cached.get(affinity) {
            return *cached;
        }
        let matches = CompiledAffinity::new(affinity).matches(self.cluster);
        self.cached.insert(affinity.clone(), matches);
        matches
    }
}
