//! A profile as it runs: its engine, and the points around a decision.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use berth_core::{Engine, PluginError};

use super::points::QueueSort;
use super::service_points::ServicePoints;
use crate::binding::Binding;
use crate::filter;
use crate::queue::Rank;

/// A profile as it runs.
#[derive(Debug)]
pub(crate) struct Framework {
    /// The name that it answers to.
    pub(crate) scheduler_name: Arc<str>,
    /// Decides, with the profile's plugins of the decision.
    pub(crate) engine: Engine,
    /// The profile's plugins around the decision.
    pub(crate) points: Arc<ServicePoints>,
    /// Whether decisions that are not reported yet take room.
    pub(crate) assumes_capacity: bool,
    /// Whether a plugin reads the objects of clusters.
    pub(crate) reads_objects: bool,
}

/// All profiles of the process, each with another name, and their one queue order.
#[derive(Debug)]
pub(crate) struct Frameworks {
    list: Vec<Framework>,
    by_name: HashMap<Arc<str>, usize>,
    queue_sort: Arc<dyn QueueSort>,
}

impl Frameworks {
    /// Profiles with different names.
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

    /// The profile that a binding names.
    pub(crate) fn of(&self, binding: &Binding) -> Option<&Framework> {
        self.list.get(*self.by_name.get(binding.spec.scheduler())?)
    }

    /// The profile that a binding names.
    pub(crate) fn of_mut(&mut self, binding: &Binding) -> Option<&mut Framework> {
        self.list
            .get_mut(*self.by_name.get(binding.spec.scheduler())?)
    }

    /// Every profile.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Framework> {
        self.list.iter()
    }

    /// Whether a profile is in charge of the binding, and scheduling is not suspended.
    pub(crate) fn in_charge(&self, binding: &Binding) -> bool {
        self.of(binding)
            .is_some_and(|framework| filter::in_charge(binding, &framework.scheduler_name))
    }

    /// Whether events of the binding itself lead to scheduling here.
    pub(crate) fn passes(&self, binding: &Binding) -> bool {
        self.of(binding)
            .is_some_and(|framework| filter::passes(binding, &framework.scheduler_name))
    }

    /// Where the binding belongs in the queue. One whose rank nobody can tell has no other than its age.
    pub(crate) fn rank(&self, binding: &Binding) -> Rank {
        catch_unwind(AssertUnwindSafe(|| self.queue_sort.rank(binding))).unwrap_or_else(|panic| {
            let error = PluginError::panicked(&*panic);
            tracing::error!(binding = %binding.key, %error, "QueueSort failed");
            Rank::default()
        })
    }
}
