//! Makes frameworks of what is declared: plugins of their factories, engines and points of the plugins.
//!
//! Everything that can be wrong with a configuration has been found when this is done, so that one that changes
//! while the service runs takes over as a whole or not at all.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use berth_core::{
    Engine, EngineOptions, Estimator, Filter, Gates, GeneralEstimator, PluginError, PluginSet,
    Plugins, Point, Weighted,
};
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::args::Args;
use super::handle::Handle;
use super::plugin::{FilterPoint, Plugin};
use super::points::{Bind, QueueSort};
use super::profile::{Chosen, ProfileError, Selection};
use super::registry::{FactoryError, Registry};
use super::runtime::{Framework, Frameworks};
use super::service_points::{Named, ServicePoints};
use super::state::State;
use super::waiting::Said;
use crate::config::configuration::ProfileConfig;
use crate::config::{ConfigError, Declared};
use crate::extender::{ExtenderMetrics, Extenders};
use crate::metrics::Metrics;
use crate::template::Templates;

/// What frameworks are made of besides a configuration.
#[derive(Clone)]
pub(crate) struct Assembly {
    /// Every plugin there is.
    pub(crate) registry: Registry,
    pub(crate) gates: Gates,
    pub(crate) empty_workload_propagation: bool,
    /// Estimators besides the general one and those of plugins.
    pub(crate) estimators: Vec<Arc<dyn Estimator>>,
    pub(crate) client: Client,
    /// Where plugins speak about waiting decisions.
    pub(crate) said: mpsc::UnboundedSender<Said>,
    /// What the owner shows to plugins.
    pub(crate) state: State,
    pub(crate) metrics: Metrics,
    pub(crate) extender_metrics: ExtenderMetrics,
    /// Cancelled with the service.
    pub(crate) stopping: CancellationToken,
}

/// Everything that a configuration says about decisions, ready to run.
#[derive(Debug)]
pub(crate) struct Lineup {
    pub(crate) frameworks: Frameworks,
    /// The HTTP extenders; their plugins are in the frameworks.
    pub(crate) extenders: Option<Extenders>,
    /// What it was made of, with names and defaults filled in.
    pub(crate) declared: Declared,
    pub(crate) profiles: Vec<ProfileConfig>,
    /// What its plugins see.
    pub(crate) state: State,
    /// Ends the tasks of the plugins when the lineup goes.
    pub(crate) ends: DropGuard,
}

/// A profile as it runs, and its part of the order that all share.
struct Made {
    framework: Framework,
    queue_sort: Named<dyn QueueSort>,
    enabled: Vec<Arc<str>>,
}

impl fmt::Debug for Assembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembly")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl Assembly {
    /// Makes what is declared.
    ///
    /// # Errors
    /// When something in it is wrong; the error says where.
    pub(crate) fn assemble(&self, declared: &Declared) -> Result<Lineup, ConfigError> {
        let profiles = declared.profiles(&self.registry)?;
        let extenders = Extenders::new(declared.extenders(), &self.extender_metrics)
            .map_err(|error| declared.error(ProfileError::new(error.path, error.message)))?;
        let stopping = self.stopping.child_token();
        let ends = stopping.clone().drop_guard();
        let (client, said) = (self.client.clone(), self.said.clone());
        let templates = Templates::new(client, said, stopping.clone());
        let mut made: Vec<Made> = Vec::with_capacity(profiles.len());
        for (index, profile) in profiles.iter().enumerate() {
            let one = self
                .framework(profile, extenders.as_ref(), &stopping, &templates)
                .and_then(|one| match made.first() {
                    Some(first) => one
                        .sorts_like(first, profile, profiles.first())
                        .map(|()| one),
                    None => Ok(one),
                })
                .map_err(|error| declared.error(error.below(&format!("profiles[{index}]"))))?;
            made.push(one);
        }
        let queue_sort = made
            .first()
            .map(|first| Arc::clone(&first.queue_sort.point))
            .ok_or_else(|| declared.error(ProfileError::new("profiles", "there is no profile")))?;
        for one in &made {
            for plugin in &one.enabled {
                let profile = &*one.framework.scheduler_name;
                tracing::info!(profile, "Enable Scheduler plugin {plugin:?}");
            }
        }
        let frameworks = made.into_iter().map(|one| one.framework).collect();
        Ok(Lineup {
            frameworks: Frameworks::new(frameworks, queue_sort),
            extenders,
            declared: declared.clone(),
            profiles,
            state: self.state.clone(),
            ends,
        })
    }

    /// Makes a plugin. A factory that panics must not take the process down: the configuration may come later.
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

    fn framework(
        &self,
        profile: &ProfileConfig,
        extenders: Option<&Extenders>,
        stopping: &CancellationToken,
        templates: &Templates,
    ) -> Result<Made, ProfileError> {
        let scheduler_name: Arc<str> = profile.scheduler_name.as_deref().unwrap_or_default().into();
        let handle = Handle {
            scheduler_name: Arc::clone(&scheduler_name),
            gates: self.gates,
            client: self.client.clone(),
            said: self.said.clone(),
            stopping: stopping.clone(),
            templates: templates.clone(),
            state: self.state.clone(),
        };
        let selection = Selection::new(profile, &self.registry, |name, args| {
            self.plugin(name, args, &handle)
        })?;
        let outside = extenders.map(Extenders::plugins).unwrap_or_default();
        let enabled = selection
            .plugins
            .iter()
            .map(|plugin| Arc::clone(&plugin.name))
            .collect();
        let all = || selection.plugins.iter().chain(&outside);
        let mut points = ServicePoints::around(&selection, &outside, self.metrics.clone());
        if let Some(extenders) = extenders {
            for plugin in &mut points.post_filter {
                plugin.point = extenders.narrow(Arc::clone(&plugin.point));
            }
        }
        let one = |point: Point| {
            selection.at(point).next().ok_or_else(|| {
                ProfileError::new("plugins", format!("there is no plugin at {point}"))
            })
        };
        let (sort_name, sort) = one(Point::QueueSort)?;
        let queue_sort = sort.queue_sort.clone().map(|point| Named {
            name: Arc::clone(&sort_name.name),
            point,
        });
        let (select, assign) = (
            one(Point::Select)?.1.select.clone(),
            one(Point::Assign)?.1.assign.clone(),
        );
        let (Some(queue_sort), Some(select), Some(assign)) = (queue_sort, select, assign) else {
            return Err(ProfileError::new(
                "plugins",
                "a plugin does not serve its point",
            ));
        };
        let general = GeneralEstimator::new(self.gates.customized_cluster_resource_modeling);
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
                .chain(outside.iter().filter_map(filter_of))
                .collect(),
            pre_scores: at(&selection, Point::PreScore, |plugin| {
                plugin.pre_score.clone()
            })
            .collect(),
            scores: scores(&selection, &outside),
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
        };
        Ok(Made {
            framework,
            queue_sort,
            enabled,
        })
    }
}

impl Made {
    /// All profiles share one queue, so they have to agree on its order.
    fn sorts_like(
        &self,
        first: &Self,
        profile: &ProfileConfig,
        first_profile: Option<&ProfileConfig>,
    ) -> Result<(), ProfileError> {
        let (ours, theirs) = (&self.queue_sort.name, &first.queue_sort.name);
        if ours != theirs {
            let message = format!(
                "must be the same in all profiles: profiles[0] has {theirs}, and here is {ours}"
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

/// What the plugins of a point do there, in order.
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

fn scores(selection: &Selection, outside: &[Plugin]) -> Vec<Weighted<Arc<dyn berth_core::Score>>> {
    let weighted = |plugin: &Plugin, weight| {
        plugin
            .score
            .clone()
            .map(|plugin| Weighted { plugin, weight })
    };
    selection
        .at(Point::Score)
        .filter_map(|(chosen, plugin)| weighted(plugin, chosen.weight))
        .chain(outside.iter().filter_map(|plugin| weighted(plugin, 1)))
        .collect()
}

impl ServicePoints {
    /// The points around a decision, in the profile's order and with what comes from outside after it; but at
    /// Bind before it, as in kube-scheduler.
    fn around(selection: &Selection, outside: &[Plugin], metrics: Metrics) -> Self {
        let named =
            |(chosen, plugin): (&Chosen, &Plugin)| (Arc::clone(&chosen.name), plugin.clone());
        let at = |point: Point| {
            let outside = outside
                .iter()
                .map(|plugin| (Arc::clone(&plugin.name), plugin.clone()));
            selection.at(point).map(named).chain(outside)
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
