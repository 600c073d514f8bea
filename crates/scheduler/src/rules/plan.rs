//! The plan of the writes of a scheduling cycle. Pure functions derive the plan from the outcome of the engine.
//!
//! If the binding already contains everything that a cycle would write, the cycle writes nothing and records no event.
//! A successful cycle for a reschedule that a user requested is an exception: it always writes the status.

use std::sync::Arc;

use berth_api::binding::{BindingStatus, TargetCluster, TargetComponent};
use berth_api::well_known::{APPLIED_PLACEMENT, APPLIED_REPLICA_LIMITS, REPLICA_LIMITS};
use berth_api::{Binding, BindingKey};
use berth_engine::{Outcome, Placement, PluginError, ScheduleError, ScheduledReason, Target};
use berth_events::{Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::queue::Verdict;
use crate::rules::condition::Scheduled;
use crate::rules::schedule_trigger::reschedule_required;

/// Event reason after a success.
pub(crate) const REASON_SUCCEEDED: &str = "ScheduleBindingSucceed";
/// Event reason after a failure.
pub(crate) const REASON_FAILED: &str = "ScheduleBindingFailed";

/// The writes of one cycle, and the next step for its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Merge patch of the annotations of the decision and the clusters. The writer adds the resourceVersion as a precondition.
    pub result: Option<Value>,
    /// The new clusters of the binding, if the patch changes its clusters. If no cluster fits, every patch comes with an
    /// empty list.
    pub targets: Option<Arc<[TargetCluster]>>,
    /// Changes of the status.
    pub status: Option<StatusPlan>,
    /// Events that are recorded after the writes succeed.
    pub notes: Vec<Note>,
    /// Next step for the key after the writes succeed.
    pub verdict: Verdict,
    /// True if the cycle counts as an error in the metrics, also if the plan writes nothing.
    pub is_error: bool,
}

/// The changes of the status in a plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusPlan {
    /// Condition to set, if any.
    pub scheduled: Option<Scheduled>,
    /// True if the status records the current generation as observed.
    pub observe: bool,
    /// True if the status records the current time as the time of the last scheduling.
    pub succeeded: bool,
    /// Name of the affinity term that the binding uses now, if the term changed.
    pub affinity: Option<String>,
}

impl Plan {
    /// Creates a plan that writes nothing.
    pub(crate) fn nothing(verdict: Verdict) -> Self {
        Self {
            result: None,
            targets: None,
            status: None,
            notes: Vec::new(),
            verdict,
            is_error: verdict == Verdict::Retry,
        }
    }

    /// Creates a plan that writes nothing, for a failure that the condition already reports.
    fn already_reported(reason: ScheduledReason, verdict: Verdict) -> Self {
        Self {
            is_error: is_error(reason),
            ..Self::nothing(verdict)
        }
    }

    /// Reports whether the plan contains no write and no event.
    pub(crate) fn is_empty(&self) -> bool {
        self.result.is_none() && self.status.is_none() && self.notes.is_empty()
    }

    /// Creates a plan that records the current generation as observed. The plan is empty if the status of the binding
    /// already contains this generation.
    ///
    /// `affinity` is set if an earlier process ended between the write of the clusters and the write of the status. It
    /// is the affinity term of these clusters. The plan then also records the term and the time of the scheduling.
    pub(crate) fn observe_only(binding: &Binding, affinity: Option<String>) -> Self {
        let mut plan = Self::nothing(Verdict::Done);
        if !observed(binding) {
            plan.status = Some(StatusPlan {
                scheduled: None,
                observe: true,
                succeeded: affinity.is_some(),
                affinity,
            });
        }
        plan
    }

    /// Creates a plan that reports a failure outside the engine, such as an invalid binding or a rejected write.
    pub(crate) fn failure(
        binding: &Binding,
        reason: ScheduledReason,
        message: String,
        verdict: Verdict,
    ) -> Self {
        let scheduled = Scheduled::failed(reason, message);
        if scheduled.is_stored(&binding.status) {
            return Self::already_reported(reason, verdict);
        }
        Self {
            result: None,
            targets: None,
            notes: vec![failed_note(scheduled.message.clone())],
            status: Some(condition_only(scheduled)),
            verdict,
            is_error: is_error(reason),
        }
    }

    /// Returns the plan with another message in the Event about a failure. The condition keeps its message.
    #[must_use]
    pub(crate) fn with_event_message(mut self, message: &str) -> Self {
        for note in &mut self.notes {
            message.clone_into(&mut note.message);
        }
        self
    }

    /// Returns the plan without the clusters, for a binding whose clusters a Bind plugin has already written.
    #[must_use]
    pub(crate) fn without_clusters(&self) -> Self {
        let mut rest = self.clone();
        rest.result = rest.result.and_then(|mut patch| {
            let fields = patch.as_object_mut()?;
            fields.remove("spec");
            (!fields.is_empty()).then_some(patch)
        });
        rest
    }

    /// Creates a plan for a cycle that a plugin stopped before or after the decision.
    pub(crate) fn stopped(binding: &Binding, error: &PluginError) -> Self {
        let reason = error.reason();
        Self::failure(binding, reason, error.to_string(), verdict(reason))
    }

    /// Creates the plan for an outcome of the engine. `placement_json` is the canonical JSON of the placement.
    pub(crate) fn of(binding: &Binding, placement_json: &str, outcome: &Outcome) -> Self {
        Self::with_remark(binding, placement_json, outcome, None, None)
    }

    /// Creates the plan for an outcome of the engine. If the outcome is a failure, the plan appends `remark` to the
    /// message of the condition. If this plan is not empty, it also records the event `note`.
    pub(crate) fn with_remark(
        binding: &Binding,
        placement_json: &str,
        outcome: &Outcome,
        remark: Option<&str>,
        note: Option<Note>,
    ) -> Self {
        match &outcome.result {
            Ok(placed) => success(binding, placement_json, outcome, placed),
            Err(error) => {
                let message = format!("{error}{}", remark.unwrap_or_default());
                let mut plan = failure(binding, placement_json, outcome, error, message);
                if !plan.is_empty() {
                    plan.notes.extend(note);
                }
                plan
            }
        }
    }
}

fn success(binding: &Binding, placement_json: &str, outcome: &Outcome, placed: &Placement) -> Plan {
    let targets: Arc<[TargetCluster]> = placed.targets.iter().map(target_cluster).collect();
    let result = result_patch(binding, placement_json, &targets);
    let moves = result
        .as_ref()
        .is_some_and(|patch| patch.get("spec").is_some());
    let affinity = placed
        .affinity
        .as_deref()
        .filter(|name| binding.status.scheduler_observing_affinity_name.as_deref() != Some(*name))
        .map(ToOwned::to_owned);
    let (scheduled, verdict) = if placed.waiting > 0 {
        let replicas = i64::from(binding.spec.replicas);
        // The other replicas wait for a change of a cluster, as those of an unschedulable binding.
        (
            Scheduled::placed(replicas - placed.waiting, replicas),
            Verdict::Wait,
        )
    } else {
        (Scheduled::success(), Verdict::Done)
    };
    let unchanged = result.is_none()
        && affinity.is_none()
        && observed(binding)
        && scheduled.is_stored(&binding.status)
        && !reschedule_required(binding);
    if unchanged {
        return Plan::nothing(verdict);
    }
    let mut notes = term_notes(binding, outcome);
    notes.push(Note {
        severity: Severity::Normal,
        reason: REASON_SUCCEEDED,
        message: success_message(&binding.key, &targets),
    });
    Plan {
        result,
        targets: moves.then_some(targets),
        status: Some(StatusPlan {
            scheduled: Some(scheduled),
            observe: true,
            succeeded: true,
            affinity,
        }),
        notes,
        verdict,
        is_error: false,
    }
}

/// Reports whether a failure counts as an error in the metrics. As in Karmada, a binding that fits into no cluster does
/// not.
fn is_error(reason: ScheduledReason) -> bool {
    !matches!(
        reason,
        ScheduledReason::Success | ScheduledReason::NoClusterFit
    )
}

/// Returns the verdict after a failure of the engine or of a plugin. Only an unexpected error is retried.
fn verdict(failure: ScheduledReason) -> Verdict {
    if failure == ScheduledReason::SchedulerError {
        Verdict::Retry
    } else {
        Verdict::Wait
    }
}

fn failure(
    binding: &Binding,
    placement_json: &str,
    outcome: &Outcome,
    error: &ScheduleError,
    message: String,
) -> Plan {
    let reason = error.reason();
    let mut verdict = verdict(reason);
    let no_fit = reason == ScheduledReason::NoClusterFit;
    // If no cluster fits, the plan removes the previous result. Every other failure keeps the previous result.
    let result = if no_fit {
        result_patch(binding, placement_json, &[])
    } else {
        None
    };
    let scheduled = Scheduled::failed(reason, message);
    if result.is_none() && scheduled.is_stored(&binding.status) {
        return Plan::already_reported(reason, verdict);
    }
    if result.is_some() && !binding.spec.clusters.is_empty() {
        // Some filters exempt the clusters that the binding already has. Without these clusters, the filters may reject
        // the same clusters for other reasons. A second decision therefore updates the message of the condition.
        verdict = Verdict::Again;
    }
    let mut notes = term_notes(binding, outcome);
    if notes.is_empty() || no_fit {
        notes.push(failed_note(scheduled.message.clone()));
    }
    Plan {
        targets: result.as_ref().map(|_| Arc::default()),
        result,
        status: Some(condition_only(scheduled)),
        notes,
        verdict,
        is_error: is_error(reason),
    }
}

fn condition_only(scheduled: Scheduled) -> StatusPlan {
    StatusPlan {
        scheduled: Some(scheduled),
        observe: false,
        succeeded: false,
        affinity: None,
    }
}

fn observed(binding: &Binding) -> bool {
    binding.status.scheduler_observed_generation.unwrap_or(0) == binding.generation()
}

/// Returns one event for each affinity term whose decision failed. Karmada prescribes the text.
fn term_notes(binding: &Binding, outcome: &Outcome) -> Vec<Note> {
    outcome
        .failed_terms
        .iter()
        .map(|term| {
            failed_note(format!(
                "failed to schedule {}({}) with clusterAffiliates index({}): {}",
                binding.key.kind(),
                binding.key,
                term.index,
                term.error
            ))
        })
        .collect()
}

fn failed_note(message: String) -> Note {
    Note {
        severity: Severity::Warning,
        reason: REASON_FAILED,
        message,
    }
}

/// Formats the message of the event after a success. As in Karmada, `Result` has no colon for a cluster-scoped binding.
fn success_message(key: &BindingKey, targets: &[TargetCluster]) -> String {
    let list: Vec<String> = targets
        .iter()
        .map(|target| format!("{}:{}", target.name, target.replicas))
        .collect();
    let colon = if key.namespace.is_some() { ":" } else { "" };
    format!(
        "Binding has been scheduled successfully. Result{colon} {{{}}}",
        list.join(", ")
    )
}

/// Returns the merge patch of the annotation and the clusters. The patch contains only changed fields. Returns `None`
/// if no field changed.
fn result_patch(
    binding: &Binding,
    placement_json: &str,
    targets: &[TargetCluster],
) -> Option<Value> {
    let mut patch = json!({});
    if binding.annotation(APPLIED_PLACEMENT) != placement_json {
        patch["metadata"] = json!({ "annotations": { APPLIED_PLACEMENT: placement_json } });
    }
    let limits = binding.annotation(REPLICA_LIMITS);
    if binding.annotation(APPLIED_REPLICA_LIMITS) != limits {
        let applied = (!limits.is_empty()).then_some(limits);
        patch["metadata"]["annotations"][APPLIED_REPLICA_LIMITS] = json!(applied);
    }
    if !same_targets(&binding.spec.clusters, targets) {
        patch["spec"] =
            json!({ "clusters": if targets.is_empty() { Value::Null } else { json!(targets) } });
    }
    patch
        .as_object()
        .is_some_and(|patch| !patch.is_empty())
        .then_some(patch)
}

/// Reports whether two results contain the same clusters in any order.
fn same_targets(stored: &[TargetCluster], wanted: &[TargetCluster]) -> bool {
    if stored.len() != wanted.len() {
        return false;
    }
    if stored == wanted {
        return true;
    }
    let sorted = |targets: &[TargetCluster]| {
        let mut sorted = targets.to_vec();
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        sorted
    };
    sorted(stored) == sorted(wanted)
}

pub(crate) fn target_cluster(target: &Target) -> TargetCluster {
    TargetCluster {
        name: target.name.to_string(),
        replicas: target.replicas,
        components: target
            .components
            .iter()
            .map(|component| TargetComponent {
                name: component.name.clone(),
                replicas: component.replicas,
            })
            .collect(),
    }
}

impl StatusPlan {
    /// Returns the merge patch of the status subresource. `stored` is the stored status, and `generation` is the
    /// observed generation to record.
    pub(crate) fn patch(
        &self,
        stored: &BindingStatus,
        generation: i64,
        now: jiff::Timestamp,
    ) -> Value {
        let mut status = json!({});
        if let Some(scheduled) = &self.scheduled
            && !scheduled.is_stored(stored)
        {
            status["conditions"] = json!(scheduled.merged_into(stored, now));
        }
        if self.observe {
            status["schedulerObservedGeneration"] = json!(generation);
        }
        if self.succeeded {
            status["lastScheduledTime"] = json!(Time(now));
        }
        if let Some(affinity) = &self.affinity {
            status["schedulerObservingAffinityName"] = json!(affinity);
        }
        json!({ "status": status })
    }
}

#[cfg(test)]
mod tests;
