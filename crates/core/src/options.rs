//! What of the engine can be switched on and off.

use std::collections::BTreeSet;

use crate::plugins::{
    ApiEnablement, ClusterAffinity, ClusterEviction, ClusterLocality, SpreadConstraint,
    TaintToleration, WorkloadAffinity, WorkloadAntiAffinity,
};

/// How an engine decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The plugins in use.
    pub plugins: PluginSet,
    /// The feature gates.
    pub gates: Gates,
    /// Whether selected clusters that get no replicas are part of the result, with 0 replicas.
    pub empty_workload_propagation: bool,
}

/// The feature gates that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "gates are independent switches"
)]
pub struct Gates {
    /// CustomizedClusterResourceModeling: nodes counted by grade are used instead of the summary.
    pub customized_cluster_resource_modeling: bool,
    /// MultiplePodTemplatesScheduling: whole sets of components are counted and reported.
    pub multiple_pod_templates_scheduling: bool,
    /// WorkloadAffinity: workloads of a group go together, or apart.
    pub workload_affinity: bool,
    /// SchedulingOvercommitProtection: what was placed, but is not reported yet, takes room.
    pub scheduling_overcommit_protection: bool,
    /// SpreadByAllFields, which Karmada does not have: zone, provider and label constraints count beside
    /// one by cluster or region, too.
    pub spread_by_all_fields: bool,
    /// SpreadStaticWeights, which Karmada does not have: constraints count beside static weights, too.
    pub spread_static_weights: bool,
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
        }
    }
}

/// The in-tree plugins that need no feature gate.
pub const IN_TREE: [&str; 6] = [
    ApiEnablement::NAME,
    ClusterAffinity::NAME,
    ClusterEviction::NAME,
    ClusterLocality::NAME,
    SpreadConstraint::NAME,
    TaintToleration::NAME,
];

/// The in-tree plugins behind the gate WorkloadAffinity.
pub const GATED: [&str; 2] = [WorkloadAffinity::NAME, WorkloadAntiAffinity::NAME];

/// The names of the plugins in use.
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
    /// Every plugin that is registered.
    pub fn all() -> Self {
        Self { names: None }
    }

    /// Reads the entries of `--plugins` as Karmada does: `*` is everything, `name` adds, `-name` takes away.
    ///
    /// Entries are taken from left to right, after all plugins where `*` is among them, and nothing
    /// otherwise. Taking away from nothing does nothing, and so do unknown names, which callers refuse before: what is
    /// left can be no plugin at all, and then every cluster passes.
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

    /// Whether a plugin is in use.
    pub fn contains(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_lists_are_read_from_left_to_right() {
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
