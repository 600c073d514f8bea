//! Which bindings a running scheduler would look at again: the rules of its service, on two states.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::canonical::placement_json;
use berth_scheduler::binding::{Binding, BindingKey};
use berth_scheduler::rules::cluster_change::{AffinityMatcher, ClusterDelta, ClusterState};
use berth_scheduler::rules::condition::{Reason, stored};
use berth_scheduler::rules::responsibility;
use berth_scheduler::rules::schedule_trigger::schedule_type;

use super::fleet_change::Clusters;

/// A cluster that changes.
struct Change<'a> {
    old: Option<&'a Cluster>,
    new: &'a Cluster,
    delta: ClusterDelta,
}

/// What happens to a control plane.
pub(crate) struct Triggers<'a> {
    before: &'a BTreeMap<BindingKey, Binding>,
    after: &'a Clusters,
    changes: Vec<Change<'a>>,
    everything: bool,
    multiple_pod_templates: bool,
}

impl<'a> Triggers<'a> {
    /// From one state of the clusters to another, over these bindings. `everything` means that a scheduler
    /// begins to lead, and looks at every binding once.
    pub(crate) fn new(
        before: (&'a Clusters, &'a BTreeMap<BindingKey, Binding>),
        after: &'a Clusters,
        everything: bool,
        multiple_pod_templates: bool,
    ) -> Self {
        let changes = after.iter().filter_map(|(name, new)| {
            let old = before.0.get(name);
            if old == Some(new) {
                return None;
            }
            let delta =
                ClusterDelta::between(old.map(ClusterState::new).as_ref(), &ClusterState::new(new));
            Some(Change { old, new, delta })
        });
        Self {
            before: before.1,
            changes: changes.collect(),
            after,
            everything,
            multiple_pod_templates,
        }
    }

    /// Whether the scheduler in charge would decide about this binding.
    pub(crate) fn decides(&self, binding: &Binding) -> bool {
        // Whoever is in charge: schedulers differ in their names only.
        let scheduler = binding.spec.scheduler();
        let passes = responsibility::passes(binding, scheduler);
        let looked_at = if self.everything {
            passes
        } else {
            (passes && self.is_news(binding))
                || (responsibility::in_charge(binding, scheduler)
                    && (self.is_concerned(binding) || self.is_woken(binding)))
        };
        looked_at && !binding.deleting() && self.needs_scheduling(binding)
    }

    /// Whether the binding is new, or changed in a way that a scheduler is told of.
    fn is_news(&self, binding: &Binding) -> bool {
        match self.before.get(&binding.key) {
            None => true,
            Some(before) if !responsibility::passes(before, before.spec.scheduler()) => true,
            Some(before) => before.generation() != binding.generation(),
        }
    }

    /// Whether a cluster that its placement is about changed.
    fn is_concerned(&self, binding: &Binding) -> bool {
        let Some(placement) = &binding.spec.placement else {
            return false;
        };
        self.changes.iter().any(|change| {
            change.delta.reconcile
                && [change.old, Some(change.new)]
                    .into_iter()
                    .flatten()
                    .any(|cluster| AffinityMatcher::new(cluster).reconciles(binding, placement))
        })
    }

    /// Whether it waits for something that a change brings.
    fn is_woken(&self, binding: &Binding) -> bool {
        let Some(condition) = stored(&binding.status).filter(|c| c.status == "False") else {
            return false;
        };
        if condition.reason == Reason::SchedulerError.as_str() {
            // Tried again and again.
            return true;
        }
        let no_fit = condition.reason == Reason::NoClusterFit.as_str();
        let Some(placement) = &binding.spec.placement else {
            return false;
        };
        self.changes.iter().any(|change| {
            let helps = change.delta.may_fit || (!no_fit && change.delta.more_capacity);
            helps && AffinityMatcher::new(change.new).could_be_target(placement)
        })
    }

    fn needs_scheduling(&self, binding: &Binding) -> bool {
        let Some(placement) = &binding.spec.placement else {
            return false;
        };
        let Ok(json) = placement_json(placement) else {
            return false;
        };
        let is_leaving = |name: &str| {
            self.after
                .get(name)
                .is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some())
        };
        schedule_type(
            binding,
            placement,
            &json,
            self.multiple_pod_templates,
            is_leaving,
        )
        .is_some()
    }
}
