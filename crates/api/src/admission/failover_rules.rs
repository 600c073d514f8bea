//! Validation of the failover behaviour in policies.

use super::field_error::{FieldError, Path};
use crate::label_selector::validate_label_key;
use crate::policy::{ApplicationFailover, FailoverBehavior, PurgeMode, StatePreservation};

pub(super) fn check_failover(
    failover: &FailoverBehavior,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(application) = &failover.application {
        check_application(application, &path.child("application"), errors);
    }
    if let Some(cluster) = &failover.cluster
        && let Some(preservation) = &cluster.state_preservation
    {
        check_preservation(
            preservation,
            &path.child("cluster").child("statePreservation"),
            errors,
        );
    }
}

fn check_application(application: &ApplicationFailover, path: &Path, errors: &mut Vec<FieldError>) {
    if application
        .decision_conditions
        .toleration_seconds
        .is_some_and(|seconds| seconds < 0)
    {
        errors.push(
            path.child("decisionConditions")
                .child("tolerationSeconds")
                .invalid("must be greater than or equal to 0"),
        );
    }
    let grace = path.child("gracePeriodSeconds");
    let graceful = application.purge_mode == Some(PurgeMode::Gracefully);
    match application.grace_period_seconds {
        None if graceful => {
            errors.push(grace.invalid("should not be empty when purgeMode is Gracefully"));
        }
        None => {}
        Some(seconds) => {
            if !graceful {
                errors.push(grace.invalid("only takes effect when purgeMode is Gracefully"));
            }
            if seconds <= 0 {
                errors.push(grace.invalid("must be greater than 0"));
            }
        }
    }
    if let Some(preservation) = &application.state_preservation {
        check_preservation(preservation, &path.child("statePreservation"), errors);
    }
}

fn check_preservation(preservation: &StatePreservation, path: &Path, errors: &mut Vec<FieldError>) {
    for (index, rule) in preservation.rules.iter().enumerate() {
        if let Err(error) = validate_label_key(&rule.alias_label_name) {
            errors.push(
                path.child("rules")
                    .index(index)
                    .child("aliasLabelName")
                    .invalid(error.to_string()),
            );
        }
    }
}
