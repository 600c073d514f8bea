//! The log lines about decisions, as operators of kube-scheduler and Karmada expect them: a placed binding with `-v=2`,
//! the rejected clusters with `-v=3`, and a failed decision always.

use std::fmt;
use std::time::{Duration, Instant};

use berth_api::BindingKey;
use berth_api::binding::TargetCluster;
use berth_apimachinery::repeated_failure::RepeatedFailure;
use berth_component_base::program::logging::{V2, V3};
use berth_engine::{Outcome, ScheduleError, ScheduledReason};

use crate::rules::plan::Plan;
use crate::rules::schedule_trigger::ScheduleType;

/// Maximum number of clusters in a line.
const MAX_CLUSTERS: usize = 10;

/// The log lines about decisions and their writes.
#[derive(Debug, Default)]
pub(super) struct LogLines {
    failed_writes: RepeatedFailure,
}

impl LogLines {
    /// Logs a plan that has been written. A failure is in the plan only if its reason or message has changed since the
    /// last plan, so its line does not repeat.
    pub(super) fn written(&mut self, key: &BindingKey, plan: &Plan, duration: Duration) {
        if let Some(end) = self.failed_writes.succeeded_for_one(Instant::now()) {
            let failures = end.failures;
            tracing::info!(failures, "results are written again after {}", end.lasted);
        }
        let scheduled = plan.status.as_ref().and_then(|status| {
            let scheduled = status.scheduled.as_ref()?;
            Some((scheduled.reason, &scheduled.message))
        });
        let Some((reason, message)) = scheduled else {
            return;
        };
        if reason == ScheduledReason::Success {
            placed(key, plan.targets.as_deref(), duration);
            return;
        }
        let reason = reason.as_str();
        if plan.is_error {
            tracing::warn!(binding = %key, reason, error = %message, "cannot schedule a binding");
        } else {
            tracing::info!(binding = %key, reason, error = %message, "cannot place a binding");
        }
    }

    /// Logs a failed write. The client logs outages of the API server.
    pub(super) fn write_failed(&mut self, key: &BindingKey, error: &str, answer: WriteAnswer) {
        let line = match answer {
            WriteAnswer::Error => self.failed_writes.failed(error, Instant::now()),
            WriteAnswer::None => None,
        };
        if let Some(line) = line {
            let repeated = line.repeated;
            tracing::warn!(binding = %key, %error, repeated, "cannot write a result; trying again");
        } else {
            tracing::debug!(binding = %key, %error, "cannot write a result; trying again");
        }
    }
}

/// Logs a placed binding. `clusters` are the new clusters, or `None` if the binding keeps its clusters.
fn placed(key: &BindingKey, clusters: Option<&[TargetCluster]>, duration: Duration) {
    if let Some(clusters) = clusters {
        let clusters = Targets(clusters);
        tracing::debug!(target: V2, binding = %key, %clusters, ?duration, "placed a binding");
    } else {
        tracing::debug!(target: V2, binding = %key, ?duration, "placed a binding on the same clusters");
    }
}

/// The answer of the API server to a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteAnswer {
    /// The API server answered with an error.
    Error,
    /// There was no answer.
    None,
}

/// Logs a decision with the rejected clusters of each term.
pub(super) fn decided(
    key: &BindingKey,
    trigger: ScheduleType,
    outcome: &Outcome,
    made_at: Instant,
) {
    if !tracing::enabled!(target: V3, tracing::Level::DEBUG) {
        return;
    }
    for term in &outcome.failed_terms {
        let index = term.index;
        rejected(key, Some(index), &term.error);
    }
    let (trigger, duration) = (trigger.as_str(), made_at.elapsed());
    match &outcome.result {
        Ok(placement) => {
            let (clusters, term) = (placement.targets.len(), placement.affinity.as_deref());
            tracing::debug!(target: V3, binding = %key, trigger, clusters, term, ?duration, "decided");
        }
        Err(error) => {
            if outcome.failed_terms.is_empty() {
                rejected(key, None, error);
            }
            tracing::debug!(target: V3, binding = %key, trigger, %error, ?duration, "decided: no placement");
        }
    }
}

/// Logs the clusters that an attempt rejected, with the reason of each.
fn rejected(key: &BindingKey, term: Option<usize>, error: &ScheduleError) {
    match error {
        ScheduleError::NoFit(fit) => {
            let rejected = List(|| fit.reasons());
            tracing::debug!(target: V3, binding = %key, term, %rejected, "no cluster passes the filters");
        }
        ScheduleError::Plugin(error) => {
            let plugin = error.plugin();
            tracing::debug!(target: V3, binding = %key, term, plugin, %error, "a plugin ended the attempt");
        }
    }
}

/// The clusters of a result with their replicas, such as `m1:2, m2:1`.
struct Targets<'a>(&'a [TargetCluster]);

impl fmt::Display for Targets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        List(|| self.0.iter().map(|target| (&*target.name, target.replicas))).fmt(f)
    }
}

/// A list of clusters with a value each. Long lists are cut.
struct List<F>(F);

impl<N, V, I, F> fmt::Display for List<F>
where
    N: fmt::Display,
    V: fmt::Display,
    I: Iterator<Item = (N, V)>,
    F: Fn() -> I,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = (self.0)();
        for (index, (name, value)) in all.by_ref().take(MAX_CLUSTERS).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name}:{value}")?;
        }
        match all.count() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_clusters_are_cut() {
        let targets = |count: i32| -> Vec<TargetCluster> {
            let target = |number| TargetCluster {
                name: format!("m{number}"),
                replicas: number,
                components: Vec::new(),
            };
            (1..=count).map(target).collect()
        };
        for (count, expected) in [
            (0, ""),
            (2, "m1:1, m2:2"),
            (
                10,
                "m1:1, m2:2, m3:3, m4:4, m5:5, m6:6, m7:7, m8:8, m9:9, m10:10",
            ),
            (
                5_000,
                "m1:1, m2:2, m3:3, m4:4, m5:5, m6:6, m7:7, m8:8, m9:9, m10:10 and 4990 more",
            ),
        ] {
            assert_eq!(Targets(&targets(count)).to_string(), expected);
        }
    }
}
