//! Validation of Clusters.

use std::collections::BTreeSet;

use berth_apimachinery::dns::is_dns_label;
use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use super::field_error::{FieldError, Path};
use super::resource_models::first_problem;
use super::url_parts::UrlParts;
use super::{Operation, Reason};
use crate::cluster::{ClusterSpec, LocalSecretReference, SyncMode};
use crate::label_selector::{validate_label_key, validate_label_value};
use crate::names::MAX_CLUSTER_NAME;

pub(super) fn check(operation: Operation, old: Option<&Value>, cluster: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // An update with the same spec must succeed, even if the stored spec violates a rule.
    if operation == Operation::Update && old.and_then(|old| old.get("spec")) == cluster.get("spec")
    {
        return errors;
    }
    check_name(cluster, &mut errors);
    let path = Path::new("spec");
    let raw = cluster.get("spec").unwrap_or(&Value::Null);
    let spec: Result<ClusterSpec, _> = serde::Deserialize::deserialize(raw);
    match spec {
        Ok(spec) => check_spec(&spec, &path, &mut errors),
        Err(error) => errors.push(path.invalid(error.to_string())),
    }
    errors
}

fn check_name(cluster: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("metadata.name");
    let name = cluster
        .get("metadata")
        .and_then(|m| m.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name.is_empty() {
        errors.push(path.error(Reason::Required, "must be not empty"));
    } else if name.len() > MAX_CLUSTER_NAME {
        errors.push(path.invalid(format!(
            "must be no more than {MAX_CLUSTER_NAME} characters"
        )));
    } else if !is_dns_label(name) {
        errors.push(path.invalid(
            "must be lower-case letters, digits or '-', and start and end with a letter or digit",
        ));
    }
}

fn check_spec(spec: &ClusterSpec, path: &Path, errors: &mut Vec<FieldError>) {
    if let SyncMode::Other(mode) = &spec.sync_mode {
        errors.push(path.child("syncMode").error(
            Reason::NotSupported,
            format!("{mode:?} is not supported: use Pull or Push"),
        ));
    }
    if let Some(endpoint) = spec.api_endpoint.as_deref().filter(|e| !e.is_empty()) {
        check_endpoint(endpoint, &path.child("apiEndpoint"), errors);
    }
    for (reference, name) in [
        (&spec.secret_ref, "secretRef"),
        (&spec.impersonator_secret_ref, "impersonatorSecretRef"),
    ] {
        if let Some(reference) = reference {
            check_reference(reference, &path.child(name), errors);
        }
    }
    if let Some(url) = spec.proxy_url.as_deref().filter(|url| !url.is_empty()) {
        check_proxy(url, &path.child("proxyURL"), errors);
    }
    check_location(spec, path, errors);
    check_taints(&spec.taints, &path.child("taints"), errors);
    if let Some(problem) = first_problem(&spec.resource_models) {
        errors.push(path.child("resourceModels").invalid(problem));
    }
}

fn check_endpoint(endpoint: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(url) = UrlParts::parse(endpoint) else {
        errors.push(path.invalid("must be a URL with a host"));
        return;
    };
    if url.host.is_empty() {
        errors.push(path.invalid("host must be provided"));
    }
    if url.user_info {
        errors.push(path.invalid("user information is not permitted in the URL"));
    }
    if url.fragment {
        errors.push(path.invalid("fragments are not permitted in the URL"));
    }
    if url.query {
        errors.push(path.invalid("query parameters are not permitted in the URL"));
    }
}

fn check_proxy(url: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let scheme = UrlParts::parse(url).map(|parts| parts.scheme);
    if !matches!(scheme.as_deref(), Some("http" | "https" | "socks5")) {
        errors.push(path.invalid("unsupported scheme, must be http, https, or socks5"));
    }
}

fn check_reference(reference: &LocalSecretReference, path: &Path, errors: &mut Vec<FieldError>) {
    for (value, name) in [
        (&reference.namespace, "namespace"),
        (&reference.name, "name"),
    ] {
        if value.is_empty() {
            errors.push(
                path.child(name)
                    .error(Reason::Required, "must not be empty"),
            );
        }
    }
}

fn check_location(spec: &ClusterSpec, path: &Path, errors: &mut Vec<FieldError>) {
    let mut check = |value: &str, path: Path| {
        if let Err(error) = validate_label_value(value) {
            errors.push(path.invalid(error.to_string()));
        }
    };
    check(
        spec.provider.as_deref().unwrap_or_default(),
        path.child("provider"),
    );
    check(
        spec.region.as_deref().unwrap_or_default(),
        path.child("region"),
    );
    let zone = spec.zone.as_deref().unwrap_or_default();
    check(zone, path.child("zone"));
    for (index, zone) in spec.zones.iter().enumerate() {
        check(zone, path.child("zones").index(index));
    }
    if !zone.is_empty() && !spec.zones.is_empty() {
        errors.push(path.child("zone").invalid("zone and zones cannot co-exist"));
    }
}

fn check_taints(taints: &[Taint], path: &Path, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        if let Err(error) = validate_label_key(&taint.key) {
            errors.push(path.child("key").invalid(error.to_string()));
        }
        if let Err(error) = validate_label_value(taint.value.as_deref().unwrap_or_default()) {
            errors.push(path.child("value").invalid(error.to_string()));
        }
        match taint.effect.as_str() {
            "NoSchedule" | "NoExecute" => {}
            "" => errors.push(
                path.child("effect")
                    .error(Reason::Required, "must not be empty"),
            ),
            effect => errors.push(path.child("effect").error(
                Reason::NotSupported,
                format!("{effect:?} is not supported: use NoSchedule or NoExecute"),
            )),
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            errors.push(path.error(
                Reason::Duplicate,
                "taints must be unique by key and effect pair",
            ));
        }
    }
}
