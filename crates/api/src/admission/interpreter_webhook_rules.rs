//! Validation of ResourceInterpreterWebhookConfigurations.

use std::collections::BTreeSet;

use berth_apimachinery::dns::{is_dns_1035_label, is_dns_label, is_dns_subdomain};
use serde::Deserialize as _;
use serde_json::Value;

use super::field_error::{FieldError, Path, Reason};
use super::url_parts::UrlParts;
use crate::interpreter_context::VERSION;
use crate::interpreter_webhook::{
    InterpreterWebhook, RuleWithOperations, ServiceReference, WebhookClientConfig,
};

const OPERATIONS: [&str; 9] = [
    "*",
    "AggregateStatus",
    "InterpretComponent",
    "InterpretDependency",
    "InterpretHealth",
    "InterpretReplica",
    "InterpretStatus",
    "Retain",
    "ReviseReplica",
];

pub(super) fn check(configuration: &Value) -> Vec<FieldError> {
    let Ok(webhooks) = Vec::<InterpreterWebhook>::deserialize(&configuration["webhooks"]) else {
        return Vec::new();
    };
    let (mut errors, mut names) = (Vec::new(), BTreeSet::new());
    for (index, webhook) in webhooks.iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        check_webhook(webhook, &path, &mut errors);
        if !names.insert(&webhook.name) {
            errors.push(path.child("name").error(
                Reason::Duplicate,
                format!("Duplicate value: {:?}", webhook.name),
            ));
        }
    }
    errors
}

fn check_webhook(webhook: &InterpreterWebhook, path: &Path, errors: &mut Vec<FieldError>) {
    check_name(&webhook.name, &path.child("name"), errors);
    for (index, rule) in webhook.rules.iter().enumerate() {
        check_rule(rule, &path.child("rules").index(index), errors);
    }
    if webhook
        .timeout_seconds
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        let path = path.child("timeoutSeconds");
        errors.push(path.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    check_client(&webhook.client_config, &path.child("clientConfig"), errors);
    let versions = &webhook.interpreter_context_versions;
    check_versions(versions, &path.child("interpreterContextVersions"), errors);
}

fn check_name(name: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(path.error(Reason::Required, "must not be empty"));
    } else if !is_dns_subdomain(name) || !name.split('.').all(is_dns_label) {
        errors.push(path.invalid(
            "must consist of labels of lower-case letters, digits and '-', separated by dots",
        ));
    } else if !name.contains('.') {
        errors
            .push(path.invalid("should be a domain with at least two segments separated by dots"));
    }
}

fn check_rule(rule: &RuleWithOperations, path: &Path, errors: &mut Vec<FieldError>) {
    for (field, items, others) in [
        ("operations", &rule.operations, "operations"),
        ("apiGroups", &rule.api_groups, "API groups"),
        ("apiVersions", &rule.api_versions, "API versions"),
        ("kinds", &rule.kinds, "kinds"),
    ] {
        let path = path.child(field);
        if items.is_empty() {
            errors.push(path.error(Reason::Required, "must not be empty"));
        }
        if items.len() > 1 && items.iter().any(|item| item == "*") {
            errors.push(path.invalid(format!(
                "if '*' is present, must not specify other {others}"
            )));
        }
        for (index, item) in items.iter().enumerate() {
            let path = path.index(index);
            if field == "operations" && !OPERATIONS.contains(&item.as_str()) {
                errors.push(path.error(
                    Reason::NotSupported,
                    format!("{item:?} is not supported: use {}", OPERATIONS.join(", ")),
                ));
            } else if matches!(field, "apiVersions" | "kinds") && item.is_empty() {
                errors.push(path.error(Reason::Required, "must not be empty"));
            }
        }
    }
}

fn check_client(client: &WebhookClientConfig, path: &Path, errors: &mut Vec<FieldError>) {
    match (&client.url, &client.service) {
        (Some(url), None) => check_url(url, &path.child("url"), errors),
        (None, Some(service)) => check_service(service, &path.child("service"), errors),
        _ => errors.push(path.error(
            Reason::Required,
            "exactly one of url or service is required",
        )),
    }
}

fn check_url(url: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(url) = UrlParts::parse(url) else {
        errors.push(path.error(
            Reason::Required,
            "url must be a valid URL; desired format: https://host[/path]",
        ));
        return;
    };
    let problems = [
        (
            url.scheme != "https",
            "'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            url.host.is_empty(),
            "host must be specified; desired format: https://host[/path]",
        ),
        (
            url.user_info,
            "user information is not permitted in the URL",
        ),
        (url.fragment, "fragments are not permitted in the URL"),
        (url.query, "query parameters are not permitted in the URL"),
    ];
    let found = problems.into_iter().filter(|(is_found, _)| *is_found);
    errors.extend(found.map(|(_, problem)| path.invalid(problem)));
}

fn check_service(service: &ServiceReference, path: &Path, errors: &mut Vec<FieldError>) {
    for (field, value) in [("name", &service.name), ("namespace", &service.namespace)] {
        if value.is_empty() {
            errors.push(
                path.child(field)
                    .error(Reason::Required, "must not be empty"),
            );
        }
    }
    if service
        .port
        .is_some_and(|port| !(1..=65535).contains(&port))
    {
        let path = path.child("port");
        errors.push(path.invalid("port is not valid: must be between 1 and 65535, inclusive"));
    }
    let url_path = service.path.as_deref().unwrap_or_default();
    if matches!(url_path, "" | "/") {
        return;
    }
    let path = path.child("path");
    let Some(segments) = url_path.strip_prefix('/') else {
        errors.push(path.invalid("must start with a '/'"));
        return;
    };
    let segments = segments.strip_suffix('/').unwrap_or(segments);
    for (index, segment) in segments.split('/').enumerate() {
        if segment.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
        } else if !is_dns_subdomain(segment) {
            errors.push(path.invalid(format!(
                "segment[{index}]: must be lower-case letters, digits, '-' or '.', and start and end with a letter or digit"
            )));
        }
    }
}

fn check_versions(versions: &[String], path: &Path, errors: &mut Vec<FieldError>) {
    if versions.is_empty() {
        errors.push(path.error(Reason::Required, format!("must specify one of {VERSION}")));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if versions.iter().take(index).any(|other| other == version) {
            errors.push(path.invalid("duplicate version"));
        } else if !is_dns_1035_label(version) {
            errors.push(path.invalid(
                "must be lower-case letters, digits or '-', start with a letter, and end with a letter or digit",
            ));
        }
    }
    if !versions.iter().any(|version| version == VERSION) {
        errors.push(path.invalid(format!("must include at least one of {VERSION}")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn webhook() -> Value {
        json!({
            "name": "workloads.example.com",
            "clientConfig": { "url": "https://127.0.0.1:8443/interpreter" },
            "rules": [{ "operations": ["InterpretReplica", "Retain"], "apiGroups": [""],
                "apiVersions": ["v1"], "kinds": ["*"] }],
            "timeoutSeconds": 3,
            "interpreterContextVersions": ["v1alpha1"],
        })
    }

    fn fields(webhooks: &[Value]) -> Vec<String> {
        let object = json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": { "name": "c" }, "webhooks": webhooks,
        });
        let errors = check(&object).into_iter();
        errors.map(|error| error.field).collect()
    }

    #[test]
    fn valid_configurations_are_accepted() {
        assert_eq!(fields(&[webhook()]), [""; 0]);
        for service in [
            json!({ "namespace": "a", "name": "b" }),
            json!({ "namespace": "a", "name": "b", "port": 8443, "path": "/x/y.z/" }),
        ] {
            let mut webhook = webhook();
            webhook["clientConfig"] = json!({ "service": service });
            assert_eq!(fields(&[webhook]), [""; 0]);
        }
    }

    #[test]
    fn each_invalid_field_is_named() {
        let rule = |field: &str, value: Value| (format!("/rules/0/{field}"), value);
        let client = |value: Value| ("/clientConfig".to_owned(), value);
        let service = |value: Value| client(json!({ "service": value }));
        let url = |value: &str| client(json!({ "url": value }));
        for ((pointer, value), expected) in [
            (("/name".to_owned(), json!("")), "name"),
            (("/name".to_owned(), json!("workloads")), "name"),
            (("/name".to_owned(), json!("Workloads.example.com")), "name"),
            (("/timeoutSeconds".to_owned(), json!(0)), "timeoutSeconds"),
            (("/timeoutSeconds".to_owned(), json!(31)), "timeoutSeconds"),
            (rule("operations", json!([])), "rules[0].operations"),
            (
                rule("operations", json!(["*", "Retain"])),
                "rules[0].operations",
            ),
            (
                rule("operations", json!(["Prune"])),
                "rules[0].operations[0]",
            ),
            (rule("apiGroups", json!([])), "rules[0].apiGroups"),
            (rule("apiGroups", json!(["", "*"])), "rules[0].apiGroups"),
            (rule("apiVersions", json!([""])), "rules[0].apiVersions[0]"),
            (rule("kinds", json!(["A", ""])), "rules[0].kinds[1]"),
            (client(json!({})), "clientConfig"),
            (
                client(json!({ "url": "https://a", "service": { "namespace": "a", "name": "b" } })),
                "clientConfig",
            ),
            (url("a"), "clientConfig.url"),
            (url("http://a"), "clientConfig.url"),
            (url("https:///a"), "clientConfig.url"),
            (url("https://me@a"), "clientConfig.url"),
            (url("https://a#b"), "clientConfig.url"),
            (url("https://a?b=c"), "clientConfig.url"),
            (
                service(json!({ "namespace": "", "name": "b" })),
                "clientConfig.service.namespace",
            ),
            (
                service(json!({ "namespace": "a", "name": "" })),
                "clientConfig.service.name",
            ),
            (
                service(json!({ "namespace": "a", "name": "b", "port": 65536 })),
                "clientConfig.service.port",
            ),
            (
                service(json!({ "namespace": "a", "name": "b", "path": "a" })),
                "clientConfig.service.path",
            ),
            (
                service(json!({ "namespace": "a", "name": "b", "path": "//" })),
                "clientConfig.service.path",
            ),
            (
                ("/interpreterContextVersions".to_owned(), json!([])),
                "interpreterContextVersions",
            ),
            (
                ("/interpreterContextVersions".to_owned(), json!(["v1"])),
                "interpreterContextVersions",
            ),
            (
                (
                    "/interpreterContextVersions".to_owned(),
                    json!(["v1alpha1", "v1alpha1"]),
                ),
                "interpreterContextVersions[1]",
            ),
            (
                (
                    "/interpreterContextVersions".to_owned(),
                    json!(["v1alpha1", "1"]),
                ),
                "interpreterContextVersions[1]",
            ),
        ] {
            let mut changed = webhook();
            *changed.pointer_mut(&pointer).unwrap() = value.clone();
            assert_eq!(
                fields(&[changed]),
                [format!("webhooks[0].{expected}")],
                "{value}"
            );
        }
    }

    #[test]
    fn names_are_unique() {
        assert_eq!(fields(&[webhook(), webhook()]), ["webhooks[1].name"]);
    }
}
