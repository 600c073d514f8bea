//! The options of an engine: enabled plugins and feature gates.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The options of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The enabled plugins.
    pub plugins: PluginSet,
    /// The feature gates.
    pub gates: Gates,
    /// Includes selected clusters without replicas in the result.
    pub empty_workload_propagation: bool,
}

/// The feature gates that affect decisions. Serialized under the names of `--feature-gates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "gates are independent switches"
)]
pub struct Gates {
    /// CustomizedClusterResourceModeling: resource models replace the summary.
    pub customized_cluster_resource_modeling: bool,
    /// MultiplePodTemplatesScheduling: complete sets of components are counted and reported.
    pub multiple_pod_templates_scheduling: bool,
    /// WorkloadAffinity: workloads of a group are placed together or apart.
    pub workload_affinity: bool,
    /// SchedulingOvercommitProtection: recent placements that clusters do not report yet occupy capacity.
    pub scheduling_overcommit_protection: bool,
    /// SpreadByAllFields, specific to Berth: zone, provider and label constraints apply in addition to cluster
    /// or region constraints.
    pub spread_by_all_fields: bool,
    /// SpreadStaticWeights, specific to Berth: constraints apply in addition to static weights.
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
    /// Enables all registered plugins.
    pub fn all() -> Self {
        Self { names: None }
    }

    /// Parses the entries of `--plugins` like Karmada: `*` enables all plugins, `name` adds one, `-name`
    /// removes one.
    ///
    /// Entries apply from left to right, starting with all plugins if there is a `*` and none otherwise.
    /// Unknown names have no effect; callers reject them. The set may become empty, and then every cluster
    /// passes.
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
