//! The condition `Drifted` of a Work whose manifest asks to leave drift.

use berth_api::condition::{self, Status};
use berth_api::well_known::CONDITION_DRIFTED;
use berth_api::{Work, condition_message};
use berth_apimachinery::timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::difference::reports_drift;
use super::manifest_outcome::ManifestOutcome;
use super::member_object::title;

/// Updates the condition `Drifted`, which only Works with a manifest that reports drift have. Reports whether the
/// condition changed. Without outcomes, the Work was not applied, and the stored condition is kept.
pub(super) fn set_drifted(
    conditions: &mut Vec<Condition>,
    work: &Work,
    outcomes: &[ManifestOutcome],
) -> bool {
    let manifests = &work.spec.workload.manifests;
    if outcomes.is_empty() {
        return false;
    }
    if !manifests.iter().any(reports_drift) {
        let count = conditions.len();
        conditions.retain(|condition| condition.type_ != CONDITION_DRIFTED);
        return conditions.len() != count;
    }
    let drifted: Vec<String> = manifests
        .iter()
        .zip(outcomes)
        .filter_map(|(manifest, outcome)| match outcome {
            ManifestOutcome::Drifted(fields) => Some(format!("{fields} of {}", title(manifest))),
            _ => None,
        })
        .collect();
    let is_unknown = |outcome: &ManifestOutcome| {
        matches!(
            outcome,
            ManifestOutcome::Failed(_) | ManifestOutcome::Terminating
        )
    };
    if drifted.is_empty() && outcomes.iter().any(is_unknown) {
        // Nothing is known about an object that could not be read or written, or does not exist again yet.
        return false;
    }
    let (status, reason, message) = if drifted.is_empty() {
        let message = "The objects in the member equal their manifests".to_owned();
        (Status::False, "NoDifference", message)
    } else {
        let message = format!("The member differs in {}", drifted.join("; "));
        (Status::True, "Different", message)
    };
    let message = condition_message::truncate(message);
    let now = timestamp::now();
    condition::set(conditions, CONDITION_DRIFTED, status, reason, &message, now)
}

#[cfg(test)]
mod tests {
    use berth_api::well_known::{DRIFT_MODE, DRIFT_MODE_REPORT};
    use serde_json::{Value, json};

    use super::*;

    fn work(annotations: Value) -> Work {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c",
            "namespace": "default", "annotations": annotations}});
        let spec = json!({"workload": {"manifests": [manifest]}});
        serde_json::from_value(json!({"metadata": {"name": "w"}, "spec": spec})).unwrap()
    }

    #[test]
    fn the_condition_follows_the_mode_and_the_outcome() {
        let reporting = work(json!({ (DRIFT_MODE): DRIFT_MODE_REPORT }));
        let drifted = ManifestOutcome::Drifted("data.a".to_owned());
        let failed = ManifestOutcome::Failed("no".to_owned());
        let mut conditions = Vec::new();
        for (work, outcomes, changed, expected) in [
            (&reporting, vec![drifted.clone()], true, Some("True")),
            (&reporting, vec![drifted], false, Some("True")),
            // The Work was not applied.
            (&reporting, vec![], false, Some("True")),
            (&reporting, vec![failed], false, Some("True")),
            (
                &reporting,
                vec![ManifestOutcome::Terminating],
                false,
                Some("True"),
            ),
            (
                &reporting,
                vec![ManifestOutcome::Unchanged],
                true,
                Some("False"),
            ),
            (
                &work(json!({})),
                vec![ManifestOutcome::Unchanged],
                true,
                None,
            ),
            (
                &work(json!({ (DRIFT_MODE): "other" })),
                vec![ManifestOutcome::Unchanged],
                false,
                None,
            ),
        ] {
            let case = format!("{outcomes:?}");
            assert_eq!(
                set_drifted(&mut conditions, work, &outcomes),
                changed,
                "{case}"
            );
            let condition = condition::find(&conditions, CONDITION_DRIFTED);
            assert_eq!(condition.map(|c| c.status.as_str()), expected, "{case}");
            if expected == Some("True") {
                let message = "The member differs in data.a of ConfigMap default/c";
                assert_eq!(condition.unwrap().message, message);
            }
        }
    }
}
