//! Validation of a CustomResourceDefinition: names, versions and subresources. `schema::structural` validates its
//! schemas.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::conversion;
use crate::error::Cause;
use crate::names;
use crate::schema::structural;

pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the problems of a definition that replaces `old`.
pub(crate) fn validate(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &crd["spec"];
    let mut causes = Vec::new();
    group(crd, &mut causes);
    names(&spec["names"], &mut causes);
    match text(spec, "scope") {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(Cause::required("spec.scope", "")),
        other => {
            let allowed = ["Cluster", "Namespaced"].map(str::to_owned);
            causes.push(Cause::not_supported("spec.scope", &json!(other), &allowed));
        }
    }
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            detail,
        ));
    }
    versions(spec, &mut causes);
    conversion::validate(&spec["conversion"], &mut causes);
    if let Some(old) = old {
        for (field, before, after) in [
            ("spec.group", &old["spec"]["group"], &spec["group"]),
            ("spec.scope", &old["spec"]["scope"], &spec["scope"]),
            (
                "spec.names.plural",
                &old["spec"]["names"]["plural"],
                &spec["names"]["plural"],
            ),
            (
                "spec.names.kind",
                &old["spec"]["names"]["kind"],
                &spec["names"]["kind"],
            ),
        ] {
            if before != after {
                causes.push(Cause::invalid(field, after, "field is immutable"));
            }
        }
        for (i, stored) in list(&old["status"]["storedVersions"]).iter().enumerate() {
            if !list(&spec["versions"]).iter().any(|v| v["name"] == *stored) {
                let detail = "missing from spec.versions; must be removed from status.storedVersions after stored objects were migrated";
                causes.push(Cause::invalid(
                    format!("status.storedVersions[{i}]"),
                    stored,
                    detail,
                ));
            }
        }
    }
    causes
}

fn group(crd: &Value, causes: &mut Vec<Cause>) {
    let spec = &crd["spec"];
    let (name, group, plural) = (
        text(&crd["metadata"], "name"),
        text(spec, "group"),
        text(&spec["names"], "plural"),
    );
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(name), detail));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(problem) = names::subdomain(group) {
        causes.push(Cause::invalid("spec.group", &json!(group), &problem));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        causes.push(Cause::invalid("spec.group", &json!(group), detail));
    }
    let protected = group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io");
    if protected && crd["metadata"]["annotations"]["api-approved.kubernetes.io"].is_null() {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
        causes.push(Cause::required(
            "metadata.annotations[api-approved.kubernetes.io]",
            detail,
        ));
    }
}

fn names(names: &Value, causes: &mut Vec<Cause>) {
    for (field, mixed) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        let value = text(names, field);
        let at = format!("spec.names.{field}");
        if value.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if mixed {
            if let Some(problem) = names::dns_1035(&value.to_lowercase()) {
                let detail = format!("may have mixed case, but should otherwise match: {problem}");
                causes.push(Cause::invalid(at, &json!(value), &detail));
            }
        } else if let Some(problem) = names::dns_1035(value) {
            causes.push(Cause::invalid(at, &json!(value), &problem));
        }
    }
    for field in ["shortNames", "categories"] {
        for (i, name) in list(&names[field]).iter().enumerate() {
            if let Some(problem) = names::dns_1035(name.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(
                    format!("spec.names.{field}[{i}]"),
                    name,
                    &problem,
                ));
            }
        }
    }
    if !text(names, "kind").is_empty() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid(
            "spec.names.listKind",
            &names["listKind"],
            detail,
        ));
    }
}

/// Maximum length of a deprecation warning.
const MAX_WARNING: usize = 256;

/// Adds the problems of the deprecation warning of a version.
fn deprecation(version: &Value, at: usize, causes: &mut Vec<Cause>) {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return;
    };
    let mut refuse = |detail: &str| {
        let field = format!("spec.versions[{at}].deprecationWarning");
        causes.push(Cause::invalid(field, &json!(warning), detail));
    };
    if version["deprecated"] != true {
        return refuse("can only be set for deprecated versions");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if warning.len() > MAX_WARNING {
        refuse("must be <= 256 characters long");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

fn versions(spec: &Value, causes: &mut Vec<Cause>) {
    let versions = list(&spec["versions"]);
    let stored = versions.iter().filter(|v| v["storage"] == true).count();
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid_unshown("spec.versions", detail));
    }
    let unique: BTreeSet<&str> = versions.iter().map(|v| text(v, "name")).collect();
    if unique.len() != versions.len() {
        let detail = "must contain unique version names";
        causes.push(Cause::invalid_unshown("spec.versions", detail));
    }
    for (i, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        if let Some(problem) = names::dns_1035(name) {
            causes.push(Cause::invalid(
                format!("spec.versions[{i}].name"),
                &json!(name),
                &problem,
            ));
            if i == 0 {
                causes.push(Cause::invalid("spec.version", &json!(name), &problem));
            }
        }
        deprecation(version, i, causes);
        // A problem that all versions share is reported once, for `spec`.
        let common = |field: &str| versions.iter().all(|v| v[field] == version[field]);
        let path = |field: &str| match common(field) {
            true if i > 0 => None,
            true => Some("spec".to_owned()),
            false => Some(format!("spec.versions[{i}]")),
        };
        schema(version, i, path("schema"), causes);
        if let Some(at) = path("subresources") {
            scale(
                &version["subresources"]["scale"],
                &format!("{at}.subresources.scale"),
                causes,
            );
        }
        if let Some(at) = path("additionalPrinterColumns") {
            columns(&version["additionalPrinterColumns"], &at, causes);
        }
        if let Some(at) = path("selectableFields") {
            selectable(version, &at, causes);
        }
    }
}

fn schema(version: &Value, i: usize, path: Option<String>, causes: &mut Vec<Cause>) {
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema.is_null() {
        causes.push(Cause::required(
            format!("spec.versions[{i}].schema.openAPIV3Schema"),
            "",
        ));
        return;
    }
    let Some(at) = path else {
        return;
    };
    let at = if at == "spec" {
        "spec.validation.openAPIV3Schema".to_owned()
    } else {
        format!("{at}.schema.openAPIV3Schema")
    };
    causes.extend(structural::problems(schema, &at));
}

fn is_simple_path(path: &str) -> bool {
    path.starts_with('.') && path.len() > 1
}

fn scale(scale: &Value, path: &str, causes: &mut Vec<Cause>) {
    if scale.is_null() {
        return;
    }
    for (field, below, required) in [
        ("specReplicasPath", vec![".spec."], true),
        ("statusReplicasPath", vec![".status."], true),
        ("labelSelectorPath", vec![".status.", ".spec."], false),
    ] {
        let value = text(scale, field);
        let at = format!("{path}.{field}");
        if value.is_empty() {
            if required {
                causes.push(Cause::required(at, ""));
            }
        } else if !is_simple_path(value) {
            let detail = "must be a simple json path starting with .";
            causes.push(Cause::invalid(at, &json!(value), detail));
        } else if !below.iter().any(|b| value.starts_with(b)) {
            let names: Vec<&str> = below.iter().map(|b| b.trim_end_matches('.')).collect();
            let detail = format!("should be a json path under {}", names.join(" or "));
            causes.push(Cause::invalid(at, &json!(value), &detail));
        }
    }
}

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

fn columns(columns: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (i, column) in list(columns).iter().enumerate() {
        let at = |field: &str| format!("{path}.additionalPrinterColumns[{i}].{field}");
        if text(column, "name").is_empty() {
            causes.push(Cause::required(at("name"), ""));
        }
        match text(column, "type") {
            "" => {
                let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
                causes.push(Cause::required(at("type"), &detail));
            }
            known if COLUMN_TYPES.contains(&known) => {}
            other => {
                let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
                causes.push(Cause::invalid(at("type"), &json!(other), &detail));
            }
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            causes.push(Cause::invalid(at("format"), &json!(format), &detail));
        }
        match text(column, "jsonPath") {
            "" => causes.push(Cause::required(at("JSONPath"), "")),
            json_path if !is_simple_path(json_path) => {
                let detail = "must be a simple json path starting with .";
                causes.push(Cause::invalid(at("JSONPath"), &json!(json_path), detail));
            }
            _ => {}
        }
    }
}

fn selectable(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (i, field) in list(&version["selectableFields"]).iter().enumerate() {
        let json_path = text(field, "jsonPath");
        let at = format!("{path}.selectableFields[{i}].jsonPath");
        let Some(steps) = json_path.strip_prefix('.') else {
            let detail = format!("is an invalid path: expected [ or . but got: {json_path}");
            causes.push(Cause::invalid(at, &json!(json_path), &detail));
            continue;
        };
        let schema = &version["schema"]["openAPIV3Schema"];
        let leaf = steps
            .split('.')
            .fold(schema, |s, step| &s["properties"][step]);
        if leaf.is_null() {
            let detail = "is an invalid path: does not refer to a valid field";
            causes.push(Cause::invalid(at, &json!(json_path), detail));
        } else if !matches!(text(leaf, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            causes.push(Cause::invalid(at, &json!(json_path), detail));
        }
    }
}
