//! Validation of ingresses and their classes.

use std::net::IpAddr;

use serde_json::Value;

use super::field::Field;
use crate::error::Cause;
use crate::names;

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
/// The annotation that named a class before the field existed.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";

pub(super) fn ingress(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    let (rules, default) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.count() == 0 && !default.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        spec.invalid(detail, causes);
    }
    for tls in spec.items("tls") {
        for host in tls.items("hosts") {
            host.problems(names::host(host.text()), causes);
        }
        tls.field("secretName").optional(names::subdomain, causes);
    }
    for rule in rules.each() {
        let host = rule.field("host");
        if host.text().parse::<IpAddr>().is_ok() {
            host.invalid("must be a DNS name, not an IP address", causes);
        } else {
            host.optional(names::host, causes);
        }
        let http = rule.field("http");
        if http.is_set() {
            paths(&http.field("paths"), causes);
        }
    }
    if default.is_set() {
        backend(&default, causes);
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        class.problems(names::subdomain(class.text()), causes);
    }
    let annotation = &value["metadata"]["annotations"][OLD_CLASS];
    if old.is_none() && annotation.is_string() && class.is_set() && annotation != class.value {
        let detail = "must match `ingressClassName` when both are specified";
        causes.push(Cause::invalid(
            format!("annotations.{OLD_CLASS}"),
            annotation,
            detail,
        ));
    }
}

fn paths(paths: &Field<'_>, causes: &mut Vec<Cause>) {
    if paths.count() == 0 {
        paths.required("", causes);
    }
    for (i, path) in paths.value.as_array().into_iter().flatten().enumerate() {
        let entry = Field::new(path, format!("{}[{i}]", paths.path));
        let (kind, path) = (entry.field("pathType"), entry.field("path"));
        if !kind.is_set() {
            kind.required("pathType must be specified", causes);
            continue;
        }
        kind.one_of(PATH_TYPES, causes);
        if matches!(kind.text(), "Exact" | "Prefix") {
            exact_path(&path, causes);
        } else if !path.text().is_empty() && !path.text().starts_with('/') {
            path.invalid("must be an absolute path", causes);
        }
        backend(&entry.field("backend"), causes);
    }
}

/// Checks a path of type `Exact` or `Prefix`.
fn exact_path(path: &Field<'_>, causes: &mut Vec<Cause>) {
    let text = path.text();
    if !text.starts_with('/') {
        path.invalid("must be an absolute path", causes);
    }
    for part in ["//", "/./", "/../", "%2f", "%2F"] {
        if text.contains(part) {
            path.invalid(&format!("must not contain '{part}'"), causes);
        }
    }
    for end in ["/..", "/."] {
        if text.ends_with(end) {
            path.invalid(&format!("cannot end with '{end}'"), causes);
        }
    }
}

fn backend(backend: &Field<'_>, causes: &mut Vec<Cause>) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    if resource.is_set() && service.is_set() {
        let detail = "cannot set both resource and service backends";
        backend.invalid(detail, causes);
    } else if resource.is_set() {
        resource
            .field("apiGroup")
            .optional(names::subdomain, causes);
        for field in ["kind", "name"] {
            resource.field(field).named(names::path_segment, causes);
        }
    } else if service.is_set() {
        service.field("name").named(names::dns_label, causes);
        let port = service.field("port");
        let (name, number) = (port.field("name"), port.field("number"));
        let has_number = number.number().unwrap_or(0) != 0;
        if !name.text().is_empty() && has_number {
            let detail = "cannot set both port name & port number";
            backend.invalid(detail, causes);
        } else if has_number {
            number.port_number(causes);
        } else if name.text().is_empty() {
            backend.required("port name or number is required", causes);
        } else {
            name.problems(names::port_name(name.text()), causes);
        }
    } else {
        let detail = "resource or service backend is required";
        backend.invalid(detail, causes);
    }
}

pub(super) fn class(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    let controller = spec.field("controller");
    if let Some(old) = old {
        if old["spec"]["controller"] != *controller.value {
            controller.invalid("field is immutable", causes);
        }
    } else if controller.text().is_empty() {
        controller.required("", causes);
    } else {
        controller.domain_path(causes);
    }
    let parameters = spec.field("parameters");
    if !parameters.is_set() {
        return;
    }
    parameters
        .field("apiGroup")
        .optional(names::subdomain, causes);
    for field in ["kind", "name"] {
        parameters.field(field).named(names::path_segment, causes);
    }
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    scope.one_of(&["Cluster", "Namespace"], causes);
    match scope.text() {
        "Namespace" if !namespace.is_set() => {
            namespace.required("`parameters.scope` is set to 'Namespace'", causes);
        }
        "Cluster" if namespace.is_set() => {
            namespace.forbidden("`parameters.scope` is set to 'Cluster'", causes);
        }
        _ => {}
    }
}
