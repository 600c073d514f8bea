//! What is known of bindings, Works, clusters and overrides on the control plane.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::names::cluster_of_execution_namespace;
use berth_api::well_known::{CLUSTER_RESOURCE_BINDING_PERMANENT_ID, RESOURCE_BINDING_PERMANENT_ID};
use berth_api::{Cluster, Work};

use crate::binding::record::Binding;
use crate::binding::sync::SyncInput;
use crate::binding::targets::targets;
use crate::binding_key::BindingKey;
use crate::overrides::OverrideKind;
use crate::overrides::{OverridePolicy, OverrideSet};

/// Names a Work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkKey {
    pub(crate) cluster: String,
    pub(crate) name: String,
}

impl WorkKey {
    /// The key of a Work, if it lies in an execution namespace.
    pub(crate) fn new(namespace: &str, name: &str) -> Option<Self> {
        Some(Self {
            cluster: cluster_of_execution_namespace(namespace)?.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(crate) struct Index {
    bindings: HashMap<BindingKey, Arc<Binding>>,
    by_id: HashMap<String, BindingKey>,
    works: HashMap<WorkKey, Arc<Work>>,
    works_of: HashMap<String, BTreeSet<WorkKey>>,
    pub(crate) clusters: BTreeMap<String, Arc<Cluster>>,
    /// By namespace, which is empty for ClusterOverridePolicies, and name.
    overrides: BTreeMap<String, BTreeMap<String, Arc<OverridePolicy>>>,
}

impl Index {
    pub(crate) fn binding(&self, key: &BindingKey) -> Option<&Arc<Binding>> {
        self.bindings.get(key)
    }

    pub(crate) fn binding_keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.bindings.keys()
    }

    /// Keeps a binding; the one of before, if there was one.
    pub(crate) fn keep_binding(&mut self, binding: Arc<Binding>) -> Option<Arc<Binding>> {
        let key = binding.key.clone();
        if !binding.id.is_empty() {
            self.by_id.insert(binding.id.clone(), key.clone());
        }
        self.bindings.insert(key, binding)
    }

    pub(crate) fn forget_binding(&mut self, key: &BindingKey) {
        if let Some(binding) = self.bindings.remove(key)
            && self.by_id.get(&binding.id) == Some(key)
        {
            self.by_id.remove(&binding.id);
        }
    }

    /// The binding that a Work belongs to.
    pub(crate) fn binding_of(&self, work: &Work) -> Option<&BindingKey> {
        self.by_id.get(binding_id(work)?)
    }

    pub(crate) fn works(&self) -> impl Iterator<Item = (&WorkKey, &Arc<Work>)> {
        self.works.iter()
    }

    /// A Work.
    pub(crate) fn work(&self, key: &WorkKey) -> Option<&Arc<Work>> {
        self.works.get(key)
    }

    /// Keeps a Work; the one of before, if there was one.
    pub(crate) fn keep_work(&mut self, key: WorkKey, work: Arc<Work>) -> Option<Arc<Work>> {
        let old = self.works.insert(key.clone(), Arc::clone(&work));
        if let Some(old) = &old
            && binding_id(old) != binding_id(&work)
        {
            self.disown(&key, old);
        }
        if let Some(id) = binding_id(&work) {
            self.works_of.entry(id.to_owned()).or_default().insert(key);
        }
        old
    }

    pub(crate) fn forget_work(&mut self, key: &WorkKey) -> Option<Arc<Work>> {
        let work = self.works.remove(key)?;
        self.disown(key, &work);
        Some(work)
    }

    fn disown(&mut self, key: &WorkKey, work: &Work) {
        let Some(id) = binding_id(work) else { return };
        if let Some(works) = self.works_of.get_mut(id) {
            works.remove(key);
            if works.is_empty() {
                self.works_of.remove(id);
            }
        }
    }

    /// Whether a cluster has Works.
    pub(crate) fn has_works(&self, cluster: &str) -> bool {
        self.works.keys().any(|key| key.cluster == cluster)
    }

    /// The Works of a binding.
    pub(crate) fn works_of(&self, binding: &Binding) -> Vec<(&WorkKey, &Arc<Work>)> {
        let keys = self.works_of.get(&binding.id).into_iter().flatten();
        keys.filter_map(|key| self.works.get_key_value(key))
            .collect()
    }

    /// All that is needed to bring the Works of a binding in line.
    pub(crate) fn sync_input(&self, binding: &Arc<Binding>) -> SyncInput {
        let mut works: BTreeMap<String, Vec<Arc<Work>>> = BTreeMap::new();
        for (key, work) in self.works_of(binding) {
            let of_cluster = works.entry(key.cluster.clone()).or_default();
            of_cluster.push(Arc::clone(work));
        }
        let clusters = targets(&binding.spec).into_iter().filter_map(|target| {
            let cluster = self.clusters.get(&target.name)?;
            Some((target.name, Arc::clone(cluster)))
        });
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
        SyncInput {
            binding: Arc::clone(binding),
            works,
            clusters: clusters.collect(),
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

    /// Keeps an override policy, or forgets it; the one of before, if there was one.
    pub(crate) fn set_override(
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

    /// The override policies of a kind, by namespace and name.
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

    /// Whether there is any override policy.
    pub(crate) fn has_overrides(&self) -> bool {
        self.overrides.values().any(|policies| !policies.is_empty())
    }

    /// The bindings whose resource one of these policies may select.
    pub(crate) fn selected_by(
        &self,
        kind: OverrideKind,
        namespace: &str,
        policies: &[Arc<OverridePolicy>],
    ) -> Vec<BindingKey> {
        let selected = self.bindings.iter().filter(|(_, binding)| {
            let resource = &binding.spec.resource;
            let of_resource = resource.namespace.as_deref().unwrap_or_default();
            let in_scope = match kind {
                OverrideKind::Cluster => true,
                OverrideKind::Namespaced => of_resource == namespace,
            };
            in_scope
                && policies.iter().any(|policy| {
                    let (api_version, kind) = (&resource.api_version, &resource.kind);
                    policy.may_select(api_version, kind, of_resource, &resource.name)
                })
        });
        selected.map(|(key, _)| key.clone()).collect()
    }

    /// The bindings that have a cluster among their targets.
    pub(crate) fn targeting(&self, cluster: &str) -> Vec<BindingKey> {
        let targeting = self.bindings.iter().filter(|(_, binding)| {
            let mut targets = targets(&binding.spec).into_iter();
            targets.any(|target| target.name == cluster)
        });
        targeting.map(|(key, _)| key.clone()).collect()
    }
}

/// The id of the binding that a Work belongs to.
fn binding_id(work: &Work) -> Option<&str> {
    let labels = work.metadata.labels.as_ref()?;
    let id = labels
        .get(RESOURCE_BINDING_PERMANENT_ID)
        .or_else(|| labels.get(CLUSTER_RESOURCE_BINDING_PERMANENT_ID))?;
    Some(id.as_str()).filter(|id| !id.is_empty())
}
