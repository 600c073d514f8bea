//! Defaults of propagation policies: the permanent id, the finalizer, and fields of the spec.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::metadata::{add_finalizer, entry, set_label};
use super::{Environment, GuardedKind, Operation, drop_empty_values};
use crate::policy::PropagationSpec;

/// Default of `gracePeriodSeconds`: the maximum time that a graceful failover waits for healthy replicas in the new
/// clusters.
const GRACE_PERIOD_SECONDS: i32 = 600;

pub(super) fn mutate(
    kind: GuardedKind,
    operation: Operation,
    policy: &mut Value,
    environment: &mut dyn Environment,
) {
    fill_spec(kind, policy);
    if let Some(spec) = policy.get_mut("spec")
        && let Ok(typed) = PropagationSpec::deserialize(&*spec)
    {
        drop_empty_values(spec, &typed);
    }
    if operation == Operation::Create {
        // An existing id is overwritten, because it may come from a copied manifest of another policy.
        if let Some(label) = kind.permanent_id_label() {
            set_label(policy, label, environment.new_id());
        }
        if let Some(finalizer) = kind.policy_finalizer() {
            add_finalizer(policy, finalizer);
        }
    }
}

/// Completes a policy that was stored without the mutating phase.
///
/// Sets missing defaults and a missing id. Adds a missing finalizer unless the policy is being deleted. A complete
/// policy stays unchanged.
pub fn complete_policy(kind: GuardedKind, policy: &mut Value, environment: &mut dyn Environment) {
    fill_spec(kind, policy);
    if let Some(label) = kind.permanent_id_label()
        && entry(policy, "labels", label).is_none_or(str::is_empty)
    {
        set_label(policy, label, environment.new_id());
    }
    let deleting = policy
        .get("metadata")
        .is_some_and(|m| m.get("deletionTimestamp").is_some_and(|t| !t.is_null()));
    if !deleting && let Some(finalizer) = kind.policy_finalizer() {
        add_finalizer(policy, finalizer);
    }
}

/// Sets the defaults of the schema and of Karmada's webhook. A default of the webhook that depends on a default of the
/// schema is set after it.
fn fill_spec(kind: GuardedKind, policy: &mut Value) {
    let namespace = policy
        .get("metadata")
        .and_then(|m| m.get("namespace"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let Some(spec) = policy.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    default(spec, "priority", json!(0));
    default(spec, "preemption", json!("Never"));
    default(spec, "schedulerName", json!("default-scheduler"));
    default(spec, "conflictResolution", json!("Abort"));
    if kind == GuardedKind::PropagationPolicy
        && let Some(namespace) = namespace
    {
        fill_selector_namespaces(spec, &namespace);
    }
    if selects_service_imports(spec) {
        spec.insert("propagateDeps".to_owned(), json!(true));
    }
    let placement = spec.entry("placement").or_insert(Value::Null);
    if placement.is_null() {
        *placement = json!({});
    }
    if let Some(placement) = placement.as_object_mut() {
        fill_placement(placement);
    }
    fill_failover(spec);
}

fn fill_selector_namespaces(spec: &mut Map<String, Value>, namespace: &str) {
    for selector in objects_in(spec, "resourceSelectors") {
        if is_blank(selector.get("namespace")) {
            selector.insert("namespace".to_owned(), json!(namespace));
        }
    }
}

fn selects_service_imports(spec: &mut Map<String, Value>) -> bool {
    objects_in(spec, "resourceSelectors").any(|selector| {
        selector.get("kind") == Some(&json!("ServiceImport"))
            && selector.get("apiVersion") == Some(&json!("multicluster.x-k8s.io/v1alpha1"))
    })
}

fn fill_placement(placement: &mut Map<String, Value>) {
    for constraint in objects_in(placement, "spreadConstraints") {
        if is_blank(constraint.get("spreadByField")) && is_blank(constraint.get("spreadByLabel")) {
            constraint.insert("spreadByField".to_owned(), json!("cluster"));
        }
        if constraint
            .get("minGroups")
            .is_none_or(|groups| groups.is_null() || groups.as_f64() == Some(0.0))
        {
            constraint.insert("minGroups".to_owned(), json!(1));
        }
    }
    if let Some(scheduling) = placement
        .get_mut("replicaScheduling")
        .and_then(Value::as_object_mut)
    {
        default(scheduling, "replicaSchedulingType", json!("Divided"));
        if scheduling.get("replicaSchedulingType") == Some(&json!("Divided"))
            && is_blank(scheduling.get("replicaDivisionPreference"))
        {
            scheduling.insert("replicaDivisionPreference".to_owned(), json!("Weighted"));
        }
    }
}

fn fill_failover(spec: &mut Map<String, Value>) {
    let Some(failover) = spec.get_mut("failover").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(application) = failover
        .get_mut("application")
        .and_then(Value::as_object_mut)
    {
        default(application, "purgeMode", json!("Gracefully"));
        if let Some(conditions) = application
            .get_mut("decisionConditions")
            .and_then(Value::as_object_mut)
        {
            default(conditions, "tolerationSeconds", json!(300));
        }
        if application.get("purgeMode") == Some(&json!("Gracefully")) {
            default(
                application,
                "gracePeriodSeconds",
                json!(GRACE_PERIOD_SECONDS),
            );
        }
    }
    if let Some(cluster) = failover.get_mut("cluster").and_then(Value::as_object_mut) {
        default(cluster, "purgeMode", json!("Gracefully"));
    }
}

/// Sets a field that is missing or null. If the default is a string, an empty string also counts as missing, because
/// Karmada drops empty strings when it encodes an object.
fn default(map: &mut Map<String, Value>, key: &str, value: Value) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() || (value.is_string() && *slot == "") {
        *slot = value;
    }
}

fn is_blank(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_null() || value == "")
}

fn objects_in<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}
