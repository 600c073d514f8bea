//! The profiles of the scheduler configuration at run time. Each profile has an engine, which makes decisions, and the
//! plugins that run before and after a decision.
//!
//! [`builder`] creates the profiles from a configuration. [`config_map_watch`] builds new profiles when the ConfigMap
//! changes.

pub(crate) mod builder;
pub(crate) mod config_map_watch;
mod in_tree;
mod selection;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use berth_api::Binding;
use berth_engine::{Engine, PluginError};

use crate::framework::QueueSort;
use crate::framework::plugin_calls::ExtensionPoints;
use crate::queue::Rank;
use crate::rules::responsibility;

/// A profile at run time.
#[derive(Debug)]
pub(crate) struct Framework {
    /// Scheduler name of the profile.
    pub(crate) scheduler_name: Arc<str>,
    /// Engine that makes decisions with the profile's plugins.
    pub(crate) engine: Engine,
    /// The profile's plugins at the extension points that run outside the engine.
    pub(crate) points: Arc<ExtensionPoints>,
    /// True if a decision counts against the capacity of a cluster before the cluster reports the new replicas.
    pub(crate) assumes_capacity: bool,
    /// True if a plugin reads Cluster objects.
    pub(crate) reads_objects: bool,
    /// True if a plugin reads scores of ClusterScores.
    pub(crate) reads_scores: bool,
}

/// All profiles, whose names are unique, and the queue order that they share.
#[derive(Debug)]
pub(crate) struct Frameworks {
    list: Vec<Framework>,
    by_name: HashMap<Arc<str>, usize>,
    queue_sort: Arc<dyn QueueSort>,
}

impl Frameworks {
    /// Creates the set of all profiles. Their names must be unique.
    pub(crate) fn new(list: Vec<Framework>, queue_sort: Arc<dyn QueueSort>) -> Self {
        let by_name = list
            .iter()
            .enumerate()
            .map(|(index, framework)| (Arc::clone(&framework.scheduler_name), index))
            .collect();
        Self {
            list,
            by_name,
            queue_sort,
        }
    }

    /// Returns the profile that a binding names.
    pub(crate) fn of(&self, binding: &Binding) -> Option<&Framework> {
        self.list.get(*self.by_name.get(binding.spec.scheduler())?)
    }

    /// Returns the profile that a binding names.
    pub(crate) fn of_mut(&mut self, binding: &Binding) -> Option<&mut Framework> {
        self.list
            .get_mut(*self.by_name.get(binding.spec.scheduler())?)
    }

    /// Returns all profiles.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Framework> {
        self.list.iter()
    }

    /// Reports whether [`Framework::assumes_capacity`] is true for any profile.
    pub(crate) fn assume_capacity(&self) -> bool {
        self.list.iter().any(|framework| framework.assumes_capacity)
    }

    /// Reports whether [`Framework::reads_scores`] is true for any profile.
    pub(crate) fn read_scores(&self) -> bool {
        self.list.iter().any(|framework| framework.reads_scores)
    }

    /// Reports whether a profile is responsible for the binding and scheduling is not suspended.
    pub(crate) fn in_charge(&self, binding: &Binding) -> bool {
        self.of(binding)
            .is_some_and(|framework| responsibility::in_charge(binding, &framework.scheduler_name))
    }

    /// Reports whether events of the binding trigger scheduling.
    pub(crate) fn passes(&self, binding: &Binding) -> bool {
        self.of(binding)
            .is_some_and(|framework| responsibility::passes(binding, &framework.scheduler_name))
    }

    /// Returns the queue rank of the binding. If the QueueSort plugin panics, returns the default rank, so that only
    /// the time in the queue counts.
    pub(crate) fn rank(&self, binding: &Binding) -> Rank {
        catch_unwind(AssertUnwindSafe(|| self.queue_sort.rank(binding))).unwrap_or_else(|panic| {
            let error = PluginError::panicked(&*panic);
            tracing::error!(binding = %binding.key, %error, "QueueSort failed");
            Rank::default()
        })
    }
}
