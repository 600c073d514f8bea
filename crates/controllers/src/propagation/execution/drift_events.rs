//! The events about drift that was corrected or left.

use berth_api::Work;
use berth_api::well_known::{CONDITION_DRIFTED, DRIFT_MODE, DRIFT_MODE_REPORT};
use berth_events::{Event, EventRecorder, Severity};
use serde_json::Value;

use super::manifest_outcome::ManifestOutcome;
use super::member_object::title;
use super::recorded_events::{template_reference, work_reference};

/// Records events about corrected drift, on the Work and on the template.
pub(super) fn record_corrected(
    events: &EventRecorder,
    work: &Work,
    cluster: &str,
    outcomes: &[ManifestOutcome],
) {
    for (manifest, outcome) in work.spec.workload.manifests.iter().zip(outcomes) {
        if let ManifestOutcome::Written {
            corrected: Some(fields),
            ..
        } = outcome
        {
            let message = format!(
                "{fields} of {} in the cluster {cluster} {} changed by another client and set back",
                title(manifest),
                was_or_were(fields)
            );
            record(events, work, manifest, "DriftCorrected", &message);
        }
    }
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
