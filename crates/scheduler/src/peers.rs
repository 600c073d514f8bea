//! Where the workloads of the same affinity groups are (gate WorkloadAffinity).
//!
//! Members that were decided and whose write has not landed count with the clusters decided: decisions are
//! serial, and so the next one sees them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::binding::WorkloadAffinityGroups;
use berth_core::WorkloadPeers;

use crate::binding::{Binding, BindingKey};

/// The members of every group, and what was decided for those whose write is in flight.
#[derive(Debug, Default)]
pub struct Groups {
    members: HashMap<String, BTreeSet<BindingKey>>,
    assigning: HashMap<BindingKey, Vec<String>>,
}

impl Groups {
    /// A binding is there, in this state; before it was in that one.
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

    /// A result was decided and is being written.
    pub fn assigning(&mut self, key: &BindingKey, clusters: Vec<String>) {
        self.assigning.insert(key.clone(), clusters);
    }

    /// The write has ended, one way or the other: the stored object counts again.
    pub fn settled(&mut self, key: &BindingKey) {
        self.assigning.remove(key);
    }

    /// The peers of a binding: the other members of its groups in the namespace of its resource.
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
        match self.assigning.get(&peer.key) {
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
    // Karmada keeps these groups for namespaced bindings only.
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
            binding("n", "stranger", "app=c", "app=a", &["m4"]),
            binding("elsewhere", "together", "app=a", "app=b", &["m5"]),
        ];
        let mut groups = Groups::default();
        for binding in &all {
            groups.replace(None, Some(binding));
        }
        let find = |key: &BindingKey| all.iter().find(|binding| binding.key == *key).cloned();
        let peers = groups.peers(&all[0], find);
        assert_eq!(peers.affinity, [["m1", "m2"]]);
        assert_eq!(peers.anti_affinity, [["m3"]]);

        groups.assigning(&all[3].key, vec!["m6".to_owned()]);
        let peers = groups.peers(&all[0], find);
        assert_eq!(
            peers.anti_affinity,
            [["m3"], ["m6"]],
            "a write in flight counts"
        );
        groups.settled(&all[3].key);
        groups.replace(Some(&all[2]), None);
        assert!(groups.peers(&all[0], find).anti_affinity.is_empty());
    }
}
