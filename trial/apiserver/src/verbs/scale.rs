//! The scale subresource: the conversion between an object with a replica count and its `autoscaling/v1` Scale.

use berth_apimachinery::label_selector;
use serde_json::{Value, json};

use crate::error::{ApiError, Cause};
use crate::resource::Resource;
use crate::schema::decode;

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |v, step| &v[step])
}

/// Returns the pod selector of an object as text.
fn selector(value: &Value, resource: &Resource) -> String {
    let path = resource.scale.as_ref().and_then(|s| s.selector.as_deref());
    if let Some(text) = path.and_then(|p| at(value, p).as_str()) {
        return text.to_owned();
    }
    if resource.is_custom() {
        return String::new();
    }
    let selector = &value["spec"]["selector"];
    if resource.plural == "replicationcontrollers" {
        label_selector::format(&json!({"matchLabels": selector}))
    } else {
        label_selector::format(selector)
    }
}

/// Returns the desired number of replicas of an object.
fn desired_replicas(value: &Value, resource: &Resource) -> i64 {
    let path = resource.scale.as_ref().map_or("", |s| s.spec.as_str());
    at(value, path).as_i64().unwrap_or(0)
}

/// Returns the Scale of an object.
pub(super) fn of(value: &Value, resource: &Resource) -> Value {
    let meta = &value["metadata"];
    let mut shown = json!({});
    for key in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(inner) = meta.get(key) {
            shown[key] = inner.clone();
        }
    }
    let status = resource.scale.as_ref().map_or("", |s| s.status.as_str());
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown,
        "spec": {},
        "status": {"replicas": at(value, status).as_i64().unwrap_or(0)},
    });
    let replicas = desired_replicas(value, resource);
    if replicas != 0 {
        scale["spec"]["replicas"] = json!(replicas);
    }
    let selector = selector(value, resource);
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    scale
}

/// Refuses a request body whose kind is not `autoscaling/v1` Scale. The body may omit its version and kind.
pub(super) fn check_kind(value: &Value) -> Result<(), ApiError> {
    let (version, kind) = (&value["apiVersion"], &value["kind"]);
    let fits = |found: &Value, wanted: &str| found.is_null() || found == wanted;
    if fits(version, "autoscaling/v1") && fits(kind, "Scale") {
        return Ok(());
    }
    let (version, kind) = (
        version.as_str().unwrap_or_default(),
        kind.as_str().unwrap_or_default(),
    );
    Err(ApiError::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a Scale: the kind does not match"
    )))
}

/// Converts the Scale of a server-side apply request to a configuration of the scaled object.
pub(super) fn as_object(scale: &Value, resource: &Resource) -> Value {
    let mut object = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "metadata": scale["metadata"],
    });
    if let Some(replicas) = scale["spec"].get("replicas") {
        let path = resource.scale.as_ref().map_or("", |s| s.spec.as_str());
        let slot = path.split('.').fold(&mut object, |v, step| &mut v[step]);
        *slot = replicas.clone();
    }
    object
}

/// Decodes a Scale in place. Returns an error message if a value has a wrong type.
pub(super) fn decode(scale: &mut Value) -> Result<(), String> {
    match decode::decode("io.k8s.api.autoscaling.v1.Scale", scale) {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

/// Returns a copy of the object `value` with the replicas and the resourceVersion of `scale`.
pub(super) fn with_scale(
    value: &Value,
    scale: &Value,
    resource: &Resource,
) -> Result<Value, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if replicas < 0 {
        let cause = Cause::invalid(
            "spec.replicas",
            &json!(replicas),
            "must be greater than or equal to 0",
        );
        return Err(ApiError::invalid("autoscaling", "Scale", name, vec![cause]));
    }
    let mut value = value.clone();
    let path = resource.scale.as_ref().map_or("", |s| s.spec.as_str());
    let slot = path.split('.').fold(&mut value, |v, step| &mut v[step]);
    *slot = json!(replicas);
    value["metadata"]["resourceVersion"] = scale["metadata"]["resourceVersion"].clone();
    Ok(value)
}
