//! The index of the propagation: the observed bindings, Works, clusters and override policies.
//!
//! ```text
//! OverridePolicy, ────────── resource selectors ─────────> template
//! ClusterOverridePolicy                                       ^
//!         │ target clusters                                   │ spec.resource
//!         v                                                   │
//!      Cluster <── spec.clusters, requiredBy, ────────── ResourceBinding,
//!         ^        gracefulEvictionTasks                 ClusterResourceBinding
//!         │ name of the execution namespace                   ^
//!         │                                                   │ label with the permanent id
//!       Work ─────────────────────────────────────────────────┘
//! ```
//!
//! An arrow is a reference in an object. The index follows each arrow backwards: from a changed object to the bindings
//! that need a sync or a new status. Works name their binding by its permanent id, and not by its name, so that a binding
//! of the same name does not adopt the Works of its predecessor.

mod departures;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::names::cluster_of_execution_namespace;
use berth_api::well_known::{CLUSTER_RESOURCE_BINDING_PERMANENT_ID, RESOURCE_BINDING_PERMANENT_ID};
use berth_api::{Binding, BindingKey, Cluster, Work};
use berth_diagnosis::{ClusterState, ClusterStates};

use self::departures::Departures;
use self::workloads::Workloads;
use super::binding::migration::observed::runs_pods;
use super::binding::sync_input::SyncInput;
use super::binding::targets::awaits_deletions;
use crate::overrides::{OverrideKind, OverridePolicy, OverrideSet};

/// The cluster and name of a Work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkKey {
    pub(crate) cluster: String,
    pub(crate) name: String,
}

impl WorkKey {
    /// Returns the key of a Work, or `None` for a Work outside the execution namespaces.
    pub(crate) fn new(namespace: &str, name: &str) -> Option<Self> {
        Some(Self {
            cluster: cluster_of_execution_namespace(namespace)?.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// The observed objects. Works are also indexed by the permanent id of their binding.
#[derive(Debug, Default)]
pub(crate) struct Index {
    bindings: HashMap<BindingKey, Arc<Binding>>,
    by_id: HashMap<String, BindingKey>,
    works: HashMap<WorkKey, Arc<Work>>,
    works_of: HashMap<String, BTreeSet<WorkKey>>,
    /// The Works whose replicas changed after the last report, each with the least number since.
    unreported: HashMap<WorkKey, i64>,
    workloads: Workloads,
    departures: Departures,
    pub(crate) clusters: BTreeMap<String, Arc<Cluster>>,
    /// Override policies by namespace and name. The namespace of a ClusterOverridePolicy is empty.
    overrides: BTreeMap<String, BTreeMap<String, Arc<OverridePolicy>>>,
}

impl Index {
    pub(crate) fn binding(&self, key: &BindingKey) -> Option<&Arc<Binding>> {
        self.bindings.get(key)
    }

    pub(crate) fn binding_keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.bindings.keys()
    }

    /// Stores a binding. `placement` is the placement that the scheduler has applied, as JSON. Returns the previous version.
    pub(crate) fn insert_binding(
        &mut self,
        binding: Arc<Binding>,
        placement: &str,
    ) -> Option<Arc<Binding>> {
        let key = binding.key.clone();
        let id = binding.permanent_id();
        if !id.is_empty() {
            self.by_id.insert(id.to_owned(), key.clone());
        }
        let old = self.bindings.insert(key, Arc::clone(&binding));
        if let Some(old) = &old {
            self.workloads.remove(old);
        }
        self.workloads.insert(&binding);
        self.departures.observe(old.as_deref(), &binding, placement);
        old
    }

    pub(crate) fn remove_binding(&mut self, key: &BindingKey) {
        let Some(binding) = self.bindings.remove(key) else {
            return;
        };
        self.workloads.remove(&binding);
        self.departures.remove(key);
        if self.by_id.get(binding.permanent_id()) == Some(key) {
            self.by_id.remove(binding.permanent_id());
        }
    }

    /// Returns the clusters from which a workload that needs a binding's resource has not gone yet.
    fn needed_in(&self, binding: &Binding) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        if runs_pods(&binding.spec) {
            return needed;
        }
        let leaders = self.workloads.of(binding).into_iter();
        for leader in leaders.filter_map(|key| self.bindings.get(&key)) {
            let spec = &leader.spec;
            if !runs_pods(spec) {
                continue;
            }
            // The policy may have changed the placement of only one of the two so far.
            let is_decided = spec.placement == binding.spec.placement
                && leader.status.scheduler_observed_generation == Some(leader.generation());
            let targets: BTreeSet<String> = spec.targets().into_iter().map(|t| t.name).collect();
            // A member that does not respond may never confirm a deletion.
            let is_going = |work: &Work| work.metadata.deletion_timestamp.is_some();
            let responds =
                |name: &String| self.clusters.get(name).is_some_and(|c| awaits_deletions(c));
            let works = self.works_of(leader).into_iter();
            let works = works.filter(|(key, work)| !is_going(work) || responds(&key.cluster));
            let clusters = works.map(|(key, _)| &key.cluster);
            let leaving = clusters.filter(|cluster| !is_decided || !targets.contains(*cluster));
            needed.extend(leaving.cloned());
        }
        needed
    }

    /// Returns the binding of a Work.
    pub(crate) fn binding_of_work(&self, work: &Work) -> Option<&BindingKey> {
        self.by_id.get(binding_id(work)?)
    }

    pub(crate) fn works(&self) -> impl Iterator<Item = (&WorkKey, &Arc<Work>)> {
        self.works.iter()
    }

    /// Returns a Work.
    pub(crate) fn work(&self, key: &WorkKey) -> Option<&Arc<Work>> {
        self.works.get(key)
    }

    /// Stores a Work. Returns the previous version.
    pub(crate) fn insert_work(&mut self, key: WorkKey, work: Arc<Work>) -> Option<Arc<Work>> {
        let old = self.works.insert(key.clone(), Arc::clone(&work));
        self.record_report(&key, old.as_deref(), &work);
        if let Some(old) = &old
            && binding_id(old) != binding_id(&work)
        {
            self.unlink_work(&key, old);
        }
        if let Some(id) = binding_id(&work) {
            self.works_of.entry(id.to_owned()).or_default().insert(key);
        }
        old
    }

    /// Records whether the report in a Work is older than its replicas. After a restart, reports count as recent.
    fn record_report(&mut self, key: &WorkKey, old: Option<&Work>, new: &Work) {
        let Some(old) = old.filter(|old| old.metadata.uid == new.metadata.uid) else {
            self.unreported.remove(key);
            return;
        };
        if old.status != new.status {
            self.unreported.remove(key);
        }
        if let (Some(before), Some(after)) = (replicas(old), replicas(new))
            && before != after
        {
            let least = self.unreported.entry(key.clone()).or_insert(before);
            *least = before.min(after).min(*least);
        }
    }

    pub(crate) fn remove_work(&mut self, key: &WorkKey) -> Option<Arc<Work>> {
        self.unreported.remove(key);
        let work = self.works.remove(key)?;
        self.unlink_work(key, &work);
        Some(work)
    }

    fn unlink_work(&mut self, key: &WorkKey, work: &Work) {
        let Some(id) = binding_id(work) else { return };
        if let Some(works) = self.works_of.get_mut(id) {
            works.remove(key);
            if works.is_empty() {
                self.works_of.remove(id);
            }
        }
    }

    /// Reports whether a cluster has Works.
    pub(crate) fn has_works(&self, cluster: &str) -> bool {
        self.works.keys().any(|key| key.cluster == cluster)
    }

    /// Returns the Works of a binding.
    pub(crate) fn works_of(&self, binding: &Binding) -> Vec<(&WorkKey, &Arc<Work>)> {
        let keys = self
            .works_of
            .get(binding.permanent_id())
            .into_iter()
            .flatten();
        keys.filter_map(|key| self.works.get_key_value(key))
            .collect()
    }

    /// Returns the input for a sync of a binding's Works.
    pub(crate) fn sync_input(&self, binding: &Arc<Binding>) -> SyncInput {
        let mut works: BTreeMap<String, Vec<Arc<Work>>> = BTreeMap::new();
        let mut unreported = BTreeMap::new();
        for (key, work) in self.works_of(binding) {
            if let Some(replicas) = self.unreported.get(key) {
                unreported.insert(key.cluster.clone(), *replicas);
            }
            let cluster_works = works.entry(key.cluster.clone()).or_default();
            cluster_works.push(Arc::clone(work));
        }
        let targets = binding.spec.targets().into_iter().map(|target| target.name);
        let targets: BTreeSet<String> = targets.collect();
        let names = targets.iter().chain(works.keys());
        let clusters = names.filter_map(|name| {
            let cluster = Arc::clone(self.clusters.get(name)?);
            Some((name.clone(), cluster))
        });
        let clusters = clusters.collect();
        // Only a resource with a Work outside its targets has to know its workloads.
        let needed_in = if works.keys().all(|cluster| targets.contains(cluster)) {
            BTreeSet::new()
        } else {
            self.needed_in(binding)
        };
        let resource = &binding.spec.resource;
        let namespace = resource.namespace.as_deref().unwrap_or_default();
        let in_namespace = |namespace: &str| -> Vec<Arc<OverridePolicy>> {
            let policies = self.overrides.get(namespace);
            policies
                .into_iter()
                .flat_map(BTreeMap::values)
                .cloned()
                .collect()
        };
        let placement = binding.spec.placement.as_ref();
        let deselected = self.departures.of(&binding.key).filter(|name| {
            let pair = placement.zip(self.clusters.get(*name));
            pair.is_some_and(|(placement, cluster)| !placement.selects(cluster))
        });
        SyncInput {
            deselected: deselected.cloned().collect(),
            needed_in,
            unreported,
            binding: Arc::clone(binding),
            works,
            clusters,
            overrides: OverrideSet {
                cluster: in_namespace(""),
                namespaced: if namespace.is_empty() {
                    Vec::new()
                } else {
                    in_namespace(namespace)
                },
            },
        }
    }

    /// Stores an override policy, or removes it if `policy` is `None`. Returns the previous version.
    pub(crate) fn set_override_policy(
        &mut self,
        kind: OverrideKind,
        namespace: &str,
        name: &str,
        policy: Option<Arc<OverridePolicy>>,
    ) -> Option<Arc<OverridePolicy>> {
        let namespace = match kind {
            OverrideKind::Namespaced => namespace,
            OverrideKind::Cluster => "",
        };
        let policies = self.overrides.entry(namespace.to_owned()).or_default();
        match policy {
            Some(policy) => policies.insert(name.to_owned(), policy),
            None => policies.remove(name),
        }
    }

    /// Returns the namespaces and names of a kind's override policies.
    pub(crate) fn override_names(&self, kind: OverrideKind) -> Vec<(String, String)> {
        let of_kind = self
            .overrides
            .iter()
            .filter(|(namespace, _)| namespace.is_empty() == (kind == OverrideKind::Cluster));
        of_kind
            .flat_map(|(namespace, policies)| {
                policies
                    .keys()
                    .map(|name| (namespace.clone(), name.clone()))
            })
            .collect()
    }

    /// Reports whether any override policy exists.
    pub(crate) fn has_overrides(&self) -> bool {
        self.overrides.values().any(|policies| !policies.is_empty())
    }

    /// Returns the bindings whose templates these policies may select.
    pub(crate) fn bindings_selected_by(
        &self,
        kind: OverrideKind,
        namespace: &str,
        policies: &[Arc<OverridePolicy>],
    ) -> Vec<BindingKey> {
        let selected = self.bindings.iter().filter(|(_, binding)| {
            let resource = &binding.spec.resource;
            let resource_namespace = resource.namespace.as_deref().unwrap_or_default();
            let in_scope = match kind {
                OverrideKind::Cluster => true,
                OverrideKind::Namespaced => resource_namespace == namespace,
            };
            in_scope
                && policies.iter().any(|policy| {
                    let (api_version, kind) = (&resource.api_version, &resource.kind);
                    policy.may_select(api_version, kind, resource_namespace, &resource.name)
                })
        });
        selected.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the bindings that are being deleted and have a Work in a cluster.
    pub(crate) fn deleted_bindings_in(&self, cluster: &str) -> Vec<BindingKey> {
        let deleted = self.bindings.values().filter(|binding| binding.deleting());
        let deleted = deleted.filter(|binding| {
            let mut works = self.works_of(binding).into_iter();
            works.any(|(key, _)| key.cluster == cluster)
        });
        deleted.map(|binding| binding.key.clone()).collect()
    }

    /// Returns the states of the clusters that have or are to have a copy of a binding's resource.
    pub(crate) fn cluster_states(&self, binding: &Binding) -> ClusterStates {
        let targets = binding.spec.targets().into_iter().map(|target| target.name);
        let works = self.works_of(binding).into_iter();
        let names = targets.chain(works.map(|(key, _)| key.cluster.clone()));
        let state = |name: &String| ClusterState::of(self.clusters.get(name).map(|of| &**of));
        names.map(|name| (name.clone(), state(&name))).collect()
    }

    /// Returns the bindings that have or are to have a copy in a cluster.
    pub(crate) fn bindings_in(&self, cluster: &str) -> BTreeSet<BindingKey> {
        let works = self.works.iter().filter(|(key, _)| key.cluster == cluster);
        let with_work = works.filter_map(|(_, work)| self.binding_of_work(work).cloned());
        with_work.chain(self.bindings_targeting(cluster)).collect()
    }

    /// Returns the bindings that target a cluster.
    pub(crate) fn bindings_targeting(&self, cluster: &str) -> Vec<BindingKey> {
        let targeting = self.bindings.iter().filter(|(_, binding)| {
            let mut targets = binding.spec.targets().into_iter();
            targets.any(|target| target.name == cluster)
        });
        targeting.map(|(key, _)| key.clone()).collect()
    }
}

/// Returns the number of replicas in a Work's manifest.
fn replicas(work: &Work) -> Option<i64> {
    let manifest = work.spec.workload.manifests.first()?;
    manifest.pointer("/spec/replicas")?.as_i64()
}

/// Returns the permanent id of a Work's binding.
fn binding_id(work: &Work) -> Option<&str> {
    let labels = work.metadata.labels.as_ref()?;
    let id = labels
        .get(RESOURCE_BINDING_PERMANENT_ID)
        .or_else(|| labels.get(CLUSTER_RESOURCE_BINDING_PERMANENT_ID))?;
    Some(id.as_str()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests;
