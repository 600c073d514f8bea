//! The checks of claims of volumes.

use serde_json::Value;

use super::place::Place;
use super::selector;
use crate::builtin::names;
use crate::error::Cause;
use crate::schema::quantity::Quantity;

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) fn claim(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    spec(&Place::new(&value["spec"], "spec"), causes);
    if let Some(old) = old {
        frozen(&value["spec"], old, causes);
    }
}

/// The spec of a claim, alone or in a template.
pub(super) fn spec(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let modes = spec.field("accessModes");
    if modes.count() == 0 {
        modes.required("at least 1 access mode is required", causes);
    }
    let only = spec
        .items("accessModes")
        .any(|mode| mode.text() == "ReadWriteOncePod");
    for mode in spec.items("accessModes") {
        Place::new(mode.value, modes.path.as_str()).one_of(&MODES, causes);
    }
    if only && modes.count() > 1 {
        let why = "may not use ReadWriteOncePod with other access modes";
        modes.forbidden(why, causes);
    }
    selector::labels(&spec.field("selector"), causes);
    let resources = spec.field("resources");
    let asked = resources.field("requests").field("storage");
    let size = Place::new(asked.value, format!("{}[storage]", resources.path));
    if !size.is_set() {
        size.required("", causes);
    } else if size.quantity().is_some_and(|size| size <= Quantity::ZERO) {
        size.invalid("must be greater than zero", causes);
    }
    let class = spec.field("storageClassName");
    class.optional(names::subdomain, causes);
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
