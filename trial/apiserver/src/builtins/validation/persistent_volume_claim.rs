//! Validation of persistent volume claims.

use serde_json::Value;

use super::checks::selector;
use super::field::Field;
use super::rules::Check::{By, Immutable, OneOf, OptionalText, PositiveAmount, Required};
use super::rules::{Rule, apply};
use crate::text_rules;

const MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

const SPEC: &[Rule] = &[
    ("accessModes", Required),
    ("accessModes", By(access_modes)),
    ("selector", By(selector)),
    ("", By(size)),
    (
        "storageClassName volumeAttributesClassName",
        OptionalText(text_rules::subdomain),
    ),
    ("volumeMode", OneOf(&["Block", "Filesystem"])),
];

/// Checks a persistent volume claim.
pub(super) fn claim(claim: &Field<'_>) {
    spec(&claim.get("spec"));
    if let Some(old) = claim.old {
        update(&claim.get("spec"), old);
    }
}

/// Checks the spec of a claim or of a claim template.
pub(super) fn spec(spec: &Field<'_>) {
    apply(SPEC, spec);
}

fn access_modes(modes: &Field<'_>) {
    for mode in modes.each() {
        OneOf(MODES).apply(&mode.reported_at(modes.path.as_str()));
    }
}

fn size(spec: &Field<'_>) {
    let path = format!("{}.resources[storage]", spec.path);
    let size = spec.get("resources.requests.storage").reported_at(path);
    Required.apply(&size);
    PositiveAmount.apply(&size);
}

/// Checks an update. A bound claim may change its requests and `volumeAttributesClassName`, and an absent `volumeName`
/// or `storageClassName` may be set.
fn update(spec: &Field<'_>, old: &Value) {
    let bound = old["status"]["phase"] == "Bound";
    let (mut new, mut before) = (spec.value.clone(), old["spec"].clone());
    for (field, free) in [
        ("volumeAttributesClassName", bound),
        ("volumeName", before["volumeName"].is_null()),
        ("storageClassName", before["storageClassName"].is_null()),
        ("resources", bound),
    ] {
        if free {
            before[field] = new[field].take();
            new[field] = before[field].clone();
        }
    }
    if without_nulls(before) != without_nulls(new) {
        spec.forbidden(
            "only resources.requests and volumeAttributesClassName of bound claims may change",
        );
    }
    Immutable.apply(&spec.get("volumeMode").reported_at("volumeMode"));
    let requested = spec.get("resources.requests.storage");
    let before = requested.old.and_then(|old| requested.with(old).quantity());
    let has = requested
        .with(&old["status"]["capacity"]["storage"])
        .quantity();
    if let (true, Some(now), Some(before), Some(has)) = (bound, requested.quantity(), before, has)
        && now < before
        && now <= has
    {
        requested.forbidden("can not be less than status.capacity");
    }
}

/// Returns a value without the null fields of its objects.
fn without_nulls(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, inner| !inner.is_null());
        for inner in object.values_mut() {
            *inner = without_nulls(inner.take());
        }
    }
    value
}
