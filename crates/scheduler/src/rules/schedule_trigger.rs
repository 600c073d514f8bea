//! The rules that determine whether a binding needs scheduling, in the order of their evaluation.

use berth_api::binding::BindingSpec;
use berth_api::placement::{Placement, ReplicaSchedulingType};
use berth_api::well_known::{
    APPLIED_PLACEMENT, APPLIED_REPLICA_LIMITS, CONDITION_SCHEDULED, REPLICA_LIMITS,
};
use berth_api::{Binding, condition};

use crate::rules::condition::reports_waiting;

/// The reason for scheduling a binding, as metrics report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScheduleType {
    /// A reason other than the number of replicas, such as a changed placement, a cluster that is being deleted, or a
    /// user's reschedule request.
    Reconcile,
    /// The number of requested replicas differs from the number of assigned replicas.
    Scale,
}

impl ScheduleType {
    /// Returns the value of the metric label `schedule_type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reconcile => "ReconcileSchedule",
            Self::Scale => "ScaleSchedule",
        }
    }
}

/// Returns the type of the first rule that requires scheduling, or `None` if no rule requires it.
///
/// `placement_json` is the canonical JSON of the placement. `multiple_pod_templates` is the feature gate
/// MultiplePodTemplatesScheduling. `cluster_is_leaving` reports whether the named cluster is being deleted.
pub fn schedule_type(
    binding: &Binding,
    placement: &Placement,
    placement_json: &str,
    multiple_pod_templates: bool,
    cluster_is_leaving: impl Fn(&str) -> bool,
) -> Option<ScheduleType> {
    if placement_changed(binding, placement, placement_json) || limits_changed(binding) {
        return Some(ScheduleType::Reconcile);
    }
    if replicas_changed(&binding.spec, placement, multiple_pod_templates)
        || condition::scheduled(&binding.status.conditions).is_some_and(reports_waiting)
    {
        return Some(ScheduleType::Scale);
    }
    if reschedule_required(binding)
        || !binding.spec.is_workload()
        || placement.scheduling_type() == ReplicaSchedulingType::Duplicated
        || binding
            .spec
            .clusters
            .iter()
            .any(|target| cluster_is_leaving(&target.name))
        || status_was_lost(binding)
    {
        return Some(ScheduleType::Reconcile);
    }
    None
}

/// Reports whether the limits on the replicas differ from those of the last decision.
fn limits_changed(binding: &Binding) -> bool {
    binding.annotation(REPLICA_LIMITS) != binding.annotation(APPLIED_REPLICA_LIMITS)
}

/// Reports whether a user requested a reschedule after the last scheduling.
pub fn reschedule_required(binding: &Binding) -> bool {
    match (
        &binding.spec.reschedule_triggered_at,
        &binding.status.last_scheduled_time,
    ) {
        (Some(triggered), Some(scheduled)) => triggered.0 > scheduled.0,
        _ => false,
    }
}

/// Reports whether a scheduler wrote a result, but ended before it wrote the status. The write of the result
/// incremented the generation. Therefore the observed generation is older, and the `Scheduled` condition is not true.
fn status_was_lost(binding: &Binding) -> bool {
    binding.status.scheduler_observed_generation != Some(binding.generation())
        && !condition::is_true(&binding.status.conditions, CONDITION_SCHEDULED)
}

/// Reports whether the placement differs from the last applied placement in a field that affects the binding.
///
/// An annotation of the binding contains the last applied placement. As in Karmada, an unreadable annotation means that
/// the placement is unchanged.
pub fn placement_changed(binding: &Binding, placement: &Placement, placement_json: &str) -> bool {
    let annotation = binding.annotation(APPLIED_PLACEMENT);
    if annotation == placement_json {
        return false;
    }
    if annotation.is_empty() {
        return true;
    }
    let applied: Placement = match serde_json::from_str(annotation) {
        Ok(applied) => applied,
        Err(error) => {
            tracing::warn!(binding = %binding.key, %error, "cannot read the applied placement");
            return false;
        }
    };
    if applied == *placement {
        return false;
    }
    if applied.cluster_affinity != placement.cluster_affinity
        || applied.cluster_tolerations != placement.cluster_tolerations
        || applied.spread_constraints != placement.spread_constraints
        || applied.replica_scheduling != placement.replica_scheduling
    {
        return true;
    }
    let observed = binding
        .status
        .scheduler_observing_affinity_name
        .as_deref()
        .unwrap_or_default();
    if observed.is_empty() {
        return true;
    }
    let term = |placement: &Placement| {
        placement
            .cluster_affinities
            .iter()
            .find(|term| term.affinity_name == observed)
            .cloned()
    };
    match (term(&applied), term(placement)) {
        (Some(before), Some(now)) => before != now,
        _ => true,
    }
}

/// Reports whether the assigned replicas differ from the requested replicas.
fn replicas_changed(
    spec: &BindingSpec,
    placement: &Placement,
    multiple_pod_templates: bool,
) -> bool {
    let Some(scheduling) = &placement.replica_scheduling else {
        return false;
    };
    if multiple_pod_templates && !spec.components.is_empty() && spec.clusters.is_empty() {
        return true;
    }
    match &scheduling.replica_scheduling_type {
        Some(ReplicaSchedulingType::Duplicated) => spec
            .clusters
            .iter()
            .any(|target| target.replicas != spec.replicas),
        Some(ReplicaSchedulingType::Divided) => {
            let placed: i64 = spec
                .clusters
                .iter()
                .map(|target| i64::from(target.replicas))
                .sum();
            placed != i64::from(spec.replicas)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use berth_api::go_json::placement_json;
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::condition::Scheduled;

    /// Returns a binding with 2 divided replicas that is scheduled on m1, after `changes` are merged into it.
    fn scheduled_with(changes: Value) -> Binding {
        let placement = json!({ "clusterAffinity": { "clusterNames": ["m1"] },
            "replicaScheduling": { "replicaSchedulingType": "Divided" } });
        let parsed: Placement = serde_json::from_value(placement.clone()).unwrap();
        let mut object = json!({
            "metadata": { "name": "b", "namespace": "n", "generation": 2,
                "annotations": { APPLIED_PLACEMENT: placement_json(&parsed).unwrap() } },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" }, "replicas": 2,
                "placement": placement, "clusters": [{ "name": "m1", "replicas": 2 }] },
            "status": { "schedulerObservedGeneration": 2, "lastScheduledTime": "2024-01-01T00:00:00Z",
                "conditions": [{ "type": "Scheduled", "status": "True", "reason": "Success", "message": "",
                    "lastTransitionTime": "2024-01-01T00:00:00Z" }] },
        });
        merge(&mut object, changes);
        serde_json::from_value::<ResourceBinding>(object)
            .unwrap()
            .into()
    }

    fn merge(target: &mut Value, patch: Value) {
        match (target, patch) {
            (Value::Object(target), Value::Object(patch)) => {
                for (key, value) in patch {
                    merge(target.entry(key).or_insert(Value::Null), value);
                }
            }
            (target, patch) => *target = patch,
        }
    }

    fn why(binding: &Binding) -> Option<ScheduleType> {
        let placement = binding.spec.placement.clone().unwrap();
        let json = placement_json(&placement).unwrap();
        schedule_type(binding, &placement, &json, false, |name| name == "leaving")
    }

    #[test]
    fn each_rule_triggers_scheduling() {
        let annotation =
            |text: &str| json!({ "metadata": { "annotations": { APPLIED_PLACEMENT: text } } });
        let duplicated = json!({ "replicaSchedulingType": "Duplicated" });
        let cases = [
            ("unchanged", json!({}), None),
            (
                "never scheduled",
                annotation(""),
                Some(ScheduleType::Reconcile),
            ),
            (
                "an unreadable annotation counts as unchanged",
                annotation("{"),
                None,
            ),
            (
                "another placement",
                annotation(r#"{"clusterAffinity":{}}"#),
                Some(ScheduleType::Reconcile),
            ),
            (
                "scaled up",
                json!({ "spec": { "replicas": 3 } }),
                Some(ScheduleType::Scale),
            ),
            (
                "scaled to zero",
                json!({ "spec": { "replicas": 0, "replicaRequirements": {} } }),
                Some(ScheduleType::Scale),
            ),
            (
                "a target is leaving",
                json!({ "spec": { "clusters": [{ "name": "leaving", "replicas": 2 }] } }),
                Some(ScheduleType::Reconcile),
            ),
            (
                "a reschedule was requested",
                json!({ "spec": { "rescheduleTriggeredAt": "2024-01-01T00:00:01Z" } }),
                Some(ScheduleType::Reconcile),
            ),
            (
                "a reschedule was requested in the same second as the last scheduling",
                json!({ "spec": { "rescheduleTriggeredAt": "2024-01-01T00:00:00Z" } }),
                None,
            ),
            (
                "no workload",
                json!({ "spec": { "replicas": 0, "clusters": [] } }),
                Some(ScheduleType::Reconcile),
            ),
            (
                "duplicated",
                json!({ "spec": { "placement": { "replicaScheduling": duplicated } } }),
                Some(ScheduleType::Reconcile),
            ),
            (
                "other limits",
                json!({ "metadata": { "annotations": { REPLICA_LIMITS: "{}" } } }),
                Some(ScheduleType::Reconcile),
            ),
            (
                "limits removed",
                json!({ "metadata": { "annotations": { APPLIED_REPLICA_LIMITS: "{}" } } }),
                Some(ScheduleType::Reconcile),
            ),
            (
                "the same limits",
                json!({ "metadata": { "annotations": { REPLICA_LIMITS: "{}", APPLIED_REPLICA_LIMITS: "{}" } } }),
                None,
            ),
            (
                "the condition reports waiting replicas, but all replicas are placed",
                json!({ "status": { "conditions": [{ "type": "Scheduled", "status": "True", "reason": "Success",
                    "message": Scheduled::placed(1, 2).message, "lastTransitionTime": "2024-01-01T00:00:00Z" }] } }),
                Some(ScheduleType::Scale),
            ),
            (
                "the observed generation is behind, but the condition is true",
                json!({ "metadata": { "generation": 3 } }),
                None,
            ),
            (
                "the status of a result was lost",
                json!({ "metadata": { "generation": 3 }, "status": { "conditions": [] } }),
                Some(ScheduleType::Reconcile),
            ),
        ];
        for (name, changes, expected) in cases {
            assert_eq!(why(&scheduled_with(changes)), expected, "{name}");
        }
    }

    #[test]
    fn only_the_affinity_term_in_use_triggers_scheduling() {
        let term =
            |name: &str, cluster: &str| json!({ "affinityName": name, "clusterNames": [cluster] });
        let applied: Placement = serde_json::from_value(
            json!({ "clusterAffinities": [term("a", "m1"), term("b", "m2")] }),
        )
        .unwrap();
        let cases = [
            (
                "the same",
                "a",
                vec![term("a", "m1"), term("b", "m2")],
                false,
            ),
            (
                "another term edited",
                "a",
                vec![term("a", "m1"), term("b", "m3")],
                false,
            ),
            ("another term removed", "a", vec![term("a", "m1")], false),
            (
                "reordered",
                "a",
                vec![term("b", "m2"), term("a", "m1")],
                false,
            ),
            (
                "the term in use edited",
                "b",
                vec![term("a", "m1"), term("b", "m3")],
                true,
            ),
            ("the term in use removed", "b", vec![term("a", "m1")], true),
            (
                "no term in use",
                "",
                vec![term("a", "m1"), term("b", "m3")],
                true,
            ),
        ];
        for (name, observed, terms, expected) in cases {
            let mut binding = scheduled_with(json!({
                "metadata": { "annotations": { APPLIED_PLACEMENT: placement_json(&applied).unwrap() } },
                "status": { "schedulerObservingAffinityName": observed },
            }));
            let placement: Placement =
                serde_json::from_value(json!({ "clusterAffinities": terms })).unwrap();
            binding.spec.placement = Some(placement.clone());
            let json = placement_json(&placement).unwrap();
            assert_eq!(
                placement_changed(&binding, &placement, &json),
                expected,
                "{name}"
            );
        }
    }
}
