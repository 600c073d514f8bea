//! Validation of a CustomResourceDefinition: names, versions and subresources. `schema::structural` validates the
//! schemas of the versions.

use serde_json::Value;

use super::field::Field;
use super::rules::Check::{By, IfSet, Immutable, Required, RequiredOneOf, RequiredText, Text};
use super::rules::{Rule, apply};
use crate::schema::structural;
use crate::text_rules;

pub(super) const DEFINITION: &[Rule] = &[
    ("", By(group)),
    ("spec.group", RequiredText(text_rules::subdomain)),
    ("spec.names", By(kind_names)),
    (
        "spec.names.plural spec.names.singular",
        RequiredText(text_rules::dns_1035),
    ),
    (
        "spec.names.kind spec.names.listKind",
        RequiredText(mixed_case),
    ),
    (
        "spec.names.shortNames[] spec.names.categories[]",
        Text(text_rules::dns_1035),
    ),
    ("spec.scope", RequiredOneOf(&["Cluster", "Namespaced"])),
    ("spec.preserveUnknownFields", By(preserve_unknown_fields)),
    ("spec.versions", By(versions)),
    // A conversion webhook is accepted, because installers ship such definitions. The server never calls the webhook.
    (
        "spec.conversion",
        IfSet(&[("strategy", RequiredOneOf(&["None", "Webhook"]))]),
    ),
    (
        "spec.group spec.scope spec.names.plural spec.names.kind",
        Immutable,
    ),
    ("", By(stored_versions)),
];

/// The rules of a version, grouped by the field that they check.
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
    text_rules::dns_1035(&name.to_lowercase())
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
        Text(text_rules::dns_1035).apply(&name);
        if i == 0 {
            Text(text_rules::dns_1035).apply(&name.reported_at("spec.version"));
        }
        // If all versions have the same value of a field, problems of the field are reported once, at `spec`.
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

/// Returns a problem unless a path is empty or starts with one of `parents`.
fn below(path: &str, parents: &[&str]) -> Option<String> {
    let good = path.is_empty() || parents.iter().any(|parent| path.starts_with(parent));
    (!good).then(|| format!("should be a json path under {}", parents.join(" or ")))
}

fn column_path(column: &Field<'_>) {
    // As in Kubernetes, causes spell this field `JSONPath`.
    let path = column
        .get("jsonPath")
        .reported_at(format!("{}.JSONPath", column.path));
    Required.apply(&path);
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
