//! The checks of claims of volumes.

use serde_json::{Value, json};

use super::{metadata, one_of};
use crate::error::Cause;
use crate::schema::quantity::Quantity;

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) fn claim(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &value["spec"];
    let modes = spec["accessModes"].as_array();
    if modes.is_none_or(Vec::is_empty) {
        let detail = "at least 1 access mode is required";
        causes.push(Cause::required("spec.accessModes", detail));
    }
    for mode in modes.into_iter().flatten() {
        one_of(mode, "spec.accessModes", &MODES, causes);
    }
    match spec["resources"]["requests"]["storage"].as_str() {
        None => causes.push(Cause::required("spec.resources[storage]", "")),
        Some(text) if Quantity::parse(text).is_some_and(|size| size <= Quantity::ZERO) => {
            let detail = "must be greater than zero";
            causes.push(Cause::invalid(
                "spec.resources[storage]",
                &json!(text),
                detail,
            ));
        }
        Some(_) => {}
    }
    one_of(
        &spec["volumeMode"],
        "spec.volumeMode",
        &["Block", "Filesystem"],
        causes,
    );
    if let Some(class) = spec["storageClassName"]
        .as_str()
        .filter(|name| !name.is_empty())
        && let Some(problem) = metadata::subdomain(class)
    {
        causes.push(Cause::invalid(
            "spec.storageClassName",
            &json!(class),
            &problem,
        ));
    }
    if let Some(old) = old {
        frozen(spec, old, causes);
    }
}

/// After its creation a claim may only grow, and that once it is bound; where it is bound to and its class are filled
/// in later.
fn frozen(spec: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let bound = old["status"]["phase"] == "Bound";
    let fixed = |spec: &Value, from: &Value| {
        let mut spec = spec.clone();
        for (field, free) in [
            ("volumeAttributesClassName", bound),
            ("volumeName", from["volumeName"].is_null()),
            ("storageClassName", from["storageClassName"].is_null()),
        ] {
            if free && let Some(spec) = spec.as_object_mut() {
                spec.remove(field);
            }
        }
        if bound {
            spec["resources"]["requests"] = Value::Null;
        }
        spec
    };
    if fixed(spec, &old["spec"]) != fixed(&old["spec"], &old["spec"]) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                   claims";
        causes.push(Cause::forbidden("spec", why));
    }
}
