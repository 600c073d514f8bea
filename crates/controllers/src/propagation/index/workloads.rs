//! The workloads that resources follow: a resource leaves a cluster after the workloads that depend on it, and after the
//! workloads of its policy in its namespace.

use std::collections::{BTreeSet, HashMap};

use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID,
};
use berth_api::{Binding, BindingKey};

use crate::propagation::binding::migration::observed::runs_pods;

/// The bindings of workloads, by policy and namespace.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    by_policy: HashMap<(String, String), BTreeSet<BindingKey>>,
}

/// Returns the permanent id of a binding's policy, and the namespace of the binding.
fn policy(binding: &Binding) -> Option<(String, String)> {
    let labels = binding.metadata.labels.as_ref()?;
    let policy = labels
        .get(PROPAGATION_POLICY_PERMANENT_ID)
        .or_else(|| labels.get(CLUSTER_PROPAGATION_POLICY_PERMANENT_ID))?;
    let namespace = binding.key.namespace_or_empty();
    Some((policy.clone(), namespace.to_owned()))
}

impl Workloads {
    /// Stores a binding, if it is one of a workload.
    pub(super) fn insert(&mut self, binding: &Binding) {
        if let Some(policy) = policy(binding).filter(|_| runs_pods(&binding.spec)) {
            let workloads = self.by_policy.entry(policy).or_default();
            workloads.insert(binding.key.clone());
        }
    }

    /// Removes a binding.
    pub(super) fn remove(&mut self, binding: &Binding) {
        if let Some(policy) = policy(binding)
            && let Some(workloads) = self.by_policy.get_mut(&policy)
        {
            workloads.remove(&binding.key);
            if workloads.is_empty() {
                self.by_policy.remove(&policy);
            }
        }
    }

    /// Returns the bindings that a binding may follow: those that require it, and the workloads of its policy.
    pub(super) fn of(&self, binding: &Binding) -> BTreeSet<BindingKey> {
        let of_policy = policy(binding).and_then(|policy| self.by_policy.get(&policy));
        let required_by = binding.spec.required_by.iter().map(|parent| {
            let namespace = parent.namespace.as_deref().unwrap_or_default();
            BindingKey::new(namespace, &parent.name)
        });
        let of_policy = of_policy.into_iter().flatten().cloned();
        of_policy.chain(required_by).collect()
    }
}
