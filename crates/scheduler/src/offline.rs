//! [`OfflineScheduler`] provides the engines, gangs and preemption of a scheduler's configuration to programs that
//! compute decisions without running a scheduler.
//!
//! The plugins are created as in the scheduler, with a client that refuses every request. This module must not know the
//! source of the bindings and clusters.

mod removed_plugins;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::Binding;
use berth_api::feature_gates::EngineGates;
use berth_engine::{
    Assumed, CycleState, Engine, Estimator, Outcome, Request, ScheduledReason, Snapshot,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::capacity_book::assumed_capacity::assumed_workload;
use crate::config::{ConfigError, DeclaredProfiles, Document, ProfileFlags, kube_scheduler};
use crate::extender::ExtenderMetrics;
use crate::framework::{PostFilterContext, Registry, RegistryError, State, Victim};
use crate::gang::{Coscheduling, gang_by_labels};
use crate::metrics::Metrics;
use crate::profiles::builder::{ActiveConfig, FrameworkBuilder};

pub(crate) use removed_plugins::known_part;

/// The configuration of an [`OfflineScheduler`].
#[derive(Clone, Debug, Default)]
pub struct OfflineConfig {
    /// Name of the configuration file, for error messages.
    pub source_name: String,
    /// Content of the configuration file.
    pub text: String,
    /// Flags that override the configuration file.
    pub flags: ProfileFlags,
    /// The feature gates.
    pub gates: EngineGates,
    /// True if a result keeps the clusters with 0 replicas.
    pub empty_workload_propagation: bool,
    /// Accurate estimators.
    pub estimators: Vec<Arc<dyn Estimator>>,
    /// Plugins in addition to the in-tree plugins.
    pub out_of_tree: Registry,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A plugin cannot be registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// The profiles of a configuration, which make decisions without a running scheduler.
#[derive(Debug)]
pub struct OfflineScheduler {
    active: ActiveConfig,
    state: State,
    omitted: Vec<String>,
}

impl OfflineScheduler {
    /// Creates the profiles of a configuration. Omits extenders, and plugins that this program does not contain.
    ///
    /// # Errors
    /// When the configuration is invalid.
    pub fn new(config: &OfflineConfig) -> Result<Self, OfflineError> {
        let OfflineConfig {
            source_name, text, ..
        } = config;
        let mut registry = Registry::in_tree(config.gates);
        registry.merge(config.out_of_tree.clone())?;
        let mut omitted = Vec::new();
        // Errors contain positions in this document, which are the positions in the file. The positions in a document
        // without the omitted plugins differ, so such a document is used only if plugins are omitted.
        let document = Document::read(source_name, text)?;
        let (document, unknown) = match serde_saphyr::from_str::<Value>(text) {
            Ok(value) => {
                let (value, unknown) = known_part(&value, &registry);
                if unknown.is_empty() {
                    (document, unknown)
                } else {
                    (Document::read(source_name, &value.to_string())?, unknown)
                }
            }
            Err(_) => (document, BTreeSet::new()),
        };
        omitted.extend(
            unknown
                .into_iter()
                .map(|name| format!("plugin {name}, which this program does not contain")),
        );
        let mut configuration = kube_scheduler::read(&document)?;
        for extender in std::mem::take(&mut configuration.extenders) {
            omitted.push(format!(
                "extender {}, which is not called",
                extender.url_prefix
            ));
        }
        let declared =
            DeclaredProfiles::from_document(document, configuration, config.flags.clone())?;
        let state = State::default();
        // No decision uses this channel.
        let (messages, _) = mpsc::unbounded_channel();
        let builder = FrameworkBuilder {
            registry,
            gates: config.gates,
            empty_workload_propagation: config.empty_workload_propagation,
            estimators: config.estimators.clone(),
            client: unreachable_client(),
            messages,
            plugin_state: state.clone(),
            metrics: Metrics::default(),
            extender_metrics: ExtenderMetrics::default(),
            stopping: CancellationToken::new(),
        };
        Ok(Self {
            active: builder.build(&declared)?,
            state,
            omitted,
        })
    }

    /// Returns descriptions of the omitted parts of the configuration.
    pub fn omitted(&self) -> &[String] {
        &self.omitted
    }

    /// Returns the names of the profiles.
    pub fn profiles(&self) -> Vec<Arc<str>> {
        let frameworks = self.active.frameworks.iter();
        frameworks
            .map(|framework| Arc::clone(&framework.scheduler_name))
            .collect()
    }

    /// Returns the engine of the profile that a binding names.
    pub fn engine_of(&mut self, binding: &Binding) -> Option<&mut Engine> {
        let framework = self.active.frameworks.of_mut(binding)?;
        Some(&mut framework.engine)
    }

    /// Reports whether the profile of a binding subtracts earlier decisions from the free capacity of clusters before
    /// the clusters report the replicas.
    pub fn assumes_capacity(&self, binding: &Binding) -> bool {
        let framework = self.active.frameworks.of(binding);
        framework.is_some_and(|framework| framework.assumes_capacity)
    }

    /// Reports whether a profile places gangs.
    pub fn schedules_gangs(&self) -> bool {
        let mut frameworks = self.active.frameworks.iter();
        frameworks.any(|framework| {
            let mut permits = framework.points.permit.iter();
            permits.any(|plugin| *plugin.name == *Coscheduling::NAME)
        })
    }

    /// Reports whether a profile has a PostFilter plugin, which may evict bindings in favour of other bindings.
    pub fn preempts(&self) -> bool {
        let mut frameworks = self.active.frameworks.iter();
        frameworks.any(|framework| !framework.points.post_filter.is_empty())
    }

    /// Returns the gang that the labels of a binding name, and the minimum number of members. Returns `None` if the
    /// binding names no gang or its profile does not place gangs.
    pub fn gang_of(&self, binding: &Binding) -> Option<(String, usize)> {
        let framework = self.active.frameworks.of(binding)?;
        let schedules_gangs = framework
            .points
            .permit
            .iter()
            .any(|plugin| *plugin.name == *Coscheduling::NAME);
        schedules_gangs.then(|| gang_by_labels(binding)).flatten()
    }

    /// Sets the cluster snapshot that the plugins read.
    pub fn show_fleet(&self, snapshot: &Arc<Snapshot>) {
        self.state.set_fleet(snapshot);
    }

    /// Adds or replaces a binding that the plugins read.
    pub fn show_binding(&self, binding: &Arc<Binding>) {
        self.state.set_binding(binding);
    }

    /// Returns the assignments that the plugins of the profile would evict for a binding that fits into no cluster.
    /// Returns an empty list if eviction does not help.
    pub fn victims(
        &mut self,
        binding: &Arc<Binding>,
        request: &Request,
        snapshot: &Arc<Snapshot>,
        assumed: &Assumed,
        outcome: &Outcome,
    ) -> Vec<Victim> {
        let may_help = outcome
            .result
            .as_ref()
            .is_err_and(|error| error.reason() != ScheduledReason::SchedulerError);
        let Some(framework) = self.active.frameworks.of_mut(binding) else {
            return Vec::new();
        };
        let points = Arc::clone(&framework.points);
        if !may_help || points.post_filter.is_empty() {
            return Vec::new();
        }
        let (state, engine) = (&self.state, &mut framework.engine);
        let mut attempt = |victims: &[Victim]| {
            let mut taken = assumed.clone();
            for victim in victims {
                let stored = state.stored(&victim.key);
                let workload = stored.as_ref().and_then(|stored| {
                    let mut targets = stored.spec.clusters.iter();
                    let target = targets.find(|target| target.name == victim.cluster)?;
                    assumed_workload(&stored.spec, target.replicas).ok()
                });
                if let Some(workload) = workload {
                    taken.free(&victim.cluster, workload);
                }
            }
            engine.schedule_with(snapshot, request, &taken)
        };
        let mut context = PostFilterContext {
            binding,
            request,
            snapshot,
            bindings: state,
            attempt: &mut attempt,
        };
        let nominated = points.post_filter(&mut context, &mut CycleState::default());
        let Ok(Some((_, nomination))) = nominated else {
            return Vec::new();
        };
        if attempt(&nomination.victims).result.is_ok() {
            nomination.victims
        } else {
            Vec::new()
        }
    }
}

/// A change of the capacity that a binding occupies in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityChange {
    /// The binding occupies the capacity.
    Occupied,
    /// The binding frees the capacity.
    Freed,
}

/// Records in `assumed` the capacity that a binding occupies or frees in a cluster.
pub fn assume(
    assumed: &mut Assumed,
    binding: &Binding,
    cluster: &str,
    replicas: i32,
    change: CapacityChange,
) {
    // The decision about a binding reports malformed resource requests.
    let Ok(workload) = assumed_workload(&binding.spec, replicas) else {
        return;
    };
    match change {
        CapacityChange::Occupied => assumed.add(cluster, workload),
        CapacityChange::Freed => assumed.free(cluster, workload),
    }
}

/// Returns a client that refuses every request. Plugins receive this client in programs that run no scheduler.
pub(crate) fn unreachable_client() -> kube::Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other(
            "cannot send a request: this program runs no scheduler",
        ))
    });
    kube::Client::new(service, "default")
}

#[cfg(test)]
mod tests;
