//! The members of each workload affinity group and their clusters (gate WorkloadAffinity).
//!
//! `spec.workloadAffinityGroups` of a binding names an affinity group and an anti-affinity group. A decision about a
//! binding depends on the clusters of the other members of these groups. If the decision about a member is not written
//! yet, its decided clusters replace the clusters in its spec.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::binding::WorkloadAffinityGroups;
use berth_api::{Binding, BindingKey};
use berth_engine::WorkloadPeers;

/// The bindings in each group, and the clusters of decisions that are not written yet.
#[derive(Debug, Default)]
pub struct AffinityGroups {
    members: HashMap<String, BTreeSet<BindingKey>>,
    decided: HashMap<BindingKey, Vec<String>>,
}

impl AffinityGroups {
    /// Moves a binding from the groups of its old state to the groups of its new state. `old` is `None` for a new
    /// binding, and `new` is `None` for a deleted binding.
    pub fn replace(&mut self, old: Option<&Binding>, new: Option<&Binding>) {
        for (binding, joins) in [(old, false), (new, true)] {
            let Some(binding) = binding else { continue };
            for group in names(binding) {
                let members = self.members.entry(group.to_owned()).or_default();
                if joins {
                    members.insert(binding.key.clone());
                } else {
                    members.remove(&binding.key);
                }
            }
        }
        self.members.retain(|_, members| !members.is_empty());
    }

    /// Stores the clusters of a decision. They replace the clusters in the binding's spec until [`Self::complete`].
    pub fn decided(&mut self, key: &BindingKey, clusters: Vec<String>) {
        self.decided.insert(key.clone(), clusters);
    }

    /// Removes the clusters of a decision after its write, even if the write failed. From then on, the clusters in the
    /// binding's spec are used.
    pub fn complete(&mut self, key: &BindingKey) {
        self.decided.remove(key);
    }

    /// Returns the clusters of the peers of a binding. A peer is another member of the same group in the namespace of
    /// the binding's resource. `find` looks up a binding by its key.
    pub fn peers(
        &self,
        binding: &Binding,
        find: impl Fn(&BindingKey) -> Option<Arc<Binding>>,
    ) -> WorkloadPeers {
        let groups = binding.spec.workload_affinity_groups.as_ref();
        let namespace = binding.spec.resource.namespace.as_deref();
        let clusters =
            |group: Option<&String>, is_member: fn(&WorkloadAffinityGroups) -> Option<&String>| {
                let Some(group) = group.filter(|group| !group.is_empty()) else {
                    return Vec::new();
                };
                let members = self.members.get(group).into_iter().flatten();
                members
                    .filter(|key| **key != binding.key && key.namespace.as_deref() == namespace)
                    .filter_map(|key| {
                        let peer = find(key)?;
                        let groups = peer.spec.workload_affinity_groups.as_ref()?;
                        (is_member(groups) == Some(group)).then(|| self.clusters_of(&peer))
                    })
                    .filter(|clusters| !clusters.is_empty())
                    .collect()
            };
        WorkloadPeers {
            affinity: clusters(
                groups.and_then(|groups| groups.affinity_group.as_ref()),
                |groups| groups.affinity_group.as_ref(),
            ),
            anti_affinity: clusters(
                groups.and_then(|groups| groups.anti_affinity_group.as_ref()),
                |groups| groups.anti_affinity_group.as_ref(),
            ),
        }
    }

    fn clusters_of(&self, peer: &Binding) -> Vec<String> {
        match self.decided.get(&peer.key) {
            Some(clusters) => clusters.clone(),
            None => peer
                .spec
                .clusters
                .iter()
                .map(|target| target.name.clone())
                .collect(),
        }
    }
}

fn names(binding: &Binding) -> impl Iterator<Item = &str> {
    let groups = binding.spec.workload_affinity_groups.as_ref();
    // Karmada supports affinity groups for ResourceBindings only.
    let groups = groups.filter(|_| binding.key.namespace.is_some());
    groups
        .into_iter()
        .flat_map(|groups| [&groups.affinity_group, &groups.anti_affinity_group])
        .flatten()
        .map(String::as_str)
        .filter(|group| !group.is_empty())
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::json;

    use super::*;

    fn binding(
        namespace: &str,
        name: &str,
        affinity: &str,
        anti_affinity: &str,
        clusters: &[&str],
    ) -> Arc<Binding> {
        let clusters: Vec<_> = clusters
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        let object = json!({
            "metadata": { "name": name, "namespace": namespace },
            "spec": {
                "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": namespace },
                "clusters": clusters,
                "workloadAffinityGroups": { "affinityGroup": affinity, "antiAffinityGroup": anti_affinity },
            },
        });
        Arc::new(
            serde_json::from_value::<ResourceBinding>(object)
                .unwrap()
                .into(),
        )
    }

    #[test]
    fn peers_are_the_placed_members_of_the_same_group_and_namespace() {
        let all = [
            binding("n", "own", "app=a", "app=b", &["m9"]),
            binding("n", "together", "app=a", "", &["m1", "m2"]),
            binding("n", "apart", "", "app=b", &["m3"]),
            binding("n", "unplaced", "app=a", "app=b", &[]),
            binding("n", "other", "app=c", "app=a", &["m4"]),
            binding("other", "together", "app=a", "app=b", &["m5"]),
        ];
        let mut groups = AffinityGroups::default();
        for binding in &all {
            groups.replace(None, Some(binding));
        }
        let find = |key: &BindingKey| all.iter().find(|binding| binding.key == *key).cloned();
        let peers = groups.peers(&all[0], find);
        assert_eq!(peers.affinity, [["m1", "m2"]]);
        assert_eq!(peers.anti_affinity, [["m3"]]);

        groups.decided(&all[3].key, vec!["m6".to_owned()]);
        let peers = groups.peers(&all[0], find);
        assert_eq!(
            peers.anti_affinity,
            [["m3"], ["m6"]],
            "the clusters of an unwritten decision are used"
        );
        groups.complete(&all[3].key);
        groups.replace(Some(&all[2]), None);
        assert!(groups.peers(&all[0], find).anti_affinity.is_empty());
    }
}
