//! The checks of built-in kinds that users run into.

mod batch;
mod claim;
mod container;
mod secret;
mod service;

use serde_json::{Value, json};

use super::metadata;
use crate::error::Cause;
use crate::registry::{Resource, definition};
use crate::schema::quantity::Quantity;
use crate::verbs::Subresource;
use container::pod_spec;

/// Numbers of workloads that are at least zero.
const NUMBERS: &[&str] = &["replicas", "minReadySeconds", "revisionHistoryLimit"];

/// What is wrong with an object of a built-in kind.
pub(crate) fn validate(
    resource: &Resource,
    value: &Value,
    old: Option<&Value>,
    subresource: Option<Subresource>,
) -> Vec<Cause> {
    if matches!(
        subresource,
        Some(Subresource::Status | Subresource::Finalize | Subresource::Approval)
    ) {
        return Vec::new();
    }
    let mut causes = Vec::new();
    let spec = &value["spec"];
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets") => {
            selector(value, old, &mut causes);
            template(&spec["template"], "spec.template", &mut causes);
            let policy = &spec["template"]["spec"]["restartPolicy"];
            if policy != "Always" && policy.is_string() {
                causes.push(Cause::not_supported(
                    "spec.template.spec.restartPolicy",
                    policy,
                    &["Always".into()],
                ));
            }
            not_negative(spec, "spec", NUMBERS, &mut causes);
            if resource.plural == "deployments" {
                strategy(&spec["strategy"], &mut causes);
            }
        }
        ("", "replicationcontrollers") => {
            template(&spec["template"], "spec.template", &mut causes);
            not_negative(spec, "spec", NUMBERS, &mut causes);
        }
        ("batch", "jobs") => batch::job(value, old, &mut causes),
        ("batch", "cronjobs") => batch::cron_job(spec, &mut causes),
        ("", "pods") => pod_spec(spec, "spec", &mut causes),
        ("", "services") => service::service(spec, old, &mut causes),
        ("", "persistentvolumeclaims") => claim::claim(value, old, &mut causes),
        ("", "configmaps") => data(value, old, &["data", "binaryData"], &mut causes),
        ("", "secrets") => {
            secret::secret(value, old, &mut causes);
            data(value, old, &["data"], &mut causes);
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            causes.extend(definition::validate(value, old));
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            if value["roleRef"]["name"]
                .as_str()
                .unwrap_or_default()
                .is_empty()
            {
                causes.push(Cause::required("roleRef.name", ""));
            }
            if old.is_some_and(|o| o["roleRef"] != value["roleRef"]) {
                causes.push(Cause::invalid(
                    "roleRef",
                    &value["roleRef"],
                    "cannot change roleRef",
                ));
            }
        }
        ("scheduling.k8s.io", "priorityclasses")
            if old.is_some_and(|o| o["value"] != value["value"]) =>
        {
            causes.push(Cause::forbidden(
                "value",
                "may not be changed in an update.",
            ));
        }
        ("autoscaling", "horizontalpodautoscalers") => {
            let (min, max) = (
                spec["minReplicas"].as_i64().unwrap_or(1),
                spec["maxReplicas"].as_i64().unwrap_or(0),
            );
            if max < 1 {
                causes.push(Cause::invalid(
                    "spec.maxReplicas",
                    &json!(max),
                    "must be greater than 0",
                ));
            } else if max < min {
                let detail = "must be greater than or equal to `minReplicas`";
                causes.push(Cause::invalid("spec.maxReplicas", &json!(max), detail));
            }
        }
        _ => {}
    }
    causes
}

/// One of a few, if it is there at all.
fn one_of(value: &Value, path: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    let known = value.as_str().is_none_or(|text| allowed.contains(&text));
    if !known {
        let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
        causes.push(Cause::not_supported(path, value, &allowed));
    }
}

/// Numbers that are at least zero where they are there at all.
fn not_negative(spec: &Value, path: &str, fields: &[&str], causes: &mut Vec<Cause>) {
    for field in fields {
        if let Some(number) = spec[*field].as_i64().filter(|number| *number < 0) {
            let detail = "must be greater than or equal to 0";
            causes.push(Cause::invalid(
                format!("{path}.{field}"),
                &json!(number),
                detail,
            ));
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn strategy(strategy: &Value, causes: &mut Vec<Cause>) {
    let rolling = &strategy["rollingUpdate"];
    if strategy["type"] == "Recreate" && !rolling.is_null() {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
    }
    let zero = |value: &Value| *value == 0 || *value == "0%";
    if zero(&rolling["maxSurge"]) && zero(&rolling["maxUnavailable"]) {
        causes.push(Cause::invalid(
            "spec.strategy.rollingUpdate.maxUnavailable",
            &rolling["maxUnavailable"],
            "may not be 0 when `maxSurge` is 0",
        ));
    }
}

fn selector(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &value["spec"];
    if spec["selector"].is_object() && is_empty(&spec["selector"]) && value["kind"] == "Deployment"
    {
        let detail = "empty selector is invalid for deployment";
        causes.push(Cause::invalid("spec.selector", &json!({}), detail));
    } else if is_empty(&spec["selector"]) {
        causes.push(Cause::required("spec.selector", ""));
    } else if !selected(&spec["selector"], &spec["template"]["metadata"]["labels"]) {
        let labels = &spec["template"]["metadata"]["labels"];
        let labels = if labels.is_null() {
            json!({})
        } else {
            labels.clone()
        };
        let detail = "`selector` does not match template `labels`";
        causes.push(Cause::invalid(
            "spec.template.metadata.labels",
            &labels,
            detail,
        ));
    }
    if let Some(old) = old
        && old["spec"]["selector"] != spec["selector"]
    {
        causes.push(Cause::invalid(
            "spec.selector",
            &spec["selector"],
            "field is immutable",
        ));
    }
}

/// True if a label selector selects these labels.
fn selected(selector: &Value, labels: &Value) -> bool {
    let simple = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(k, v)| labels[k.as_str()] == *v);
    let complex = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
        .all(|e| {
            let found = &labels[e["key"].as_str().unwrap_or_default()];
            let listed = e["values"].as_array().is_some_and(|l| l.contains(found));
            match e["operator"].as_str() {
                Some("In") => listed,
                Some("NotIn") => !listed,
                Some("Exists") => !found.is_null(),
                Some("DoesNotExist") => found.is_null(),
                _ => false,
            }
        });
    simple && complex
}

fn template(template: &Value, path: &str, causes: &mut Vec<Cause>) {
    metadata::labels(
        &template["metadata"]["labels"],
        &format!("{path}.labels"),
        causes,
    );
    pod_spec(&template["spec"], &format!("{path}.spec"), causes);
}

/// Nobody may ask for more than they may use.
fn resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    let requests = resources["requests"].as_object().into_iter().flatten();
    for (name, asked) in requests {
        let limit = &resources["limits"][name.as_str()];
        let quantity = |value: &Value| value.as_str().and_then(Quantity::parse);
        if let (Some(asked_for), Some(most)) = (quantity(asked), quantity(limit))
            && asked_for > most
        {
            let detail = format!("must be less than or equal to {name} limit of {most}");
            causes.push(Cause::invalid(format!("{path}.requests"), asked, &detail));
        }
    }
}

/// ConfigMaps and Secrets: keys are file names, the whole is bounded, and immutable means it.
fn data(value: &Value, old: Option<&Value>, maps: &[&str], causes: &mut Vec<Cause>) {
    let mut size = 0;
    for map in maps {
        for (key, text) in value[*map].as_object().into_iter().flatten() {
            let good = !key.is_empty()
                && key.len() <= 253
                && key != "."
                && !key.starts_with("..")
                && key
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            if !good {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(format!("{map}[{key}]"), &json!(key), detail));
            }
            size += key.len() + text.as_str().map_or(0, str::len);
        }
    }
    if size > 1 << 20 {
        causes.push(Cause::too_long("", 1 << 20));
    }
    if let Some(old) = old.filter(|o| o["immutable"] == true) {
        for field in ["immutable"].iter().chain(maps) {
            if old[*field] != value[*field] {
                let why = "field is immutable when `immutable` is set";
                causes.push(Cause::forbidden(*field, why));
            }
        }
    }
}
