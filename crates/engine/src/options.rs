//! The options of an engine: the names of the enabled in-tree plugins, and the feature gates.

use std::collections::BTreeSet;

use berth_api::feature_gates::EngineGates;

/// The options of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The enabled plugins.
    pub plugins: PluginSet,
    /// The feature gates.
    pub gates: EngineGates,
    /// True if the result includes selected clusters that get no replicas.
    pub empty_workload_propagation: bool,
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
