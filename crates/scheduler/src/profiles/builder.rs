//! Construction of frameworks from a configuration. A framework is a profile at run time, with its plugins and its
//! engine.
//!
//! An invalid configuration builds nothing. A configuration that changes at run time is therefore applied completely or
//! rejected completely.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use berth_api::feature_gates::EngineGates;
use berth_engine::{
    Engine, EngineOptions, Estimator, Filter, GeneralEstimator, PluginError, PluginSet, Plugins,
    Point, Weighted,
};
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::selection::{Chosen, Selection};
use super::{Framework, Frameworks};
use crate::config::configuration::ProfileConfig;
use crate::config::effective::decision_document;
use crate::config::plugin_lists::ProfileError;
use crate::config::{ConfigError, DeclaredProfiles};
use crate::extender::{ExtenderMetrics, Extenders};
use crate::framework::plugin::FilterPoint;
use crate::framework::plugin_calls::{ExtensionPoints, Named};
use crate::framework::plugin_messages::PluginMessage;
use crate::framework::{
    Args, Bind, FactoryError, Handle, Permits, Plugin, QueueSort, Registry, State,
};
use crate::metrics::Metrics;
use crate::template::Templates;

/// The builder of frameworks, with all inputs except the configuration.
#[derive(Clone)]
pub(crate) struct FrameworkBuilder {
    /// All available plugins.
    pub(crate) registry: Registry,
    pub(crate) gates: EngineGates,
    pub(crate) empty_workload_propagation: bool,
    /// Estimators in addition to the general estimator and the estimators of plugins.
    pub(crate) estimators: Vec<Arc<dyn Estimator>>,
    pub(crate) client: Client,
    /// Channel for the messages of plugins to the scheduler.
    pub(crate) messages: mpsc::UnboundedSender<PluginMessage>,
    /// The state of clusters and bindings that plugins can read.
    pub(crate) plugin_state: State,
    pub(crate) metrics: Metrics,
    pub(crate) extender_metrics: ExtenderMetrics,
    /// Token that is cancelled when the scheduler stops.
    pub(crate) stopping: CancellationToken,
}

/// A configuration that is ready to run: its frameworks, its extenders and the tasks of its plugins.
#[derive(Debug)]
pub(crate) struct ActiveConfig {
    pub(crate) frameworks: Frameworks,
    /// HTTP extenders. The frameworks contain the plugins that call them.
    pub(crate) extenders: Option<Extenders>,
    /// The configuration from which the frameworks were built.
    pub(crate) declared: DeclaredProfiles,
    pub(crate) profiles: Vec<ProfileConfig>,
    /// The state of clusters and bindings that plugins can read.
    pub(crate) plugin_state: State,
    /// Guard that ends the plugins' tasks when this value is dropped.
    pub(crate) plugin_tasks: DropGuard,
}

impl ActiveConfig {
    /// Returns the profiles and extenders as a configuration document. Secrets are redacted.
    pub(crate) fn document(&self) -> serde_json::Value {
        decision_document(&self.profiles, self.declared.extenders())
    }
}

/// The framework of one profile. The builder compares `queue_sort` between all profiles, and logs the names in
/// `enabled`.
struct BuiltProfile {
    framework: Framework,
    queue_sort: Named<dyn QueueSort>,
    enabled: Vec<Arc<str>>,
}

impl fmt::Debug for FrameworkBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameworkBuilder")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl FrameworkBuilder {
    /// Builds the frameworks and extenders of a configuration.
    ///
    /// # Errors
    /// When the configuration is invalid. The error names the position in the configuration.
    pub(crate) fn build(&self, declared: &DeclaredProfiles) -> Result<ActiveConfig, ConfigError> {
        let profiles = declared.profiles(&self.registry)?;
        let extenders = Extenders::new(declared.extenders(), &self.extender_metrics)
            .map_err(|error| declared.error(ProfileError::new(error.path, error.message)))?;
        let stopping = self.stopping.child_token();
        let plugin_tasks = stopping.clone().drop_guard();
        let permits = Permits::new("Templates", self.messages.clone());
        let templates = Templates::new(
            self.client.clone(),
            move || permits.refresh(),
            stopping.clone(),
        );
        let mut built: Vec<BuiltProfile> = Vec::with_capacity(profiles.len());
        for (index, profile) in profiles.iter().enumerate() {
            let new = self
                .build_profile(profile, extenders.as_ref(), &stopping, &templates)
                .and_then(|new| match built.first() {
                    Some(first) => new
                        .sorts_like(first, profile, profiles.first())
                        .map(|()| new),
                    None => Ok(new),
                })
                .map_err(|error| declared.error(error.below(&format!("profiles[{index}]"))))?;
            built.push(new);
        }
        let queue_sort = built
            .first()
            .map(|first| Arc::clone(&first.queue_sort.point))
            .ok_or_else(|| declared.error(ProfileError::new("profiles", "there is no profile")))?;
        for new in &built {
            for plugin in &new.enabled {
                let profile = &*new.framework.scheduler_name;
                tracing::info!(profile, "Enable Scheduler plugin {plugin:?}");
            }
        }
        let frameworks = built.into_iter().map(|profile| profile.framework).collect();
        Ok(ActiveConfig {
            frameworks: Frameworks::new(frameworks, queue_sort),
            extenders,
            declared: declared.clone(),
            profiles,
            plugin_state: self.plugin_state.clone(),
            plugin_tasks,
        })
    }

    /// Creates a plugin. A panic of the factory becomes an error, so that a configuration change at run time cannot
    /// stop the scheduler.
    fn plugin(&self, name: &str, args: &Args, handle: &Handle) -> Result<Plugin, FactoryError> {
        let factory = self
            .registry
            .factory(name)
            .ok_or_else(|| FactoryError::Other("it is not registered".to_owned()))?;
        let make = || {
            let plugin = factory(args, handle)?;
            let misnamed = plugin.misnamed();
            Ok((plugin, misnamed))
        };
        let (plugin, misnamed) = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
            let error = PluginError::panicked(&*panic);
            Err(FactoryError::Other(error.to_string()))
        })?;
        let message = match misnamed {
            _ if plugin.name() != name => {
                format!("its factory made a plugin named {:?}", plugin.name())
            }
            Some((point, other)) => format!("at {point} it is named {other:?}"),
            None => return Ok(plugin),
        };
        Err(FactoryError::Other(message))
    }

    fn build_profile(
        &self,
        profile: &ProfileConfig,
        extenders: Option<&Extenders>,
        stopping: &CancellationToken,
        templates: &Templates,
    ) -> Result<BuiltProfile, ProfileError> {
        let scheduler_name: Arc<str> = profile.scheduler_name.as_deref().unwrap_or_default().into();
        let handle = Handle {
            scheduler_name: Arc::clone(&scheduler_name),
            gates: self.gates,
            client: self.client.clone(),
            messages: self.messages.clone(),
            stopping: stopping.clone(),
            templates: templates.clone(),
            state: self.plugin_state.clone(),
        };
        let selection = Selection::new(profile, &self.registry, |name, args| {
            self.plugin(name, args, &handle)
        })?;
        let extender_plugins = extenders.map(Extenders::plugins).unwrap_or_default();
        let enabled = selection
            .plugins
            .iter()
            .map(|plugin| Arc::clone(&plugin.name))
            .collect();
        let all = || selection.plugins.iter().chain(&extender_plugins);
        let mut points =
            ExtensionPoints::around(&selection, &extender_plugins, self.metrics.clone());
        if let Some(extenders) = extenders {
            for plugin in &mut points.post_filter {
                plugin.point = extenders.narrow(Arc::clone(&plugin.point));
            }
        }
        let exclusive = |point: Point| {
            selection.at(point).next().ok_or_else(|| {
                ProfileError::new("plugins", format!("there is no plugin at {point}"))
            })
        };
        let (sort_name, sort) = exclusive(Point::QueueSort)?;
        let queue_sort = sort.queue_sort.clone().map(|point| Named {
            name: Arc::clone(&sort_name.name),
            point,
        });
        let (select, assign) = (
            exclusive(Point::Select)?.1.select.clone(),
            exclusive(Point::Assign)?.1.assign.clone(),
        );
        let (Some(queue_sort), Some(select), Some(assign)) = (queue_sort, select, assign) else {
            return Err(ProfileError::new(
                "plugins",
                "a plugin does not implement its extension point",
            ));
        };
        let general = GeneralEstimator::new(self.gates);
        let general: Arc<dyn Estimator> = Arc::new(general);
        let estimators = std::iter::once(general)
            .chain(self.estimators.iter().cloned())
            .chain(all().filter_map(|plugin| plugin.estimator.clone()));
        let plugins = Plugins {
            pre_filters: at(&selection, Point::PreFilter, |plugin| {
                plugin.pre_filter.clone()
            })
            .collect(),
            filters: at(&selection, Point::Filter, filter_of)
                .chain(extender_plugins.iter().filter_map(filter_of))
                .collect(),
            pre_scores: at(&selection, Point::PreScore, |plugin| {
                plugin.pre_score.clone()
            })
            .collect(),
            scores: scores(&selection, &extender_plugins),
            estimators: estimators.collect(),
            select,
            assign,
        };
        let options = EngineOptions {
            plugins: PluginSet::all(),
            gates: self.gates,
            empty_workload_propagation: self.empty_workload_propagation,
        };
        let engine = Engine::with_plugins(options, plugins)
            .map_err(|error| ProfileError::new("plugins", error.to_string()))?;
        let framework = Framework {
            scheduler_name,
            engine,
            points: Arc::new(points),
            assumes_capacity: self.gates.scheduling_overcommit_protection
                || all().any(|plugin| plugin.needs.assumed_capacity),
            reads_objects: all().any(|plugin| plugin.needs.objects),
            reads_scores: all().any(|plugin| plugin.needs.scores),
        };
        Ok(BuiltProfile {
            framework,
            queue_sort,
            enabled,
        })
    }
}

impl BuiltProfile {
    /// Checks that this profile has the same queue order as the first profile, because all profiles share one queue.
    fn sorts_like(
        &self,
        first: &Self,
        profile: &ProfileConfig,
        first_profile: Option<&ProfileConfig>,
    ) -> Result<(), ProfileError> {
        let (ours, theirs) = (&self.queue_sort.name, &first.queue_sort.name);
        if ours != theirs {
            let message = format!(
                "must be the same in all profiles: profiles[0] has {theirs}, this one has {ours}"
            );
            return Err(ProfileError::new("plugins.queueSort", message));
        }
        let args = |profile: &ProfileConfig| {
            let mut all = profile.plugin_config.iter();
            all.find(|plugin| plugin.name == **ours)
                .and_then(|plugin| plugin.args.clone())
        };
        if args(profile) != first_profile.and_then(args) {
            let message = format!("{ours} must have the same arguments in all profiles");
            return Err(ProfileError::new("pluginConfig", message));
        }
        Ok(())
    }
}

/// Returns the implementations of an extension point in the order of the selection.
fn at<T>(
    selection: &Selection,
    point: Point,
    take: impl Fn(&Plugin) -> Option<T>,
) -> impl Iterator<Item = T> {
    selection
        .at(point)
        .filter_map(move |(_, plugin)| take(plugin))
}

fn filter_of(plugin: &Plugin) -> Option<Filter> {
    plugin.filter.as_ref().map(|filter| match filter {
        FilterPoint::Placement(filter) => Filter::Placement(Arc::clone(filter)),
        FilterPoint::Binding(filter) => Filter::Binding(Arc::clone(filter)),
    })
}

fn scores(
    selection: &Selection,
    extender_plugins: &[Plugin],
) -> Vec<Weighted<Arc<dyn berth_engine::Score>>> {
    let weighted = |plugin: &Plugin, weight| {
        plugin
            .score
            .clone()
            .map(|plugin| Weighted { plugin, weight })
    };
    selection
        .at(Point::Score)
        .filter_map(|(chosen, plugin)| weighted(plugin, chosen.weight))
        .chain(
            extender_plugins
                .iter()
                .filter_map(|plugin| weighted(plugin, 1)),
        )
        .collect()
}

impl ExtensionPoints {
    /// Collects the plugins of the extension points outside the engine, in the order of the profile. As in
    /// kube-scheduler, extenders come first at Bind and last at every other point.
    fn around(selection: &Selection, extender_plugins: &[Plugin], metrics: Metrics) -> Self {
        let named =
            |(chosen, plugin): (&Chosen, &Plugin)| (Arc::clone(&chosen.name), plugin.clone());
        let at = |point: Point| {
            let extender_plugins = extender_plugins
                .iter()
                .map(|plugin| (Arc::clone(&plugin.name), plugin.clone()));
            selection.at(point).map(named).chain(extender_plugins)
        };
        macro_rules! list {
            ($point:ident, $field:ident) => {
                at(Point::$point)
                    .filter_map(|(name, plugin)| {
                        Some(Named {
                            name,
                            point: plugin.$field?,
                        })
                    })
                    .collect()
            };
        }
        let mut bind: Vec<Named<dyn Bind>> = list!(Bind, bind);
        let ours = selection
            .at(Point::Bind)
            .filter(|(_, plugin)| plugin.bind.is_some());
        bind.rotate_left(ours.count());
        let follow = selection.plugins.iter().filter_map(|plugin| {
            Some(Named {
                name: Arc::clone(&plugin.name),
                point: plugin.follow.clone()?,
            })
        });
        let registrations = selection.plugins.iter().flat_map(|plugin| {
            let all = plugin.registrations.iter().cloned();
            all.map(|registration| (Arc::clone(&plugin.name), registration))
        });
        Self {
            pre_enqueue: list!(PreEnqueue, pre_enqueue),
            post_filter: list!(PostFilter, post_filter),
            reserve: list!(Reserve, reserve),
            permit: list!(Permit, permit),
            pre_bind: list!(PreBind, pre_bind),
            bind,
            post_bind: list!(PostBind, post_bind),
            follow: follow.collect(),
            registrations: registrations.collect(),
            metrics,
        }
    }
}
