//! The options of an engine: the names of the enabled in-tree plugins, and the feature gates.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The options of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The enabled plugins.
    pub plugins: PluginSet,
    /// The feature gates.
    pub gates: Gates,
    /// True if the result includes selected clusters that get no replicas.
    pub empty_workload_propagation: bool,
}

/// The feature gates that affect decisions. Each field is serialized under its name in `--feature-gates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "gates are independent switches"
)]
pub struct Gates {
    /// CustomizedClusterResourceModeling: estimates use the resource models of clusters that report usable models.
    pub customized_cluster_resource_modeling: bool,
    /// MultiplePodTemplatesScheduling: if a workload with components must run in a single cluster, estimates count
    /// complete sets of components. The result then lists the replicas of each component, if there are several.
    pub multiple_pod_templates_scheduling: bool,
    /// WorkloadAffinity: the workloads of an affinity group are placed in the same clusters, and the workloads of an
    /// anti-affinity group in different clusters.
    pub workload_affinity: bool,
    /// SchedulingOvercommitProtection: recently placed workloads reduce the free capacity of clusters that do not
    /// report them yet.
    pub scheduling_overcommit_protection: bool,
    /// SpreadByAllFields (specific to Berth): spread constraints by zone, provider and label also apply to a placement
    /// with a constraint by cluster or region.
    pub spread_by_all_fields: bool,
    /// SpreadStaticWeights (specific to Berth): spread constraints also apply to a placement with static weights.
    pub spread_static_weights: bool,
    /// MinGroupsInDivision (specific to Berth): `minGroups` of the spread constraints counts the groups that get
    /// replicas, and not only the selected groups.
    pub min_groups_in_division: bool,
    /// NoScaleUpOnTaints (specific to Berth): a cluster with a taint that the placement does not tolerate keeps its
    /// replicas, and gets no further replicas.
    pub no_scale_up_on_taints: bool,
    /// EstimateGrownRequests (specific to Berth): replicas that still run with a smaller request count with the new
    /// request.
    pub estimate_grown_requests: bool,
    /// FollowMemberAPIs (specific to Berth): a resource leaves a cluster that no longer serves its kind.
    #[serde(rename = "FollowMemberAPIs")]
    pub follow_member_apis: bool,
}

impl Gates {
    /// Returns the defaults of a control plane without Karmada's scheduler. The gates that differ from
    /// [`Self::default`] change decisions of Karmada that contradict the documentation of the API.
    #[must_use]
    pub fn stand_alone() -> Self {
        Self {
            min_groups_in_division: true,
            no_scale_up_on_taints: true,
            estimate_grown_requests: true,
            follow_member_apis: true,
            ..Self::default()
        }
    }
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            customized_cluster_resource_modeling: true,
            multiple_pod_templates_scheduling: false,
            workload_affinity: false,
            scheduling_overcommit_protection: false,
            spread_by_all_fields: false,
            spread_static_weights: false,
            min_groups_in_division: false,
            no_scale_up_on_taints: false,
            estimate_grown_requests: false,
            follow_member_apis: false,
        }
    }
}

/// The names of the enabled plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSet {
    names: Option<BTreeSet<String>>,
}

impl Default for PluginSet {
    fn default() -> Self {
        Self::all()
    }
}

impl PluginSet {
    /// Returns the set that enables all registered plugins.
    pub fn all() -> Self {
        Self { names: None }
    }

    /// Parses the entries of `--plugins` like Karmada: `*` enables all plugins, `name` enables one plugin, and `-name`
    /// disables one plugin.
    ///
    /// If an entry is `*`, the set initially contains all registered plugins. Otherwise, it is initially empty. The
    /// other entries apply from left to right. Unknown names have no effect here. The callers of this function reject
    /// them. The resulting set may be empty. In this case, every cluster passes the filters.
    pub fn parse<'a>(
        entries: impl IntoIterator<Item = &'a str> + Clone,
        registered: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let registered: BTreeSet<&str> = registered.into_iter().collect();
        let mut names: BTreeSet<String> = BTreeSet::new();
        if entries.clone().into_iter().any(|entry| entry == "*") {
            names.extend(registered.iter().map(|&name| name.to_owned()));
        }
        for entry in entries {
            if registered.contains(entry) {
                names.insert(entry.to_owned());
            } else if entry.starts_with('-') && !names.is_empty() {
                names.remove(entry.trim_start_matches('-'));
            }
        }
        Self { names: Some(names) }
    }

    /// Reports whether a plugin is enabled.
    pub fn contains(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_entries_apply_from_left_to_right() {
        for (entries, expected) in [
            (&["*"][..], &["A", "B", "X"][..]),
            (&["*", "-X"], &["A", "B"]),
            (&["-X", "*"], &["A", "B"]),
            (&["*", "-X", "X"], &["A", "B", "X"]),
            (&["*", "--X"], &["A", "B"]),
            (&["-X"], &[]),
            (&[], &[]),
            (&["Y"], &[]),
            (&["A", "-B"], &["A"]),
            (&["-A", "A"], &["A"]),
            (&["a"], &[]),
        ] {
            let set = PluginSet::parse(entries.iter().copied(), ["A", "B", "X"]);
            let found: Vec<&str> = ["A", "B", "X"]
                .into_iter()
                .filter(|name| set.contains(name))
                .collect();
            assert_eq!(found, expected, "{entries:?}");
        }
    }
}
