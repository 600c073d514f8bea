//! Failback: a binding returns to the clusters from which it was evicted, or to an earlier affinity term, when they have
//! been back for long enough. The scheduler then decides afresh, as after a WorkloadRebalancer, and the binding controller
//! moves the replicas gently.
//!
//! A binding returns once for each eviction, because the return, or the end of the eviction without a move, removes the
//! record of the eviction. An earlier affinity
//! term is tried once for each time that one of its clusters comes back.

use berth_api::binding::reschedule_trigger;
use berth_api::condition;
use berth_api::well_known::{CONDITION_MIGRATING, EVICTED_FROM};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::binding::BindingRecord;
use super::cluster::ClusterRecord;
use super::options::RebalanceOptions;
use super::report::Reports;
use super::toleration::tolerates_all;

/// The return of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failback {
    /// The clusters that are back.
    pub(super) clusters: Vec<String>,
    /// The clusters from which the binding was evicted, and that are not back.
    remaining: Vec<String>,
}

/// The decision about the return of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The return, or `None` if the binding stays.
    pub(super) failback: Option<Failback>,
    /// The time at which to decide again.
    pub(super) next: Option<Timestamp>,
}

/// Decides about the return of a binding.
pub(super) fn decide(reports: &Reports<'_>, options: &RebalanceOptions, now: Timestamp) -> Verdict {
    let mut verdict = Verdict::default();
    if !is_at_rest(reports) {
        return verdict;
    }
    let binding = reports.binding;
    let mut failback = Failback::default();
    for name in &binding.evicted_from {
        let cluster = reports.cluster(name).filter(|cluster| !cluster.is_leaving);
        let Some(cluster) = cluster.filter(|_| !binding.is_placed_on(name)) else {
            continue;
        };
        match back_at(reports, cluster, options) {
            Some(time) if time <= now => failback.clusters.push(name.clone()),
            time => {
                verdict.next = verdict.next.into_iter().chain(time).min();
                failback.remaining.push(name.clone());
            }
        }
    }
    if failback.clusters.is_empty() {
        let (term, next) = earlier_term(reports, options, now);
        failback.clusters.extend(term);
        verdict.next = verdict.next.into_iter().chain(next).min();
    }
    // One return to all clusters of a region is better than a return for each of them.
    let soon = now
        .saturating_add(options.failback_after)
        .unwrap_or(Timestamp::MAX);
    if !failback.clusters.is_empty() && verdict.next.is_none_or(|next| next > soon) {
        verdict.failback = Some(failback);
    }
    verdict
}

/// Reports whether neither a user nor an unfinished move keeps a binding where it is.
fn is_at_rest(reports: &Reports<'_>) -> bool {
    let binding = reports.binding;
    let status = &binding.body.status;
    !binding.body.spec.scheduling_suspended()
        && binding.tasks.is_empty()
        && binding.is_observed_by_scheduler()
        && condition::find(&status.conditions, CONDITION_MIGRATING).is_none()
}

/// Returns the time from which a binding may return to a cluster, or `None` if it may not. A cluster that is cordoned or
/// drained gets nothing back, also if the binding tolerates the taint.
fn back_at(
    reports: &Reports<'_>,
    cluster: &ClusterRecord,
    options: &RebalanceOptions,
) -> Option<Timestamp> {
    let placement = reports.binding.placement.as_ref();
    let time = cluster.stability.back_at(options.failback_after)?;
    let wanted = reports.binding.body.spec.placement.as_ref();
    let is_selected = wanted.is_none_or(|placement| placement.selects(&cluster.matched));
    let may_return =
        is_selected && !cluster.is_cordoned() && tolerates_all(placement, &cluster.all_taints);
    may_return.then_some(time)
}

/// Returns a cluster of an affinity term before the one in use that has come back since the scheduler last tried all terms,
/// and otherwise the next time at which there may be one.
fn earlier_term(
    reports: &Reports<'_>,
    options: &RebalanceOptions,
    now: Timestamp,
) -> (Option<String>, Option<Timestamp>) {
    let (spec, status) = (&reports.binding.body.spec, &reports.binding.body.status);
    let terms = spec
        .placement
        .as_ref()
        .map(|placement| &placement.cluster_affinities[..]);
    let terms = terms.unwrap_or_default();
    let observed = status
        .scheduler_observing_affinity_name
        .as_deref()
        .unwrap_or_default();
    let in_use = terms.iter().position(|term| term.affinity_name == observed);
    let tried = spec.reschedule_triggered_at.as_ref().map(|time| time.0);
    let mut next: Option<Timestamp> = None;
    for term in &terms[..in_use.unwrap_or(0)] {
        for cluster in reports.clusters() {
            let is_new = cluster.stability.since() > tried;
            if cluster.is_leaving || !is_new || !term.affinity.matches(&cluster.matched) {
                continue;
            }
            match back_at(reports, cluster, options) {
                Some(time) if time <= now => return (Some(cluster.name().to_owned()), None),
                time => next = next.into_iter().chain(time).min(),
            }
        }
    }
    (None, next)
}

/// Adds the removal of these clusters from the record of evictions to the patch of a binding.
pub(super) fn forget(binding: &BindingRecord, clusters: &[String], patch: &mut Value) {
    let known = &binding.evicted_from;
    if known.iter().all(|name| !clusters.contains(name)) {
        return;
    }
    let rest = known.iter().filter(|name| !clusters.contains(name));
    let rest: Vec<&str> = rest.map(String::as_str).collect();
    let value = (!rest.is_empty()).then(|| rest.join(","));
    patch["metadata"]["annotations"][EVICTED_FROM] = json!(value);
}

impl Failback {
    /// Returns the patch that lets the scheduler decide about the binding afresh.
    pub(super) fn patch(&self, binding: &BindingRecord, now: Timestamp) -> Value {
        let decided = binding.body.status.last_scheduled_time.as_ref();
        let decided = decided.map(|time| time.0);
        let remaining = (!self.remaining.is_empty()).then(|| self.remaining.join(","));
        json!({
            "metadata": { "annotations": { EVICTED_FROM: remaining } },
            "spec": { "rescheduleTriggeredAt": reschedule_trigger(decided, now).to_string() },
        })
    }
}

#[cfg(test)]
mod tests;
