//! The clusters that bindings have left although their placement is the same. When the placement no longer selects such a
//! cluster, a person has changed the cluster, for example its labels, and the copy leaves at once, as in Karmada.
//!
//! The record begins again when the process restarts. Then the last healthy copy stays.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use berth_api::{Binding, BindingKey};

/// The departures of all bindings.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// The hash of the placement that the scheduler last applied, by binding.
    placements: HashMap<BindingKey, u64>,
    left: HashMap<BindingKey, BTreeSet<String>>,
}

impl Departures {
    /// Records the clusters that a binding has left. `placement` is the placement that the scheduler has applied, as JSON.
    pub(super) fn observe(&mut self, old: Option<&Binding>, new: &Binding, placement: &str) {
        let mut hasher = DefaultHasher::new();
        placement.hash(&mut hasher);
        let hash = hasher.finish();
        let known = self.placements.insert(new.key.clone(), hash);
        if known.is_some_and(|known| known != hash) {
            self.left.remove(&new.key);
            return;
        }
        let is_target = |name: &str| new.spec.clusters.iter().any(|target| target.name == name);
        let former = old.map(|old| &old.spec.clusters[..]).unwrap_or_default();
        let mut left = self.left.remove(&new.key).unwrap_or_default();
        left.extend(former.iter().map(|target| target.name.clone()));
        left.retain(|name| !is_target(name));
        if !left.is_empty() {
            self.left.insert(new.key.clone(), left);
        }
    }

    /// Removes a binding.
    pub(super) fn remove(&mut self, key: &BindingKey) {
        self.placements.remove(key);
        self.left.remove(key);
    }

    /// Returns the clusters that a binding has left with the same placement.
    pub(super) fn of(&self, key: &BindingKey) -> impl Iterator<Item = &String> {
        self.left.get(key).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(clusters: &[&str]) -> Binding {
        let clusters: Vec<_> = clusters
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        let object = json!({ "metadata": { "name": "web", "namespace": "n" },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "clusters": clusters } });
        let object: berth_api::ResourceBinding = serde_json::from_value(object).unwrap();
        object.into()
    }

    #[test]
    fn a_departure_counts_until_the_return_or_another_placement() {
        let mut departures = Departures::default();
        let mut old: Option<Binding> = None;
        for (about, clusters, placement, expected) in [
            ("placed", &["m1", "m2"][..], "a", &[][..]),
            ("one is left", &["m2"], "a", &["m1"]),
            ("both are left", &[], "a", &["m1", "m2"]),
            ("one comes back", &["m1"], "a", &["m2"]),
            ("another placement", &[], "b", &[]),
            ("unchanged", &[], "b", &[]),
        ] {
            let new = binding(clusters);
            departures.observe(old.as_ref(), &new, placement);
            let found: Vec<&String> = departures.of(&new.key).collect();
            assert_eq!(found, expected, "{about}");
            old = Some(new);
        }
    }
}
