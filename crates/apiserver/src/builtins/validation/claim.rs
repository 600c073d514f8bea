//! Validation of persistent volume claims.

use berth_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::field::Field;
use super::selector;
use crate::error::Cause;
use crate::names;

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) fn claim(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    spec(&Field::new(&value["spec"], "spec"), causes);
    if let Some(old) = old {
        update(&value["spec"], old, causes);
    }
}

/// Checks the spec of a claim, alone or in a template.
pub(super) fn spec(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let modes = spec.field("accessModes");
    if modes.count() == 0 {
        modes.required("at least 1 access mode is required", causes);
    }
    let only = spec
        .items("accessModes")
        .any(|mode| mode.text() == "ReadWriteOncePod");
    for mode in spec.items("accessModes") {
        Field::new(mode.value, modes.path.as_str()).one_of(&MODES, causes);
    }
    if only && modes.count() > 1 {
        let detail = "may not use ReadWriteOncePod with other access modes";
        modes.forbidden(detail, causes);
    }
    selector::labels(&spec.field("selector"), causes);
    let resources = spec.field("resources");
    let storage = resources.field("requests").field("storage");
    let size = Field::new(storage.value, format!("{}[storage]", resources.path));
    if !size.is_set() {
        size.required("", causes);
    } else if size.quantity().is_some_and(|size| size <= Quantity::ZERO) {
        size.invalid("must be greater than zero", causes);
    }
    let class = spec.field("storageClassName");
    class.optional(names::subdomain, causes);
    let attributes = spec.field("volumeAttributesClassName");
    attributes.optional(names::subdomain, causes);
    spec.field("volumeMode")
        .one_of(&["Block", "Filesystem"], causes);
    for source in ["dataSource", "dataSourceRef"] {
        let source = spec.field(source);
        let named = |field: &str| !source.field(field).text().is_empty();
        if named("name") || named("kind") {
            source.field("name").not_empty(causes);
            source.field("kind").not_empty(causes);
        }
    }
}

/// Checks an update: a bound claim may grow, and `volumeName` and an absent class may be set later.
fn update(spec: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let bound = old["status"]["phase"] == "Bound";
    let (mut new, mut before) = (spec.clone(), old["spec"].clone());
    for (field, free) in [
        ("volumeAttributesClassName", bound),
        ("volumeName", before["volumeName"].is_null()),
    ] {
        if free {
            before[field] = new[field].clone();
        }
    }
    if before["storageClassName"].is_null() {
        new["storageClassName"] = Value::Null;
    }
    if bound {
        new["resources"]["requests"]["storage"] =
            before["resources"]["requests"]["storage"].clone();
    }
    if without_nulls(before) != without_nulls(new) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName of bound \
                   claims";
        causes.push(Cause::forbidden("spec", detail));
    }
    let size = |of: &Value| of.as_str().and_then(|text| Quantity::parse(text).ok());
    let requested = |spec: &Value| size(&spec["resources"]["requests"]["storage"]);
    if let (true, Some(now), Some(then)) = (bound, requested(spec), requested(&old["spec"]))
        && now < then
        && size(&old["status"]["capacity"]["storage"]).is_some_and(|has| now <= has)
    {
        let detail = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", detail));
    }
    if spec["volumeMode"] != old["spec"]["volumeMode"] {
        let detail = "field is immutable";
        causes.push(Cause::invalid("volumeMode", &spec["volumeMode"], detail));
    }
}

/// Returns a value without the nulls of its objects.
fn without_nulls(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, inner| !inner.is_null());
        for inner in object.values_mut() {
            *inner = without_nulls(inner.take());
        }
    }
    value
}
