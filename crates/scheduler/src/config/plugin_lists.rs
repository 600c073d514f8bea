//! The lists of plugin names in a profile: validation, defaults, and the flag `--plugins`.
//!
//! The rules are the rules of kube-scheduler. The list `multiPoint` enables a plugin at every extension point that the
//! plugin implements. The list of a single extension point overrides `multiPoint`. The default plugins come first in
//! `multiPoint`.

use std::collections::BTreeSet;

use berth_engine::GATED;

use super::configuration::{POINTS, PluginRef, PluginsConfig, PointConfig, ProfileConfig};
use crate::framework::registry::{Enablement, Registry};

/// Wildcard for all plugins.
pub(crate) const ALL: &str = "*";

/// An error in a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub(crate) struct ProfileError {
    /// Path of the field, such as `profiles[0].plugins.filter.enabled[1].name`.
    pub path: String,
    /// The problem and its solution.
    pub message: String,
}

impl ProfileError {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// Prefixes the path with the path of the parent.
    pub(crate) fn below(self, parent: &str) -> Self {
        Self {
            path: format!("{parent}.{}", self.path),
            message: self.message,
        }
    }
}

/// Converts the entries of `--plugins`. `*` enables all plugins except optional plugins, `NAME` adds a plugin, and
/// `-NAME` removes a plugin. `*` applies first. The other entries apply in their order. The plugins of
/// [`Enablement::Base`] are always enabled.
///
/// # Errors
/// When an entry adds an unknown plugin. Karmada ignores such an entry, so a misspelt name may disable a filter there.
/// An entry that removes an unknown plugin only causes a warning in the log.
pub(crate) fn of_flag(entries: &[String], registry: &Registry) -> Result<PluginsConfig, String> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    if entries.iter().any(|entry| entry == ALL) {
        names.extend(registry.with_enablement(Enablement::Default));
        names.extend(registry.with_enablement(Enablement::OutOfTree));
    }
    for entry in entries
        .iter()
        .filter(|entry| !entry.is_empty() && *entry != ALL)
    {
        if let Some(name) = entry.strip_prefix('-') {
            let name = name.trim_start_matches('-');
            // A plugin whose feature gate is off is not registered. Its removal needs no warning.
            if !GATED.contains(&name)
                && let Err(error) = registry.require(name)
            {
                tracing::warn!(%error, "--plugins removes an unknown plugin");
            }
            names.remove(name);
        } else {
            check_name(entry, registry)?;
            names.insert(entry);
        }
    }
    let in_use = |name: &&str| {
        names.contains(name) || registry.enablement_of(name) == Some(Enablement::Base)
    };
    Ok(PluginsConfig {
        multi_point: PointConfig {
            enabled: registry
                .names()
                .filter(in_use)
                .map(PluginRef::new)
                .collect(),
            disabled: vec![PluginRef::new(ALL)],
        },
        ..PluginsConfig::default()
    })
}

/// Adds the default plugins at the beginning of `multiPoint`, except for the plugins that the profile disables.
pub(crate) fn complete(profile: &ProfileConfig, registry: &Registry) -> ProfileConfig {
    let custom = &profile.plugins.multi_point;
    let mut enabled: Vec<PluginRef> = Vec::new();
    if !disables(custom, ALL) {
        let default = [Some(Enablement::Base), Some(Enablement::Default)];
        for name in registry
            .names()
            .filter(|name| default.contains(&registry.enablement_of(name)))
        {
            if let Some(plugin) = custom.enabled.iter().find(|plugin| plugin.name == name) {
                enabled.push(plugin.clone());
            } else if !disables(custom, name) {
                enabled.push(PluginRef::new(name));
            }
        }
    }
    for plugin in &custom.enabled {
        if !enabled.iter().any(|known| known.name == plugin.name) {
            enabled.push(plugin.clone());
        }
    }
    let mut complete = profile.clone();
    complete.plugins.multi_point.enabled = enabled;
    complete
}

/// Checks the scheduler name and the plugin names of a profile.
///
/// # Errors
/// When the scheduler name is empty, or a plugin name is unknown or repeated.
pub(crate) fn check(profile: &ProfileConfig, registry: &Registry) -> Result<(), ProfileError> {
    if profile.scheduler_name.as_deref() == Some("") {
        return Err(ProfileError::new("schedulerName", "must not be empty"));
    }
    let points = POINTS.map(|(point, field)| (field, profile.plugins.point(point)));
    let all = [("multiPoint", &profile.plugins.multi_point)]
        .into_iter()
        .chain(points);
    for (field, config) in all {
        for (list, refs) in [("enabled", &config.enabled), ("disabled", &config.disabled)] {
            let mut seen = BTreeSet::new();
            for (index, plugin) in refs.iter().enumerate() {
                let at = || format!("plugins.{field}.{list}[{index}].name");
                if !(list == "disabled" && plugin.name == ALL) {
                    check_name(&plugin.name, registry)
                        .map_err(|message| ProfileError::new(at(), message))?;
                }
                if !seen.insert(&plugin.name) {
                    return Err(ProfileError::new(
                        at(),
                        format!("{} is named twice", plugin.name),
                    ));
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (index, plugin) in profile.plugin_config.iter().enumerate() {
        let at = || format!("pluginConfig[{index}].name");
        check_name(&plugin.name, registry).map_err(|message| ProfileError::new(at(), message))?;
        if !seen.insert(&plugin.name) {
            return Err(ProfileError::new(
                at(),
                format!("{} has arguments already", plugin.name),
            ));
        }
    }
    Ok(())
}

fn check_name(name: &str, registry: &Registry) -> Result<(), String> {
    registry.require(name).map_err(|error| {
        if GATED.contains(&name) {
            format!("{name} needs --feature-gates=WorkloadAffinity=true")
        } else {
            error.to_string()
        }
    })
}

pub(crate) fn disables(config: &PointConfig, name: &str) -> bool {
    config.disabled.iter().any(|plugin| plugin.name == name)
}
