//! The events about drift that was corrected or left.

use berth_api::Work;
use berth_api::well_known::{CONDITION_DRIFTED, DRIFT_MODE, DRIFT_MODE_REPORT};
use berth_events::{Event, EventRecorder, Severity};
use serde_json::Value;

use super::manifest_outcome::ManifestOutcome;
use super::member_object::title;
use super::recorded_events::{template_reference, work_reference};

/// Records events about corrected drift, on the Work and on the template. Replicas that were set back have an event of
/// their own on the template.
pub(super) fn record_corrected(
    events: &EventRecorder,
    work: &Work,
    cluster: &str,
    outcomes: &[ManifestOutcome],
) {
    for (manifest, outcome) in work.spec.workload.manifests.iter().zip(outcomes) {
        if let Some(message) = correction(manifest, cluster, outcome) {
            record(events, work, manifest, "DriftCorrected", &message);
        }
    }
}

/// Returns the message about corrected drift, or `None` if there was none, or if the template has an event about it.
fn correction(manifest: &Value, cluster: &str, outcome: &ManifestOutcome) -> Option<String> {
    let ManifestOutcome::Written {
        corrected: Some(fields),
        reverted,
    } = outcome
    else {
        return None;
    };
    let is_only_scale = reverted.is_some() && fields == "spec.replicas";
    if is_only_scale && template_reference(manifest).is_some() {
        return None;
    }
    Some(format!(
        "{fields} of {} in the cluster {cluster} {} changed by another client and set back",
        title(manifest),
        was_or_were(fields)
    ))
}

/// Records events about drift that is left, on the Work and on the template.
pub(super) fn record_drifted(
    events: &EventRecorder,
    work: &Work,
    cluster: &str,
    outcomes: &[ManifestOutcome],
) {
    for (manifest, outcome) in work.spec.workload.manifests.iter().zip(outcomes) {
        if let ManifestOutcome::Drifted(fields) = outcome {
            let message = format!(
                "{} in the cluster {cluster} differs in {fields} and is left, because of the annotation {DRIFT_MODE}={DRIFT_MODE_REPORT}",
                title(manifest)
            );
            record(events, work, manifest, CONDITION_DRIFTED, &message);
        }
    }
}

fn was_or_were(fields: &str) -> &'static str {
    if fields.contains(" and ") {
        "were"
    } else {
        "was"
    }
}

fn record(
    events: &EventRecorder,
    work: &Work,
    manifest: &Value,
    reason: &'static str,
    message: &str,
) {
    let objects = [Some(work_reference(work)), template_reference(manifest)];
    for object in objects.into_iter().flatten() {
        events.record(Event {
            object,
            severity: Severity::Warning,
            reason,
            message: message.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use berth_api::well_known::TEMPLATE_UID;
    use serde_json::json;

    use super::*;
    use crate::propagation::execution::object_cache::RevertedScale;

    #[test]
    fn replicas_that_were_set_back_have_one_event() {
        let scale = RevertedScale {
            manager: "kube-controller-manager".to_owned(),
            from: json!(9),
            to: json!(2),
        };
        let written =
            |corrected: &str, reverted: Option<&RevertedScale>| ManifestOutcome::Written {
                reverted: reverted.cloned(),
                corrected: Some(corrected.to_owned()),
            };
        let (replicas, two) = ("spec.replicas", "spec.paused and spec.replicas");
        for (about, uid, outcome, expected) in [
            ("a scale", "u", written(replicas, Some(&scale)), None),
            (
                "another write of the replicas",
                "u",
                written(replicas, None),
                Some(
                    "spec.replicas of Deployment n/web in the cluster m1 was changed by another client and set back",
                ),
            ),
            (
                "a scale and another field",
                "u",
                written(two, Some(&scale)),
                Some(
                    "spec.paused and spec.replicas of Deployment n/web in the cluster m1 were changed by another client and set back",
                ),
            ),
            (
                "no template",
                "",
                written(replicas, Some(&scale)),
                Some(
                    "spec.replicas of Deployment n/web in the cluster m1 was changed by another client and set back",
                ),
            ),
            ("no drift", "u", ManifestOutcome::Unchanged, None),
        ] {
            let manifest = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
                "name": "web", "namespace": "n", "annotations": { (TEMPLATE_UID): uid } } });
            let found = correction(&manifest, "m1", &outcome);
            assert_eq!(found.as_deref(), expected, "{about}");
        }
    }
}
