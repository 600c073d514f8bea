//! The plugins that a profile selects: their instances, and their order and weights at each extension point.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::Point;

use crate::config::configuration::{POINTS, PluginRef, PluginsConfig, ProfileConfig};
use crate::config::plugin_lists::{ALL, ProfileError, disables};
use crate::framework::registry::{Enablement, Registry};
use crate::framework::{Args, FactoryError, Plugin};

/// Extension points that need exactly one plugin.
const EXCLUSIVE: [Point; 3] = [Point::QueueSort, Point::Select, Point::Assign];

/// A plugin that is enabled at an extension point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) name: Arc<str>,
    /// Weight at the point Score. The other points ignore the weight.
    pub(super) weight: u32,
}

/// The plugin instances of a profile, with their order at each extension point.
#[derive(Debug)]
pub(super) struct Selection {
    /// Plugins that run at an extension point or estimate replicas, in the order in which the profile enables them.
    pub(super) plugins: Vec<Plugin>,
    points: BTreeMap<Point, Vec<Chosen>>,
}

impl Selection {
    /// Creates and orders the plugins of a profile that has been checked and completed with the defaults.
    ///
    /// # Errors
    /// When a plugin cannot be created, when a plugin is enabled at a point that it does not implement, or when an
    /// [`EXCLUSIVE`] point has no plugin or several plugins.
    pub(super) fn new(
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

    /// Returns the plugins of an extension point, in order.
    pub(super) fn at(&self, point: Point) -> impl Iterator<Item = (&Chosen, &Plugin)> {
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

/// Returns the name of every enabled plugin once. The plugins of `multiPoint` come first.
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

/// Returns the arguments of a plugin and their index in `pluginConfig`.
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
                    "{} does not implement this extension point, only {}",
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
    // Plugins that are enabled in multiPoint and also at this point come first, in the order of this point.
    // kube-scheduler has the same rule.
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

/// Removes the [`Enablement::Base`] plugins if another plugin is enabled, and checks that exactly one plugin remains.
fn leave_one(
    field: &str,
    chosen: &mut Vec<Chosen>,
    registry: &Registry,
) -> Result<(), ProfileError> {
    let is_base = |plugin: &Chosen| registry.enablement_of(&plugin.name) == Some(Enablement::Base);
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
mod tests;
