//! Validation of `metadata`, the same for all kinds.

use serde_json::{Value, json};

use super::names::{self, qualified_name};
use crate::error::Cause;
use crate::resource::Resource;

/// Maximum bytes of all annotations of an object.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Checks `metadata`.
pub(crate) fn validate(resource: &Resource, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let meta = &value["metadata"];
    if old.is_none() {
        let prefix = meta["generateName"].as_str().unwrap_or_default();
        // A name continues after the prefix, so a trailing dash is valid.
        let prefix = prefix
            .strip_suffix('-')
            .map_or_else(|| prefix.to_owned(), |p| format!("{p}a"));
        if !prefix.is_empty()
            && let Some(problem) = names::name(&prefix, resource.name_rule)
        {
            let field = "metadata.generateName";
            causes.push(Cause::invalid(field, &meta["generateName"], &problem));
        }
        match meta["name"].as_str() {
            None | Some("") => causes.push(Cause::required(
                "metadata.name",
                "name or generateName is required",
            )),
            Some(text) => {
                if let Some(problem) = names::name(text, resource.name_rule) {
                    causes.push(Cause::invalid("metadata.name", &json!(text), &problem));
                }
            }
        }
    }
    if let Some(number) = meta["generation"].as_i64().filter(|number| *number < 0) {
        let detail = "must be greater than or equal to 0";
        causes.push(Cause::invalid(
            "metadata.generation",
            &json!(number),
            detail,
        ));
    }
    if old.is_some_and(|o| o["metadata"]["labels"] == meta["labels"]) {
        // Unchanged labels were checked when they were written.
    } else {
        names::labels(&meta["labels"], "metadata.labels", &mut causes);
    }
    let mut size = 0;
    for (key, value) in meta["annotations"].as_object().into_iter().flatten() {
        if let Some(problem) = qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &json!(key),
                &problem,
            ));
        }
        match value.as_str() {
            Some(text) => size += key.len() + text.len(),
            None => causes.push(Cause::invalid(
                "metadata.annotations",
                value,
                "must be a string",
            )),
        }
    }
    if size > MAX_ANNOTATIONS {
        causes.push(Cause::too_long(
            "metadata.annotations",
            MAX_ANNOTATIONS as u64,
        ));
    }
    owners(meta, &mut causes);
    finalizers(resource, meta, &mut causes);
    let terminating = |v: &Value| !v["metadata"]["deletionTimestamp"].is_null();
    if let Some(old) = old.filter(|o| terminating(o)) {
        let before = old["metadata"]["finalizers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let after = meta["finalizers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let added: Vec<&Value> = after.iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(std::string::ToString::to_string).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &detail));
        }
    }
    causes
}

fn owners(meta: &Value, causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controllers: Vec<String> = Vec::new();
    for owner in meta["ownerReferences"].as_array().into_iter().flatten() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let version: Vec<&str> = text("apiVersion").split('/').collect();
        if version.len() > 2 || version.last().is_none_or(|v| v.is_empty()) {
            let (path, detail) = (format!("{FIELD}.apiVersion"), "version must not be empty");
            causes.push(Cause::invalid(path, &json!(text("apiVersion")), detail));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                let path = format!("{FIELD}.{field}");
                causes.push(Cause::invalid(path, &json!(""), "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid(FIELD, owner, detail));
        }
        if owner["controller"] == true {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid(FIELD, &meta["ownerReferences"], &detail));
    }
}

/// Finalizers that need no domain.
pub(super) const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

fn finalizers(resource: &Resource, meta: &Value, causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.finalizers";
    let all = meta["finalizers"].as_array();
    let all: Vec<&str> = all
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for finalizer in &all {
        if let Some(problem) = qualified_name(finalizer) {
            causes.push(Cause::invalid(FIELD, &json!(finalizer), &problem));
        }
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid(FIELD, &meta["finalizers"], detail));
    }
    // Kubernetes does not require a domain for custom kinds and these groups.
    let lenient = ["apiextensions.k8s.io", "policy", "coordination.k8s.io"];
    if resource.is_custom() || lenient.contains(&resource.group.as_str()) {
        return;
    }
    for (i, finalizer) in all.iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD.contains(finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(
                format!("{FIELD}[{i}]"),
                &json!(finalizer),
                detail,
            ));
        }
    }
}
