//! Replicas, components and dependencies of pod templates, for all projects.

use std::collections::BTreeSet;

use berth_api::binding::{Component, ComponentReplicaRequirements};
use berth_api::dependency::DependentObjectReference;
use berth_apimachinery::json_fields::text_at;
use serde_json::{Value, json};

use super::{Result, missing};
use crate::error::InterpretError;
use crate::native::{pod_dependencies, pod_requirements};
use crate::workload_requirements::Interpretation;

/// Returns an interpretation with these replicas and the requirements of a pod template.
pub(super) fn interpretation(replicas: i32, template: &Value) -> Result<Interpretation> {
    Ok(Interpretation {
        replicas,
        requirements: pod_requirements(template)?,
        priority_class_name: template
            .pointer("/spec/priorityClassName")
            .and_then(Value::as_str)
            .map(str::to_owned),
    })
}

/// Returns an interpretation with these replicas and the requirements of `spec.template`.
pub(super) fn of_template(object: &Value, replicas: i32) -> Result<Interpretation> {
    let template = object.pointer("/spec/template");
    interpretation(replicas, template.ok_or_else(|| missing("/spec/template"))?)
}

/// Returns the number of replicas at a JSON pointer, or the default if the field is missing.
pub(super) fn replicas_at(
    object: &Value,
    pointer: &'static str,
    default: Option<i32>,
) -> Result<i32> {
    match object.pointer(pointer).filter(|value| !value.is_null()) {
        None => default.ok_or_else(|| missing(pointer)),
        Some(value) => {
            let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| missing(pointer))
        }
    }
}

/// Returns a number that may be written as text, or `None` if the value is absent or has another form.
pub(super) fn number_or_text(value: Option<&Value>) -> Option<f64> {
    match value? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns a number of replicas that may be written as text. Drops the fraction.
pub(super) fn count(value: Option<&Value>, default: i32) -> i32 {
    number_or_text(value).map_or(default, to_count)
}

/// Converts a number to a number of replicas. Drops the fraction.
#[expect(
    clippy::cast_possible_truncation,
    reason = "limited to the range before"
)]
pub(super) fn to_count(number: f64) -> i32 {
    number.clamp(0.0, f64::from(i32::MAX)) as i32
}

/// Returns a component with the requirements of a pod template.
pub(super) fn component(name: &str, replicas: i32, template: Option<&Value>) -> Result<Component> {
    let requirements = template.map(pod_requirements).transpose()?.flatten();
    with_requirements(name, replicas, requirements)
}

/// Returns a component with these requirements.
pub(super) fn with_requirements(
    name: &str,
    replicas: i32,
    requirements: Option<Value>,
) -> Result<Component> {
    let decode = serde_json::from_value::<ComponentReplicaRequirements>;
    let requirements = requirements.map(decode).transpose();
    Ok(Component {
        name: name.to_owned(),
        replicas,
        replica_requirements: requirements.map_err(|source| InterpretError::Shape {
            kind: format!("component {name:?}"),
            source,
        })?,
    })
}

/// Returns the node claim of a pod spec.
pub(super) fn node_claim(spec: &Value) -> Option<Value> {
    let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    node_claim_with(spec.pointer(path), spec)
}

/// Returns the node claim of a pod spec without its node affinity.
pub(super) fn node_claim_without_affinity(spec: &Value) -> Option<Value> {
    node_claim_with(None, spec)
}

fn node_claim_with(affinity: Option<&Value>, spec: &Value) -> Option<Value> {
    let mut claim = json!({});
    for (field, value) in [
        ("hardNodeAffinity", affinity),
        ("nodeSelector", spec.get("nodeSelector")),
        ("tolerations", spec.get("tolerations")),
    ] {
        if let Some(value) = value.filter(|value| !is_empty(value)) {
            claim[field] = value.clone();
        }
    }
    (claim != json!({})).then_some(claim)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || *value == json!({}) || *value == json!([])
}

/// Returns the dependencies of several pod templates. The interpreter later sorts them and removes duplicates.
pub(super) fn dependencies<'a>(
    object: &Value,
    templates: impl IntoIterator<Item = &'a Value>,
) -> Result<Vec<DependentObjectReference>> {
    let namespace = text_at(object, "/metadata/namespace");
    let mut all = Vec::new();
    for template in templates {
        all.extend(pod_dependencies(template, namespace)?);
    }
    Ok(all)
}

/// Returns the dependencies of `spec.template`.
pub(super) fn template_dependencies(object: &Value) -> Result<Vec<DependentObjectReference>> {
    dependencies(object, object.pointer("/spec/template"))
}

/// Returns references to the named objects of API version `v1` in the namespace of an object. Skips absent and empty
/// names.
pub(super) fn named<'a>(
    object: &Value,
    kind: &str,
    names: impl IntoIterator<Item = Option<&'a Value>>,
) -> Vec<DependentObjectReference> {
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    let reference = |name: &str| DependentObjectReference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: text_at(object, "/metadata/namespace").to_owned(),
        name: name.to_owned(),
        label_selector: None,
    };
    names.into_iter().map(reference).collect()
}
