//! Plan of one cycle's writes, derived from the engine's outcome by pure functions.
//!
//! A cycle whose result, annotation, observed generation and condition equal the stored ones writes nothing and
//! records no event.

use std::sync::Arc;

use berth_api::binding::{BindingStatus, TargetCluster, TargetComponent};
use berth_api::well_known::APPLIED_PLACEMENT;
use berth_core::{Outcome, PluginError, ScheduleError, Target};
use berth_events::{Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::binding::{Binding, BindingKey};
use crate::queue::Verdict;
use crate::rules::condition::{Reason, Scheduled};
use crate::rules::schedule_trigger::reschedule_required;

/// Event reason after a success.
pub const REASON_SUCCEEDED: &str = "ScheduleBindingSucceed";
/// Event reason after a failure.
pub const REASON_FAILED: &str = "ScheduleBindingFailed";

/// Writes of one cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Patch of annotation and clusters, without the resourceVersion precondition.
    pub result: Option<Value>,
    /// Clusters that the patch writes, if they change.
    pub targets: Option<Arc<[TargetCluster]>>,
    /// Patch of the status.
    pub status: Option<StatusPlan>,
    /// Events to record after the writes succeed.
    pub notes: Vec<Note>,
    /// Next step for the key after the writes succeed.
    pub verdict: Verdict,
}

/// Status patch, completed with the generation that the result patch produced.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusPlan {
    /// Condition to set.
    pub scheduled: Option<Scheduled>,
    /// True to record the generation as observed.
    pub observe: bool,
    /// True to record the time of this success.
    pub succeeded: bool,
    /// Affinity group now in use, if it changed.
    pub affinity: Option<String>,
}

impl Plan {
    /// Creates a plan that writes nothing.
    pub fn nothing(verdict: Verdict) -> Self {
        Self {
            result: None,
            targets: None,
            status: None,
            notes: Vec::new(),
            verdict,
        }
    }

    /// Reports whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.result.is_none() && self.status.is_none() && self.notes.is_empty()
    }

    /// Records the current generation as observed, unless it already is. If the status of the last result was
    /// lost, also records its affinity group and time.
    pub fn observe_only(binding: &Binding, affinity: Option<String>) -> Self {
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

    /// Reports a failure outside the engine: an unreadable binding or a rejected write.
    pub fn failure(binding: &Binding, reason: Reason, message: String, verdict: Verdict) -> Self {
        let scheduled = Scheduled::failed(reason, message);
        if scheduled.is_stored(&binding.status) {
            return Self::nothing(verdict);
        }
        Self {
            result: None,
            targets: None,
            notes: vec![failed_note(scheduled.message.clone())],
            status: Some(condition_only(scheduled)),
            verdict,
        }
    }

    /// Returns the remaining writes for a binding whose clusters a Bind plugin has already stored.
    #[must_use]
    pub fn without_clusters(&self) -> Self {
        let mut rest = self.clone();
        rest.result = rest.result.and_then(|mut patch| {
            let fields = patch.as_object_mut()?;
            fields.remove("spec");
            (!fields.is_empty()).then_some(patch)
        });
        rest
    }

    /// Reports that a plugin stopped the binding before or after its decision.
    pub fn stopped(binding: &Binding, error: &PluginError) -> Self {
        let (reason, verdict) = if error.is_unschedulable() {
            (Reason::Unschedulable, Verdict::Wait)
        } else {
            (Reason::SchedulerError, Verdict::Retry)
        };
        Self::failure(binding, reason, error.to_string(), verdict)
    }

    /// Creates the plan for an outcome. `placement_json` is the canonical JSON of the placement.
    pub fn of(binding: &Binding, placement_json: &str, outcome: &Outcome) -> Self {
        Self::with_remark(binding, placement_json, outcome, None, None)
    }

    /// Creates the plan for an outcome. After a failure, `remark` is appended to the condition message and
    /// `note` is recorded as an event.
    pub fn with_remark(
        binding: &Binding,
        placement_json: &str,
        outcome: &Outcome,
        remark: Option<&str>,
        note: Option<Note>,
    ) -> Self {
        match &outcome.result {
            Ok(placed) => {
                let targets: Arc<[TargetCluster]> =
                    placed.targets.iter().map(target_cluster).collect();
                success(
                    binding,
                    placement_json,
                    outcome,
                    targets,
                    placed.affinity.as_deref(),
                )
            }
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

fn success(
    binding: &Binding,
    placement_json: &str,
    outcome: &Outcome,
    targets: Arc<[TargetCluster]>,
    affinity: Option<&str>,
) -> Plan {
    let result = result_patch(binding, placement_json, &targets);
    let moves = result
        .as_ref()
        .is_some_and(|patch| patch.get("spec").is_some());
    let affinity = affinity
        .filter(|name| binding.status.scheduler_observing_affinity_name.as_deref() != Some(*name))
        .map(ToOwned::to_owned);
    let scheduled = Scheduled::success();
    let unchanged = result.is_none()
        && affinity.is_none()
        && observed(binding)
        && scheduled.is_stored(&binding.status)
        && !reschedule_required(binding);
    if unchanged {
        return Plan::nothing(Verdict::Done);
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
        verdict: Verdict::Done,
    }
}

fn failure(
    binding: &Binding,
    placement_json: &str,
    outcome: &Outcome,
    error: &ScheduleError,
    message: String,
) -> Plan {
    let (reason, mut verdict) = match error {
        ScheduleError::NoFit(_) => (Reason::NoClusterFit, Verdict::Wait),
        ScheduleError::Plugin(error) if error.is_unschedulable() => {
            (Reason::Unschedulable, Verdict::Wait)
        }
        ScheduleError::Plugin(_) => (Reason::SchedulerError, Verdict::Retry),
    };
    let no_fit = reason == Reason::NoClusterFit;
    // A result that fits nowhere is withdrawn; other failures keep the previous result.
    let result = if no_fit {
        result_patch(binding, placement_json, &[])
    } else {
        None
    };
    let scheduled = Scheduled::failed(reason, message);
    if result.is_none() && scheduled.is_stored(&binding.status) {
        return Plan::nothing(verdict);
    }
    if result.is_some() && !binding.spec.clusters.is_empty() {
        // Filters accept the clusters that a binding already uses. Once it is withdrawn, they may report more
        // reasons, so decide again for an accurate condition.
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

/// Returns one event for each affinity group without a fitting cluster. The wording is Karmada's.
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

/// Formats the message after a success. As in Karmada, cluster-scoped bindings get no colon.
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

/// Returns the merge patch of annotation and clusters with only the changed fields, or `None` if nothing
/// changed.
fn result_patch(
    binding: &Binding,
    placement_json: &str,
    targets: &[TargetCluster],
) -> Option<Value> {
    let mut patch = json!({});
    if binding.annotation(APPLIED_PLACEMENT) != placement_json {
        patch["metadata"] = json!({ "annotations": { APPLIED_PLACEMENT: placement_json } });
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

/// Reports whether two results are equal, ignoring order.
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
    /// Returns the merge patch of the status subresource, given the stored status and the generation to
    /// observe.
    pub fn patch(&self, stored: &BindingStatus, generation: i64, now: jiff::Timestamp) -> Value {
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
