//! A profile: which plugins run at which extension points, in which order and with which weights.
//!
//! The rules are those of kube-scheduler. Plugins of `multiPoint` run at every point that they serve; what is said
//! of one point wins over `multiPoint` there. The default plugins are the beginning of `multiPoint`.
//! Knows names and points; what a plugin does, and where it came from, is [`super::registry`]'s business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::{GATED, Point};

use super::args::Args;
use super::plugin::Plugin;
use super::registry::{FactoryError, Registry, Standing};
use crate::config::configuration::{POINTS, PluginRef, PluginsConfig, PointConfig, ProfileConfig};

/// In place of a name: all plugins.
const ALL: &str = "*";

/// Points that have exactly one plugin.
const EXCLUSIVE: [Point; 3] = [Point::QueueSort, Point::Select, Point::Assign];

/// What is wrong with a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ProfileError {
    /// Where, as `profiles[0].plugins.filter.enabled[1].name`.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl ProfileError {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// Seen from one level above.
    pub(crate) fn below(self, parent: &str) -> Self {
        Self {
            path: format!("{parent}.{}", self.path),
            message: self.message,
        }
    }
}

/// The plugins that the entries of `--plugins` ask for: `*` is everything that is not optional, `name` adds,
/// `-name` takes away, from left to right after the `*`.
///
/// # Errors
/// When an entry names no plugin. Karmada ignores such an entry; a misspelt list would then run without filters.
pub fn of_flag(entries: &[String], registry: &Registry) -> Result<PluginsConfig, String> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    if entries.iter().any(|entry| entry == ALL) {
        names.extend(registry.standing(Standing::Default));
        names.extend(registry.standing(Standing::OutOfTree));
    }
    for entry in entries
        .iter()
        .filter(|entry| !entry.is_empty() && *entry != ALL)
    {
        if let Some(name) = entry.strip_prefix('-') {
            let name = name.trim_start_matches('-');
            // A plugin behind a gate that is off runs nowhere, which is what the entry asks for.
            if !GATED.contains(&name) {
                known(name, registry)?;
            }
            names.remove(name);
        } else {
            known(entry, registry)?;
            names.insert(entry);
        }
    }
    let in_use =
        |name: &&str| names.contains(name) || registry.standing_of(name) == Some(Standing::Base);
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

/// The profile with the default plugins at the beginning of `multiPoint`, where they are not disabled.
pub fn complete(profile: &ProfileConfig, registry: &Registry) -> ProfileConfig {
    let said = &profile.plugins.multi_point;
    let mut enabled: Vec<PluginRef> = Vec::new();
    if !disables(said, ALL) {
        let default = [Some(Standing::Base), Some(Standing::Default)];
        for name in registry
            .names()
            .filter(|name| default.contains(&registry.standing_of(name)))
        {
            if let Some(custom) = said.enabled.iter().find(|custom| custom.name == name) {
                enabled.push(custom.clone());
            } else if !disables(said, name) {
                enabled.push(PluginRef::new(name));
            }
        }
    }
    for custom in &said.enabled {
        if !enabled.iter().any(|known| known.name == custom.name) {
            enabled.push(custom.clone());
        }
    }
    let mut complete = profile.clone();
    complete.plugins.multi_point.enabled = enabled;
    complete
}

/// Checks the names in a profile.
///
/// # Errors
/// When a name is no plugin's, or is there twice.
pub fn check(profile: &ProfileConfig, registry: &Registry) -> Result<(), ProfileError> {
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
                    known(&plugin.name, registry)
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
        known(&plugin.name, registry).map_err(|message| ProfileError::new(at(), message))?;
        if !seen.insert(&plugin.name) {
            return Err(ProfileError::new(
                at(),
                format!("{} has arguments already", plugin.name),
            ));
        }
    }
    Ok(())
}

fn known(name: &str, registry: &Registry) -> Result<(), String> {
    registry.known(name).map_err(|error| {
        if GATED.contains(&name) {
            format!("{name} needs --feature-gates=WorkloadAffinity=true")
        } else {
            error.to_string()
        }
    })
}

fn disables(config: &PointConfig, name: &str) -> bool {
    config.disabled.iter().any(|plugin| plugin.name == name)
}

/// A plugin at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) name: Arc<str>,
    /// Means something at Score.
    pub(crate) weight: u32,
}

/// The plugins of a profile, made, with their order at each point.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Those that run somewhere, in the order in which they were enabled.
    pub(crate) plugins: Vec<Plugin>,
    points: BTreeMap<Point, Vec<Chosen>>,
}

impl Selection {
    /// Makes the plugins of a complete and checked profile, and puts them in order.
    ///
    /// # Errors
    /// When a plugin cannot be made, is enabled at a point that it does not serve, or when a point that needs
    /// exactly one has another number of them.
    pub(crate) fn new(
        profile: &ProfileConfig,
        registry: &Registry,
        mut make: impl FnMut(&str, &Args) -> Result<Plugin, FactoryError>,
    ) -> Result<Self, ProfileError> {
        let mut named: Vec<(Arc<str>, Plugin)> = Vec::new();
        for name in enabled_anywhere(&profile.plugins) {
            let (index, args) = args_of(profile, &name);
            let plugin = make(&name, &args).map_err(|error| refused(&name, index, &error))?;
            named.push((name, plugin));
        }
        let by_name: BTreeMap<&str, &Plugin> = named
            .iter()
            .map(|(name, plugin)| (&**name, plugin))
            .collect();
        let mut points = BTreeMap::new();
        for (point, field) in POINTS {
            let mut chosen = choose(point, field, &profile.plugins, &by_name)?;
            if EXCLUSIVE.contains(&point) {
                leave_one(field, &mut chosen, registry)?;
            }
            points.insert(point, chosen);
        }
        let runs = |name: &Arc<str>, plugin: &Plugin| {
            plugin.estimator.is_some()
                || points
                    .values()
                    .flatten()
                    .any(|chosen: &Chosen| chosen.name == *name)
        };
        let plugins = named
            .iter()
            .filter(|(name, plugin)| runs(name, plugin))
            .map(|(_, plugin)| plugin.clone())
            .collect();
        Ok(Self { plugins, points })
    }

    /// The plugins of a point, in their order. The same plugins are in [`Self::plugins`].
    pub(crate) fn at(&self, point: Point) -> impl Iterator<Item = (&Chosen, &Plugin)> {
        self.points
            .get(&point)
            .into_iter()
            .flatten()
            .filter_map(|chosen| {
                let plugin = self
                    .plugins
                    .iter()
                    .find(|plugin| plugin.name == chosen.name)?;
                Some((chosen, plugin))
            })
    }
}

/// Every enabled plugin once, those of `multiPoint` first.
fn enabled_anywhere(plugins: &PluginsConfig) -> Vec<Arc<str>> {
    let points = POINTS.into_iter().map(|(point, _)| plugins.point(point));
    let mut names: Vec<Arc<str>> = Vec::new();
    for plugin in std::iter::once(&plugins.multi_point)
        .chain(points)
        .flat_map(|point| &point.enabled)
    {
        if !names.iter().any(|known| **known == *plugin.name) {
            names.push(plugin.name.as_str().into());
        }
    }
    names
}

/// The arguments of a plugin, and which entry of `pluginConfig` has them.
fn args_of(profile: &ProfileConfig, name: &str) -> (Option<usize>, Args) {
    let found = profile
        .plugin_config
        .iter()
        .enumerate()
        .find(|(_, plugin)| plugin.name == name);
    match found {
        Some((index, plugin)) => (Some(index), Args::new(plugin.args.clone())),
        None => (None, Args::default()),
    }
}

fn refused(name: &str, index: Option<usize>, error: &FactoryError) -> ProfileError {
    let (below, message) = match error {
        FactoryError::Args(error) => (error.path.as_str(), error.message.clone()),
        FactoryError::Other(message) => ("", message.clone()),
    };
    let Some(index) = index else {
        return ProfileError::new("pluginConfig", format!("plugin {name}: {message}"));
    };
    let separator = if below.is_empty() || below.starts_with('[') {
        ""
    } else {
        "."
    };
    ProfileError::new(
        format!("pluginConfig[{index}].args{separator}{below}"),
        format!("plugin {name}: {message}"),
    )
}

fn choose(
    point: Point,
    field: &str,
    plugins: &PluginsConfig,
    made: &BTreeMap<&str, &Plugin>,
) -> Result<Vec<Chosen>, ProfileError> {
    let serves = |name: &str| {
        made.get(name)
            .is_some_and(|plugin| plugin.points().contains(&point))
    };
    let here = plugins.point(point);
    for (index, plugin) in here.enabled.iter().enumerate() {
        if !serves(&plugin.name) {
            let serves = made.get(plugin.name.as_str()).map(|plugin| plugin.points());
            let serves = serves.unwrap_or_default().into_iter().map(Point::as_str);
            let serves: Vec<&str> = serves.collect();
            return Err(ProfileError::new(
                format!("plugins.{field}.enabled[{index}].name"),
                format!(
                    "{} does not serve this point, but {}",
                    plugin.name,
                    serves.join(", ")
                ),
            ));
        }
    }
    let everywhere: Vec<&PluginRef> = if disables(here, ALL) {
        Vec::new()
    } else {
        plugins
            .multi_point
            .enabled
            .iter()
            .filter(|plugin| serves(&plugin.name) && !disables(here, &plugin.name))
            .collect()
    };
    // Those that are named here as well go first, in the order in which they are named here.
    let is_in = |list: &[&PluginRef], name: &str| list.iter().any(|plugin| plugin.name == name);
    let named: Vec<&PluginRef> = here.enabled.iter().collect();
    let (first, last): (Vec<&PluginRef>, Vec<&PluginRef>) = named
        .iter()
        .partition(|plugin| is_in(&everywhere, &plugin.name));
    let between = everywhere
        .iter()
        .copied()
        .filter(|plugin| !is_in(&named, &plugin.name));
    Ok(first
        .into_iter()
        .chain(between)
        .chain(last)
        .map(|plugin| Chosen {
            name: plugin.name.as_str().into(),
            weight: plugin.weight.max(1),
        })
        .collect())
}

/// Lets base plugins give way, and sees that exactly one plugin is left.
fn leave_one(
    field: &str,
    chosen: &mut Vec<Chosen>,
    registry: &Registry,
) -> Result<(), ProfileError> {
    let is_base = |plugin: &Chosen| registry.standing_of(&plugin.name) == Some(Standing::Base);
    if chosen.iter().any(|plugin| !is_base(plugin)) {
        chosen.retain(|plugin| !is_base(plugin));
    }
    let names: Vec<&str> = chosen.iter().map(|plugin| &*plugin.name).collect();
    let message = match names.as_slice() {
        [_] => return Ok(()),
        [] => "exactly one plugin has to be enabled here, and there is none".to_owned(),
        names => format!(
            "exactly one plugin has to be enabled here, not {}",
            names.join(" and ")
        ),
    };
    Err(ProfileError::new(format!("plugins.{field}"), message))
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
