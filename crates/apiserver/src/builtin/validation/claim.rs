//! The checks of claims of volumes.

use serde_json::{Value, json};

use super::place::Place;
use super::{differences, selector};
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
    let (now, then) = (in_go(&new), in_go(&before));
    if now != then {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                   claims";
        let why = format!("{why}\n{}", differences::unified(&then, &now));
        causes.push(Cause::forbidden("spec", &why));
    }
    let size = |of: &Value| of.as_str().and_then(Quantity::parse);
    let asked = |spec: &Value| size(&spec["resources"]["requests"]["storage"]);
    if let (true, Some(now), Some(then)) = (bound, asked(spec), asked(&old["spec"]))
        && now < then
        && size(&old["status"]["capacity"]["storage"]).is_some_and(|has| now <= has)
    {
        let why = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", why));
    }
    if spec["volumeMode"] != old["spec"]["volumeMode"] {
        let why = "field is immutable";
        causes.push(Cause::invalid("volumeMode", &spec["volumeMode"], why));
    }
}

/// A spec as a server prints it: all of its fields, by their names in Go.
fn in_go(spec: &Value) -> String {
    let lines = [
        ("AccessModes", shown(&spec["accessModes"], 1)),
        ("Selector", shown(&spec["selector"], 1)),
        (
            "Resources",
            fields(
                &[
                    ("Limits", shown(&spec["resources"]["limits"], 2)),
                    ("Requests", shown(&spec["resources"]["requests"], 2)),
                ],
                1,
            ),
        ),
        (
            "VolumeName",
            json!(spec["volumeName"].as_str().unwrap_or_default()).to_string(),
        ),
        ("StorageClassName", spec["storageClassName"].to_string()),
        ("VolumeMode", spec["volumeMode"].to_string()),
        ("DataSource", source(&spec["dataSource"], &[])),
        (
            "DataSourceRef",
            source(&spec["dataSourceRef"], &["namespace"]),
        ),
        (
            "VolumeAttributesClassName",
            spec["volumeAttributesClassName"].to_string(),
        ),
    ];
    fields(&lines, 0)
}

fn source(value: &Value, more: &[&str]) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut lines = vec![
        ("APIGroup", value["apiGroup"].to_string()),
        ("Kind", value["kind"].to_string()),
        ("Name", value["name"].to_string()),
    ];
    if more.contains(&"namespace") {
        lines.push(("Namespace", value["namespace"].to_string()));
    }
    fields(&lines, 1)
}

/// A struct with these fields.
fn fields(fields: &[(&str, String)], depth: usize) -> String {
    let indent = " ".repeat(depth + 1);
    let lines: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{indent}\"{name}\": {value}"))
        .collect();
    format!("{{\n{}\n{}}}", lines.join(",\n"), " ".repeat(depth))
}

/// A value that has the same form in Go.
fn shown(value: &Value, depth: usize) -> String {
    let (indent, end) = (" ".repeat(depth + 1), " ".repeat(depth));
    let lines: Vec<String> = match value {
        Value::Array(items) => items
            .iter()
            .map(|item| format!("{indent}{}", shown(item, depth + 1)))
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, inner)| format!("{indent}\"{name}\": {}", shown(inner, depth + 1)))
            .collect(),
        other => return other.to_string(),
    };
    match value {
        _ if lines.is_empty() && value.is_array() => "[]".to_owned(),
        _ if lines.is_empty() => "{}".to_owned(),
        Value::Array(_) => format!("[\n{}\n{end}]", lines.join(",\n")),
        _ => format!("{{\n{}\n{end}}}", lines.join(",\n")),
    }
}
