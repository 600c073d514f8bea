//! Validation of a CustomResourceDefinition: names, versions and subresources. `schema::structural` validates its
//! schemas.

use serde_json::Value;

use super::field::Field;
use super::rules::Check::{By, IfSet, Immutable, Required, RequiredOneOf, RequiredText, Text};
use super::rules::{Rule, apply};
use super::webhook;
use crate::names;
use crate::schema::structural;

pub(super) const DEFINITION: &[Rule] = &[
    ("", By(group)),
    ("spec.group", RequiredText(names::subdomain)),
    ("spec.names", By(kind_names)),
    (
        "spec.names.plural spec.names.singular",
        RequiredText(names::dns_1035),
    ),
    (
        "spec.names.kind spec.names.listKind",
        RequiredText(mixed_case),
    ),
    (
        "spec.names.shortNames[] spec.names.categories[]",
        Text(names::dns_1035),
    ),
    ("spec.scope", RequiredOneOf(&["Cluster", "Namespaced"])),
    ("spec.preserveUnknownFields", By(preserve_unknown_fields)),
    ("spec.versions", By(versions)),
    (
        "spec.conversion",
        IfSet(&[
            ("strategy", RequiredOneOf(&["None", "Webhook"])),
            ("", By(conversion)),
        ]),
    ),
    (
        "spec.group spec.scope spec.names.plural spec.names.kind",
        Immutable,
    ),
    ("", By(stored_versions)),
];

/// The rules of a version, by the field that they check.
const VERSION: [(&str, &[Rule]); 3] = [
    ("subresources", SUBRESOURCES),
    ("additionalPrinterColumns", COLUMNS),
    ("selectableFields", &[("", By(selectable))]),
];

const COLUMNS: &[Rule] = &[
    (
        "additionalPrinterColumns[].name additionalPrinterColumns[].type",
        Required,
    ),
    ("additionalPrinterColumns[].type", By(column_type)),
    ("additionalPrinterColumns[]", By(column_path)),
];

const SUBRESOURCES: &[Rule] = &[(
    "subresources.scale",
    IfSet(&[
        ("specReplicasPath statusReplicasPath", Required),
        ("specReplicasPath", Text(|path| below(path, &[".spec."]))),
        (
            "statusReplicasPath",
            Text(|path| below(path, &[".status."])),
        ),
        (
            "labelSelectorPath",
            Text(|path| below(path, &[".status.", ".spec."])),
        ),
    ]),
)];

fn group(definition: &Field<'_>) {
    let name = definition.get("metadata.name");
    let group = definition.get("spec.group");
    let plural = definition.text_of("spec.names.plural");
    if name.text() != format!("{plural}.{}", group.text()) {
        name.invalid("must be spec.names.plural+\".\"+spec.group");
    }
    if !group.is_empty() && !group.text().contains('.') {
        group.invalid("should be a domain with at least one dot");
    }
    let protected = [".k8s.io", ".kubernetes.io"]
        .iter()
        .any(|end| group.text().ends_with(end));
    let annotations = definition.get("metadata.annotations");
    let approval = "api-approved.kubernetes.io";
    if protected && annotations.value[approval].is_null() {
        let approval = annotations.entry(approval, &Value::Null);
        approval.required("protected groups must have this annotation");
    }
}

fn mixed_case(name: &str) -> Option<String> {
    names::dns_1035(&name.to_lowercase())
}

fn kind_names(names: &Field<'_>) {
    let (kind, list) = (names.get("kind"), names.get("listKind"));
    if !kind.is_empty() && kind.value == list.value {
        list.invalid("kind and listKind may not be the same");
    }
}

fn preserve_unknown_fields(preserve: &Field<'_>) {
    if *preserve.value == true {
        preserve.invalid("set x-kubernetes-preserve-unknown-fields in the schemas instead");
    }
}

fn stored_versions(definition: &Field<'_>) {
    let Some(old) = definition.old else { return };
    let versions = definition.items("spec.versions");
    let names: Vec<&str> = versions.map(|version| version.text_of("name")).collect();
    for stored in definition.with(old).items("status.storedVersions") {
        if !names.contains(&stored.text()) {
            stored.invalid("is missing from spec.versions, but may be stored");
        }
    }
}

fn versions(versions: &Field<'_>) {
    let stored = versions.each().filter(|v| v.value["storage"] == true);
    if stored.count() != 1 {
        versions.invalid("must have exactly one version marked as storage version");
    }
    let names: Vec<&str> = versions.each().map(|v| v.text_of("name")).collect();
    if (1..names.len()).any(|i| names[..i].contains(&names[i])) {
        versions.invalid("must contain unique version names");
    }
    for (i, version) in versions.each().enumerate() {
        let name = version.get("name");
        Text(names::dns_1035).apply(&name);
        if i == 0 {
            Text(names::dns_1035).apply(&name.reported_at("spec.version"));
        }
        deprecation(&version);
        // A problem that all versions share is reported once, for `spec`.
        let reported = |field: &str| {
            let same = |other: Field<'_>| other.value[field] == version.value[field];
            match versions.each().all(same) {
                true if i > 0 => None,
                true => Some(version.clone().reported_at("spec")),
                false => Some(version.clone()),
            }
        };
        schema(&version, reported("schema"));
        for (field, rules) in VERSION {
            if let Some(version) = reported(field) {
                apply(rules, &version);
            }
        }
    }
}

fn deprecation(version: &Field<'_>) {
    let warning = version.get("deprecationWarning");
    if warning.value.is_string() && version.value["deprecated"] != true {
        warning.invalid("can only be set for deprecated versions");
    }
}

fn schema(version: &Field<'_>, reported: Option<Field<'_>>) {
    let schema = version.get("schema.openAPIV3Schema");
    if !schema.is_set() {
        return schema.required("");
    }
    let path = match reported.map(|version| version.path) {
        None => return,
        Some(path) if path == "spec" => "spec.validation.openAPIV3Schema".to_owned(),
        Some(_) => schema.path,
    };
    let problems = structural::problems(schema.value, &path);
    version.causes.borrow_mut().extend(problems);
}

/// Checks that a path, if any, leads below one of some fields.
fn below(path: &str, parents: &[&str]) -> Option<String> {
    let good = path.is_empty() || parents.iter().any(|parent| path.starts_with(parent));
    (!good).then(|| format!("should be a json path under {}", parents.join(" or ")))
}

fn column_type(kind: &Field<'_>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    if !kind.is_empty() && !TYPES.contains(&kind.text()) {
        kind.invalid(&format!("must be one of {}", TYPES.join(",")));
    }
}

fn column_path(column: &Field<'_>) {
    // Kubernetes spells this field with capitals.
    let path = column
        .get("jsonPath")
        .reported_at(format!("{}.JSONPath", column.path));
    Required.apply(&path);
    if !path.is_empty() && (path.text() == "." || !path.text().starts_with('.')) {
        path.invalid("must be a simple json path starting with .");
    }
}

fn selectable(version: &Field<'_>) {
    let schema = &version.value["schema"]["openAPIV3Schema"];
    for path in version.items("selectableFields").map(|f| f.get("jsonPath")) {
        let steps = path.text().strip_prefix('.').unwrap_or_default().split('.');
        let leaf = steps.fold(schema, |schema, step| &schema["properties"][step]);
        let kind = leaf["type"].as_str().unwrap_or_default();
        if !["string", "boolean", "integer"].contains(&kind) {
            path.invalid("must refer to a field of type string, boolean or integer");
        }
    }
}

/// Checks the conversion. Webhooks are accepted, as installers ship them, but never called: objects keep the version
/// they were written in.
fn conversion(conversion: &Field<'_>) {
    // Kubernetes reports these fields at the paths of an older version.
    let at = |field: &str, path: &str| {
        let path = format!("{}.{path}", conversion.path);
        conversion.get("webhook").get(field).reported_at(path)
    };
    let config = at("clientConfig", "webhookClientConfig");
    let reviews = at("conversionReviewVersions", "conversionReviewVersions");
    if conversion.text_of("strategy") != "Webhook" {
        for field in [config, reviews].iter().filter(|field| !field.is_empty()) {
            field.forbidden("requires the strategy Webhook");
        }
        return;
    }
    if config.is_set() {
        webhook::client(&config);
    } else {
        config.required("");
    }
    webhook::review_versions(&reviews);
}
