//! Selection of the bindings that a running scheduler would process after a change. The selection calls the scheduler's
//! own rules.

use std::sync::Arc;

use berth_api::go_json::placement_json;
use berth_api::{Binding, Cluster, condition};
use berth_engine::ScheduledReason;
use berth_scheduler::rules::cluster_change::{
    AffinityMatcher, ApiChange, ClusterDelta, ClusterState,
};
use berth_scheduler::rules::responsibility;
use berth_scheduler::rules::schedule_trigger::{ScheduleType, schedule_type};

use crate::control_plane_state::{Bindings, Clusters};

/// A changed or new cluster.
struct ClusterChange<'a> {
    old: Option<&'a Cluster>,
    new: &'a Cluster,
    states: (Option<ClusterState>, ClusterState),
    delta: ClusterDelta,
}

/// The differences between two states of a control plane that trigger the scheduler.
pub(crate) struct Triggers<'a> {
    /// All bindings before the change.
    before: &'a Bindings,
    /// All clusters after the change.
    after: &'a Clusters,
    changes: Vec<ClusterChange<'a>>,
    /// True if every binding is processed, as by a scheduler that becomes the leader.
    takes_over: bool,
    multiple_pod_templates: bool,
}

impl<'a> Triggers<'a> {
    /// Compares two states. If `takes_over` is true, every binding is processed, as by a scheduler that becomes the
    /// leader.
    pub(crate) fn new(
        before: (&'a Clusters, &'a Bindings),
        after: &'a Clusters,
        takes_over: bool,
        multiple_pod_templates: bool,
    ) -> Self {
        let changes = after.iter().filter_map(|(name, new)| {
            let old = before.0.get(name);
            if old.is_some_and(|old| Arc::ptr_eq(old, new) || old == new) {
                return None;
            }
            let old = old.map(|old| &**old);
            let states = (old.map(ClusterState::new), ClusterState::new(new));
            let mut delta = ClusterDelta::between(states.0.as_ref(), &states.1);
            // The creation of a cluster alone does not trigger the scheduler. In a control plane, a controller removes
            // the taint of a joining cluster when the cluster becomes ready, and this update triggers the scheduler.
            delta.reconcile |= old.is_none();
            Some(ClusterChange {
                old,
                new,
                states,
                delta,
            })
        });
        Self {
            before: before.1,
            changes: changes.collect(),
            after,
            takes_over,
            multiple_pod_templates,
        }
    }

    /// Reports whether the scheduler of a binding would schedule the binding after the changes.
    pub(crate) fn needs_decision(&self, binding: &Binding) -> bool {
        // All schedulers have the same rules, so each binding is checked with the name of its own scheduler.
        let scheduler = binding.spec.scheduler();
        let passes = responsibility::passes(binding, scheduler);
        let is_processed = if self.takes_over {
            passes
        } else {
            (passes && self.is_new_or_changed(binding))
                || (responsibility::in_charge(binding, scheduler)
                    && (self.is_affected(binding) || self.may_fit_now(binding)))
        };
        is_processed && !binding.deleting() && self.needs_scheduling(binding)
    }

    /// Reports whether the scheduler has not seen the binding before, or the generation of the binding has changed.
    fn is_new_or_changed(&self, binding: &Binding) -> bool {
        match self.before.get(&binding.key) {
            None => true,
            Some(before) if !responsibility::passes(before, before.spec.scheduler()) => true,
            Some(before) => before.generation() != binding.generation(),
        }
    }

    /// Reports whether a cluster that the placement of the binding selects has changed.
    fn is_affected(&self, binding: &Binding) -> bool {
        let Some(placement) = &binding.spec.placement else {
            return false;
        };
        self.changes.iter().any(|change| {
            let (old, new) = &change.states;
            let apis = old.as_ref().and_then(|old| ApiChange::between(old, new));
            let reconciles = change.delta.reconcile
                && [change.old, Some(change.new)]
                    .into_iter()
                    .flatten()
                    .any(|cluster| AffinityMatcher::new(cluster).reconciles(binding, placement));
            reconciles
                || apis.is_some_and(|apis| {
                    apis.affects(binding, placement)
                        && AffinityMatcher::new(change.new).could_be_target(placement)
                })
        })
    }

    /// Reports whether the last scheduling of the binding failed and may succeed after the changes.
    fn may_fit_now(&self, binding: &Binding) -> bool {
        let Some(condition) =
            condition::scheduled(&binding.status.conditions).filter(|c| c.status == "False")
        else {
            return false;
        };
        if condition.reason == ScheduledReason::SchedulerError.as_str() {
            // The scheduler retries a binding with this reason after a backoff.
            return true;
        }
        let no_fit = condition.reason == ScheduledReason::NoClusterFit.as_str();
        let Some(placement) = &binding.spec.placement else {
            return false;
        };
        self.changes.iter().any(|change| {
            let helps = change.delta.may_fit || (!no_fit && change.delta.more_capacity);
            helps && AffinityMatcher::new(change.new).could_be_target(placement)
        })
    }

    fn needs_scheduling(&self, binding: &Binding) -> bool {
        schedule_trigger(binding, self.after, self.multiple_pod_templates).is_some()
    }
}

/// Returns the reason for which the scheduler schedules a binding that it processes. Returns `None` if the placement of
/// the binding is up to date.
pub(crate) fn schedule_trigger(
    binding: &Binding,
    clusters: &Clusters,
    multiple_pod_templates: bool,
) -> Option<ScheduleType> {
    let placement = binding.spec.placement.as_ref()?;
    let json = placement_json(placement).ok()?;
    let is_leaving = |name: &str| {
        clusters
            .get(name)
            .is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some())
    };
    schedule_type(
        binding,
        placement,
        &json,
        multiple_pod_templates,
        is_leaving,
    )
}
