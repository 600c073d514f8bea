//! From an outcome of the engine to what is written: pure, so that the rules of writing can be read and
//! tested without a server.
//!
//! A cycle whose result, annotation, observed generation and condition equal what is stored writes
//! nothing and records no event.

use std::sync::Arc;

use berth_api::binding::{BindingStatus, TargetCluster, TargetComponent};
use berth_api::well_known::APPLIED_PLACEMENT;
use berth_core::{Outcome, PluginError, ScheduleError, Target};
use berth_events::{Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::binding::{Binding, BindingKey};
use crate::condition::{Reason, Scheduled};
use crate::need::reschedule_required;
use crate::queue::Verdict;

/// The reason of the event after a success.
pub const REASON_SUCCEEDED: &str = "ScheduleBindingSucceed";
/// The reason of the event after a failure.
pub const REASON_FAILED: &str = "ScheduleBindingFailed";

/// What one cycle writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The patch of annotation and clusters, without its precondition.
    pub result: Option<Value>,
    /// The clusters that the patch writes, where they change.
    pub targets: Option<Arc<[TargetCluster]>>,
    /// The patch of the status.
    pub status: Option<StatusPlan>,
    /// The events, recorded when the writes have landed.
    pub notes: Vec<Note>,
    /// What becomes of the key when the writes have landed.
    pub verdict: Verdict,
}

/// The patch of the status, to be completed with what the result patch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusPlan {
    /// The condition to set.
    pub scheduled: Option<Scheduled>,
    /// Whether the generation is recorded as observed.
    pub observe: bool,
    /// Whether the time is recorded as that of the last success.
    pub succeeded: bool,
    /// The affinity group now in use, where it changed.
    pub affinity: Option<String>,
}

impl Plan {
    /// A plan that writes nothing.
    pub fn nothing(verdict: Verdict) -> Self {
        Self {
            result: None,
            targets: None,
            status: None,
            notes: Vec::new(),
            verdict,
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.result.is_none() && self.status.is_none() && self.notes.is_empty()
    }

    /// Only records that the current generation was looked at, where that is not recorded yet. Where the
    /// status of the last result was lost, the affinity group and the time that it would have named are
    /// recorded as well.
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

    /// A failure before the engine was asked: the binding cannot be understood, or a write was refused.
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

    /// The same for a binding whose clusters somebody else has stored already.
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

    /// A plugin has stopped the binding before its decision, or after it.
    pub fn stopped(binding: &Binding, error: &PluginError) -> Self {
        let (reason, verdict) = if error.is_unschedulable() {
            (Reason::Unschedulable, Verdict::Wait)
        } else {
            (Reason::SchedulerError, Verdict::Retry)
        };
        Self::failure(binding, reason, error.to_string(), verdict)
    }

    /// What the outcome of a cycle asks for. `placement_json` is the canonical JSON of the placement.
    pub fn of(binding: &Binding, placement_json: &str, outcome: &Outcome) -> Self {
        Self::with_remark(binding, placement_json, outcome, None, None)
    }

    /// As [`Self::of`]; after a failure the condition also says what is done about it, and an event tells of it.
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
    let settled = result.is_none()
        && affinity.is_none()
        && observed(binding)
        && scheduled.is_stored(&binding.status)
        && !reschedule_required(binding);
    if settled {
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
    // What fits nowhere any more is withdrawn; any other failure leaves the old result in place.
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
        // Filters spare the clusters that a binding is on already: once it is withdrawn from them, they may
        // have more to say, and the condition says what holds now.
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

/// One event for each affinity group that did not fit. The spelling is Karmada's.
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

/// The message after a success; for cluster-scoped bindings it lacks the colon, as in Karmada.
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

/// The merge patch of annotation and clusters: only what differs, `None` where nothing does.
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

/// Whether two results say the same, in whatever order.
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

fn target_cluster(target: &Target) -> TargetCluster {
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
    /// The merge patch of the status subresource, given the stored status and the generation to observe.
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
#[path = "plan_tests.rs"]
mod tests;
