//! Validation of propagation policies.

use serde_json::Value;

use super::failover_rules::check_failover;
use super::field_error::{FieldError, Path};
use super::metadata::entry;
use super::placement_rules::check_placement;
use super::{GuardedKind, Operation, Reason};
use crate::policy::{Preemption, PropagationSpec, ResourceSelector, Suspension};

pub(super) fn check(
    kind: GuardedKind,
    operation: Operation,
    old: Option<&Value>,
    policy: &Value,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if operation == Operation::Update
        && let Some(old) = old
    {
        check_unchanged(kind, old, policy, &mut errors);
    }
    check_id(kind, policy, &mut errors);
    let path = Path::new("spec");
    let raw = policy.get("spec").unwrap_or(&Value::Null);
    match PropagationSpec::deserialize_from(raw) {
        Ok(spec) => check_spec(kind, policy, &spec, &path, &mut errors),
        Err(error) => errors.push(path.invalid(error.to_string())),
    }
    errors
}

impl PropagationSpec {
    fn deserialize_from(raw: &Value) -> Result<Self, serde_json::Error> {
        serde::Deserialize::deserialize(raw)
    }
}

fn check_unchanged(kind: GuardedKind, old: &Value, policy: &Value, errors: &mut Vec<FieldError>) {
    let scheduler = |object: &Value| {
        let name = object.get("spec")?.get("schedulerName")?.as_str()?;
        Some(name.to_owned())
    };
    if scheduler(old) != scheduler(policy) {
        errors.push(
            Path::new("spec.schedulerName").invalid("the schedulerName should not be updated"),
        );
    }
    if let Some(label) = kind.permanent_id_label()
        && let Some(id) = entry(old, "labels", label)
        && entry(policy, "labels", label).is_some_and(|new| new != id)
    {
        errors.push(Path::new("metadata.labels").key(label).invalid(format!(
            "label {label} is immutable, it can only be set by the system during creation"
        )));
    }
}

fn check_id(kind: GuardedKind, policy: &Value, errors: &mut Vec<FieldError>) {
    if let Some(label) = kind.permanent_id_label()
        && entry(policy, "labels", label).is_none()
    {
        errors.push(Path::new("metadata.labels").key(label).error(
            Reason::Required,
            format!("label {label} is required, it is set by the system during creation"),
        ));
    }
}

fn check_spec(
    kind: GuardedKind,
    policy: &Value,
    spec: &PropagationSpec,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    check_placement(&spec.placement, &path.child("placement"), errors);
    if let Some(failover) = &spec.failover {
        if failover.application.is_some() && !spec.propagate_deps {
            errors.push(
                path.child("propagateDeps")
                    .invalid("application failover is set, propagateDeps must be true"),
            );
        }
        check_failover(failover, &path.child("failover"), errors);
    }
    let selectors = path.child("resourceSelectors");
    if kind == GuardedKind::PropagationPolicy {
        let namespace = policy
            .get("metadata")
            .and_then(|m| m.get("namespace"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        check_namespaces(&spec.resource_selectors, namespace, &selectors, errors);
    }
    if spec.preemption == Some(Preemption::Always) {
        check_names(&spec.resource_selectors, &selectors, errors);
    }
    if let Some(suspension) = &spec.suspension {
        check_suspension(suspension, &path.child("suspension"), errors);
    }
}

fn check_namespaces(
    selectors: &[ResourceSelector],
    namespace: &str,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    for (index, selector) in selectors.iter().enumerate() {
        if selector.namespace != namespace {
            errors.push(path.index(index).child("namespace").invalid(format!(
                "{:?} must be the namespace of the policy",
                selector.namespace
            )));
        }
    }
}

fn check_names(selectors: &[ResourceSelector], path: &Path, errors: &mut Vec<FieldError>) {
    for (index, selector) in selectors.iter().enumerate() {
        if selector.name.is_empty() {
            errors.push(path.index(index).child("name").invalid(
                "must not be empty when preemption is Always: the policy could preempt unintended resources",
            ));
        }
    }
}

fn check_suspension(suspension: &Suspension, path: &Path, errors: &mut Vec<FieldError>) {
    let some_clusters = suspension
        .dispatching_on_clusters
        .as_ref()
        .is_some_and(|clusters| !clusters.cluster_names.is_empty());
    if suspension.dispatching == Some(true) && some_clusters {
        errors.push(
            path.invalid("dispatching cannot co-exist with dispatchingOnClusters.clusterNames"),
        );
    }
}
