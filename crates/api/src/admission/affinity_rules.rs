//! Validation of cluster affinities, which select clusters in propagation policies and override policies.

use std::collections::BTreeSet;

use super::field_error::{FieldError, Path};
use crate::field_selector::FieldOperator;
use crate::label_selector::validate_label_key;
use crate::placement::{ClusterAffinity, ClusterAffinityTerm};

pub(super) fn check_affinity(
    affinity: &ClusterAffinity,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(selector) = &affinity.field_selector else {
        return;
    };
    let path = path.child("fieldSelector").child("matchExpressions");
    for (index, expression) in selector.match_expressions.iter().enumerate() {
        if !matches!(expression.key.as_str(), "provider" | "region" | "zone") {
            errors.push(path.index(index).child("key").invalid(format!(
                "unsupported key {:?}, must be provider, region, or zone",
                expression.key
            )));
        }
        if !matches!(
            expression.operator,
            FieldOperator::In | FieldOperator::NotIn
        ) {
            errors.push(path.index(index).child("operator").invalid(format!(
                "unsupported operator {:?}, must be In or NotIn",
                expression.operator.as_str()
            )));
        }
    }
}

pub(super) fn check_affinities(
    terms: &[ClusterAffinityTerm],
    may_overflow: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let mut names = BTreeSet::new();
    for (index, term) in terms.iter().enumerate() {
        let at = path.index(index);
        check_name(&term.affinity_name, &at, errors);
        if !names.insert(&term.affinity_name) {
            errors.push(path.invalid(format!(
                "each affinity term in a policy must have a unique name, {:?} repeats",
                term.affinity_name
            )));
        }
        check_affinity(&term.affinity, &at, errors);
        if !term.overflow_affinities.is_empty() {
            check_overflow(term, may_overflow, &at.child("overflowAffinities"), errors);
        }
    }
}

fn check_overflow(
    term: &ClusterAffinityTerm,
    may_overflow: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if !may_overflow {
        errors.push(path.invalid(
            "overflowAffinities can only be used together with dynamic weight or aggregated scheduling",
        ));
    }
    if term.affinity == ClusterAffinity::default() {
        errors.push(path.invalid(
            "overflowAffinities can only be used together with the inline ClusterAffinity",
        ));
    }
    let mut names = BTreeSet::from([&term.affinity_name]);
    for (index, overflow) in term.overflow_affinities.iter().enumerate() {
        let at = path.index(index);
        check_name(&overflow.affinity_name, &at, errors);
        if !names.insert(&overflow.affinity_name) {
            errors.push(at.child("affinityName").invalid(format!(
                "{:?} must be unique and not the name of the primary group",
                overflow.affinity_name
            )));
        }
        check_affinity(&overflow.affinity, &at, errors);
    }
}

fn check_name(name: &str, term: &Path, errors: &mut Vec<FieldError>) {
    if let Err(error) = validate_label_key(name) {
        errors.push(term.child("affinityName").invalid(error.to_string()));
    }
}
