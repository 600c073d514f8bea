//! Validation of placements.

use std::collections::BTreeMap;

use super::Reason;
use super::affinity_rules::{check_affinities, check_affinity};
use super::field_error::{FieldError, Path};
use crate::label_selector::validate_label_key;
use crate::placement::{
    Placement, ReplicaDivisionPreference, ReplicaScheduling, ReplicaSchedulingType,
    SpreadConstraint, SpreadField, WorkloadAffinity,
};
use crate::toleration::Toleration;

pub(super) fn check_placement(placement: &Placement, path: &Path, errors: &mut Vec<FieldError>) {
    if placement.cluster_affinity.is_some() && !placement.cluster_affinities.is_empty() {
        errors.push(path.invalid("clusterAffinities cannot co-exist with clusterAffinity"));
    }
    if let Some(affinity) = &placement.cluster_affinity {
        check_affinity(affinity, &path.child("clusterAffinity"), errors);
    }
    let may_overflow = placement
        .replica_scheduling
        .as_ref()
        .is_some_and(allows_overflow);
    check_affinities(
        &placement.cluster_affinities,
        may_overflow,
        &path.child("clusterAffinities"),
        errors,
    );
    check_spread(
        &placement.spread_constraints,
        &path.child("spreadConstraints"),
        errors,
    );
    if let Some(affinity) = &placement.workload_affinity {
        check_workload_affinity(affinity, &path.child("workloadAffinity"), errors);
    }
    check_tolerations(
        &placement.cluster_tolerations,
        &path.child("clusterTolerations"),
        errors,
    );
}

/// Reports whether overflow affinities are allowed. Overflow affinities require that the scheduler divides replicas by
/// the free capacity of clusters.
fn allows_overflow(scheduling: &ReplicaScheduling) -> bool {
    if scheduling.replica_scheduling_type != Some(ReplicaSchedulingType::Divided) {
        return false;
    }
    match &scheduling.replica_division_preference {
        Some(ReplicaDivisionPreference::Aggregated) => true,
        Some(ReplicaDivisionPreference::Weighted) => scheduling
            .weight_preference
            .as_ref()
            .is_some_and(|weights| weights.dynamic_weight.is_some()),
        _ => false,
    }
}

fn check_spread(constraints: &[SpreadConstraint], path: &Path, errors: &mut Vec<FieldError>) {
    let mut uses: BTreeMap<&SpreadField, usize> = BTreeMap::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let by_label = constraint
            .spread_by_label
            .as_ref()
            .is_some_and(|label| !label.is_empty());
        if constraint.spread_by_field.is_some() && by_label {
            errors.push(path.invalid("spreadByLabel should not co-exist with spreadByField"));
        }
        if constraint.min_groups < 0 {
            errors.push(
                path.child("minGroups")
                    .invalid("minGroups lower than 0 is not allowed"),
            );
        }
        if constraint.max_groups < 0 {
            errors.push(
                path.child("maxGroups")
                    .invalid("maxGroups lower than 0 is not allowed"),
            );
        }
        if constraint.max_groups > 0 && constraint.max_groups < constraint.min_groups {
            errors.push(
                path.child("maxGroups")
                    .invalid("maxGroups lower than minGroups is not allowed"),
            );
        }
        if let Some(field) = &constraint.spread_by_field {
            *uses.entry(field).or_default() += 1;
        }
    }
    for (field, count) in &uses {
        if *count > 1 {
            errors.push(path.invalid(format!(
                "multiple {field} spread constraints are not allowed"
            )));
        }
    }
    if !uses.is_empty() && !uses.contains_key(&SpreadField::Cluster) {
        errors.push(path.invalid(
            "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField is enabled",
        ));
    }
}

fn check_workload_affinity(affinity: &WorkloadAffinity, path: &Path, errors: &mut Vec<FieldError>) {
    for (term, name) in [
        (&affinity.affinity, "affinity"),
        (&affinity.anti_affinity, "antiAffinity"),
    ] {
        if let Some(term) = term
            && let Err(error) = validate_label_key(&term.group_by_label_key)
        {
            errors.push(
                path.child(name)
                    .child("groupByLabelKey")
                    .invalid(error.to_string()),
            );
        }
    }
    if let (Some(together), Some(apart)) = (&affinity.affinity, &affinity.anti_affinity)
        && together.group_by_label_key == apart.group_by_label_key
    {
        errors
            .push(path.invalid("affinity and antiAffinity must not use the same groupByLabelKey"));
    }
}

fn check_tolerations(tolerations: &[Toleration], path: &Path, errors: &mut Vec<FieldError>) {
    for (index, toleration) in tolerations.iter().enumerate() {
        if let Some(operator @ ("Lt" | "Gt")) = toleration.operator.as_deref() {
            errors.push(path.index(index).child("operator").error(
                Reason::NotSupported,
                format!("{operator:?} is not supported: use Exists, Equal or nothing"),
            ));
        }
    }
}
