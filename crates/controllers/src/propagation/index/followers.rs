//! The resources that follow workloads: the dependencies of a workload, and the other objects of its policy. They leave a
//! cluster after the workload.

use std::collections::{BTreeSet, HashMap};

use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID,
};
use berth_api::{Binding, BindingKey};

/// The bindings by the policy that they share, and by the bindings that require them.
#[derive(Debug, Default)]
pub(super) struct Followers {
    of_policy: HashMap<String, BTreeSet<BindingKey>>,
    of_binding: HashMap<BindingKey, BTreeSet<BindingKey>>,
}

/// Returns the keys of the bindings that require a binding.
fn required_by(binding: &Binding) -> impl Iterator<Item = BindingKey> {
    let parents = binding.spec.required_by.iter();
    parents.map(|parent| {
        BindingKey::new(
            parent.namespace.as_deref().unwrap_or_default(),
            &parent.name,
        )
    })
}

/// Returns the permanent id of the policy that manages a binding.
fn policy(binding: &Binding) -> Option<&String> {
    let labels = binding.metadata.labels.as_ref()?;
    labels
        .get(PROPAGATION_POLICY_PERMANENT_ID)
        .or_else(|| labels.get(CLUSTER_PROPAGATION_POLICY_PERMANENT_ID))
}

impl Followers {
    pub(super) fn insert(&mut self, binding: &Binding) {
        let key = &binding.key;
        if let Some(policy) = policy(binding) {
            let sharing = self.of_policy.entry(policy.clone()).or_default();
            sharing.insert(key.clone());
        }
        for parent in required_by(binding) {
            self.of_binding
                .entry(parent)
                .or_default()
                .insert(key.clone());
        }
    }

    pub(super) fn remove(&mut self, binding: &Binding) {
        let key = &binding.key;
        if let Some(policy) = policy(binding) {
            remove(&mut self.of_policy, policy, key);
        }
        for parent in required_by(binding) {
            remove(&mut self.of_binding, &parent, key);
        }
    }

    /// Returns the bindings that may follow a binding.
    pub(super) fn of(&self, binding: &Binding) -> BTreeSet<BindingKey> {
        let sharing = policy(binding).and_then(|policy| self.of_policy.get(policy));
        let required = self.of_binding.get(&binding.key);
        let followers = sharing.into_iter().chain(required).flatten();
        followers
            .filter(|key| **key != binding.key)
            .cloned()
            .collect()
    }

    /// Returns the bindings that a binding may follow.
    pub(super) fn leaders(&self, binding: &Binding) -> BTreeSet<BindingKey> {
        let sharing = policy(binding).and_then(|policy| self.of_policy.get(policy));
        let sharing = sharing.into_iter().flatten().cloned();
        let leaders = sharing.chain(required_by(binding));
        leaders.filter(|key| *key != binding.key).collect()
    }
}

fn remove<K: std::hash::Hash + Eq>(
    index: &mut HashMap<K, BTreeSet<BindingKey>>,
    entry: &K,
    key: &BindingKey,
) {
    if let Some(keys) = index.get_mut(entry) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(entry);
        }
    }
}
