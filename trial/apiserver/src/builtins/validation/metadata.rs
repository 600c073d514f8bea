//! Validation of the field `metadata` of objects of all kinds.

use serde_json::Value;

use super::checks::{labels, qualified};
use super::field::{Causes, Field};
use super::rules::Check::{By, NotNegative};
use super::rules::{Rule, apply};
use crate::error::Cause;
use crate::resource::{NameRule, Resource};
use crate::text_rules;

/// Maximum size of all annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;
/// Finalizers that need no domain prefix.
const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

const METADATA: &[Rule] = &[
    ("generation", NotNegative),
    ("labels", By(changed_labels)),
    ("annotations", By(annotations)),
    ("ownerReferences", By(owners)),
    ("finalizers", By(finalizers)),
];

/// Checks the `metadata` of an object.
pub(crate) fn validate(resource: &Resource, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let causes = Causes::default();
    let meta = Field::root(value, old, &causes).get("metadata");
    if old.is_none() {
        name(&meta, resource.name_rule);
    }
    apply(METADATA, &meta);
    // As in Kubernetes, finalizers of custom resources and of these API groups need no domain prefix.
    let lenient = ["apiextensions.k8s.io", "policy", "coordination.k8s.io"];
    if !resource.is_custom() && !lenient.contains(&resource.group.as_str()) {
        for finalizer in meta.items("finalizers") {
            standard_or_qualified(&finalizer);
        }
    }
    let added = |finalizer: &Field<'_>| {
        let old = meta.get("finalizers").old.and_then(Value::as_array);
        !old.is_some_and(|old| old.contains(finalizer.value))
    };
    let terminating = meta
        .old
        .is_some_and(|old| !old["deletionTimestamp"].is_null());
    if terminating && meta.items("finalizers").any(|finalizer| added(&finalizer)) {
        let finalizers = meta.get("finalizers");
        finalizers.forbidden("no new finalizers can be added if the object is being deleted");
    }
    causes.take()
}

/// Checks that a finalizer is a standard finalizer or has a domain prefix.
pub(super) fn standard_or_qualified(finalizer: &Field<'_>) {
    if !finalizer.text().contains('/') && !STANDARD.contains(&finalizer.text()) {
        finalizer.invalid("must be a standard finalizer or have a domain");
    }
}

fn name(meta: &Field<'_>, rule: NameRule) {
    let (name, prefix) = (meta.get("name"), meta.get("generateName"));
    if !prefix.is_empty() {
        // The server appends characters to `generateName`, so its last character may be a dash.
        let text = prefix.text();
        let start = text.strip_suffix('-').map(|start| format!("{start}a"));
        prefix.problem(text_rules::name(start.as_deref().unwrap_or(text), rule));
    }
    if name.is_empty() {
        name.required("name or generateName is required");
    } else {
        name.problem(text_rules::name(name.text(), rule));
    }
}

fn changed_labels(map: &Field<'_>) {
    // Unchanged labels need no check, because they were checked when they were written.
    if map.old != Some(map.value) {
        labels(map);
    }
}

fn annotations(annotations: &Field<'_>) {
    let mut size = 0;
    for (key, value) in annotations.value.as_object().into_iter().flatten() {
        annotations.problem(text_rules::qualified_name(&key.to_lowercase()));
        match value.as_str() {
            Some(text) => size += key.len() + text.len(),
            None => annotations.with(value).invalid("must be a string"),
        }
    }
    if size > MAX_ANNOTATIONS {
        let cause = Cause::too_long(annotations.path.as_str(), MAX_ANNOTATIONS as u64);
        annotations.report(cause);
    }
}

fn owners(owners: &Field<'_>) {
    let mut controllers = 0;
    for owner in owners.each() {
        // As in Kubernetes, causes have the path of the list, without the index of the owner.
        let owner = owner.reported_at(owners.path.as_str());
        let (version, kind) = (owner.get("apiVersion"), owner.get("kind"));
        let parts: Vec<&str> = version.text().split('/').collect();
        if parts.len() > 2 || parts.last().is_none_or(|version| version.is_empty()) {
            version.invalid("version must not be empty");
        }
        for field in [&kind, &owner.get("name"), &owner.get("uid")] {
            if field.is_empty() {
                field.invalid("must not be empty");
            }
        }
        if version.text() == "v1" && kind.text() == "Event" {
            owner.invalid("events cannot be owners");
        }
        controllers += usize::from(owner.value["controller"] == true);
    }
    if controllers > 1 {
        owners.invalid("only one reference can have controller set to true");
    }
}

fn finalizers(finalizers: &Field<'_>) {
    for finalizer in finalizers.each() {
        qualified(&finalizer.reported_at(finalizers.path.as_str()));
    }
    let all = finalizers.texts();
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set");
    }
}
