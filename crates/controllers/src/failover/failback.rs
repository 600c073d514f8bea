//! Failback: a binding returns to the clusters from which it was evicted, or to an earlier affinity term, when they have
//! been back for long enough. The scheduler then decides afresh, as after a WorkloadRebalancer, and the binding controller
//! moves the replicas gently.
//!
//! A cluster must have [`room`](super::room) for the replicas, so that they do not wait there for a node, and move away again.
//! A binding returns once for each eviction, because the return, or the end of the eviction without a move, removes the
//! record of the eviction. An earlier affinity
//! term is tried once for each time that one of its clusters comes back.

use berth_api::binding::reschedule_trigger;
use berth_api::condition;
use berth_api::well_known::{CONDITION_MIGRATING, EVICTED_FROM};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::binding::BindingRecord;
use super::cluster::ClusterRecord;
use super::options::RebalanceOptions;
use super::report::Reports;
use super::toleration::tolerates_all;

/// The time after which the room in a cluster is examined again.
const ROOM_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

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

/// The state of a cluster to which a binding may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Candidate {
    /// The binding may return now.
    Back,
    /// The binding may return from this time on.
    BackAt(Timestamp),
    /// The replicas do not fit.
    Full,
    /// The binding may not return.
    Unfit,
}

/// The clusters to which a binding may return later.
#[derive(Clone, Copy, Debug, Default)]
struct Later {
    /// The time at which the first of them is back.
    back_at: Option<Timestamp>,
    has_full: bool,
}

impl Later {
    fn add(&mut self, candidate: Candidate) {
        match candidate {
            Candidate::BackAt(time) => {
                self.back_at = self.back_at.into_iter().chain([time]).min();
            }
            Candidate::Full => self.has_full = true,
            Candidate::Back | Candidate::Unfit => {}
        }
    }

    /// Returns the time at which to decide again.
    fn next(self, now: Timestamp) -> Option<Timestamp> {
        let examined = now.saturating_add(ROOM_INTERVAL).unwrap_or(Timestamp::MAX);
        let examined = self.has_full.then_some(examined);
        self.back_at.into_iter().chain(examined).min()
    }
}

/// Decides about the return of a binding.
pub(super) fn decide(reports: &Reports<'_>, options: &RebalanceOptions, now: Timestamp) -> Verdict {
    if !is_at_rest(reports) {
        return Verdict::default();
    }
    let binding = reports.binding;
    let mut failback = Failback::default();
    let mut later = Later::default();
    for name in &binding.evicted_from {
        let cluster = reports.cluster(name).filter(|cluster| !cluster.is_leaving);
        let Some(cluster) = cluster.filter(|_| !binding.is_placed_on(name)) else {
            continue;
        };
        match candidate(reports, cluster, options, now) {
            Candidate::Back => failback.clusters.push(name.clone()),
            candidate => {
                later.add(candidate);
                failback.remaining.push(name.clone());
            }
        }
    }
    if failback.clusters.is_empty() {
        let term = earlier_term(reports, options, now, &mut later);
        failback.clusters.extend(term);
    }
    // One return to all clusters of a region is better than a return for each of them.
    let soon = now
        .saturating_add(options.failback_after)
        .unwrap_or(Timestamp::MAX);
    let returns = !failback.clusters.is_empty() && later.back_at.is_none_or(|next| next > soon);
    Verdict {
        failback: returns.then_some(failback),
        next: later.next(now),
    }
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

/// Reports whether a binding may return to a cluster. A cluster that is cordoned or drained gets nothing back, also if the
/// binding tolerates the taint.
fn candidate(
    reports: &Reports<'_>,
    cluster: &ClusterRecord,
    options: &RebalanceOptions,
    now: Timestamp,
) -> Candidate {
    let spec = &reports.binding.body.spec;
    let placement = reports.binding.placement.as_ref();
    let wanted = spec.placement.as_ref();
    let is_selected = wanted.is_none_or(|placement| placement.selects(&cluster.matched));
    let may_return =
        is_selected && !cluster.is_cordoned() && tolerates_all(placement, &cluster.all_taints);
    match cluster.stability.back_at(options.failback_after) {
        Some(time) if may_return && time > now => Candidate::BackAt(time),
        Some(_) if may_return && cluster.room.fits(spec) => Candidate::Back,
        Some(_) if may_return => Candidate::Full,
        _ => Candidate::Unfit,
    }
}

/// Returns a cluster of an affinity term before the one in use that has come back since the scheduler last tried all terms.
/// Adds the other clusters to those that may be back later.
fn earlier_term(
    reports: &Reports<'_>,
    options: &RebalanceOptions,
    now: Timestamp,
    later: &mut Later,
) -> Option<String> {
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
    let mut others = Later::default();
    for term in &terms[..in_use.unwrap_or(0)] {
        for cluster in reports.clusters() {
            let is_new = cluster.stability.since() > tried;
            if cluster.is_leaving || !is_new || !term.affinity.matches(&cluster.matched) {
                continue;
            }
            match candidate(reports, cluster, options, now) {
                Candidate::Back => return Some(cluster.name().to_owned()),
                candidate => others.add(candidate),
            }
        }
    }
    later.back_at = later.back_at.into_iter().chain(others.back_at).min();
    later.has_full |= others.has_full;
    None
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
