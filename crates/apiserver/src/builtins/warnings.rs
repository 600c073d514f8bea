//! Warnings about accepted objects: surprising names, duplicates, and deprecated fields.

mod key_pair;
mod pod;
mod service;
mod volume;

use std::collections::BTreeSet;

use serde_json::Value;

use super::metadata::STANDARD;
use crate::resource::{Resource, Subresource};

/// Returns the warnings about an object that is about to be stored.
pub(crate) fn warnings(
    resource: &Resource,
    value: &Value,
    old: Option<&Value>,
    subresource: Option<Subresource>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if resource.is_custom() {
        if subresource.is_none() {
            finalizers(value, old, &mut warnings);
        }
        return warnings;
    }
    if !matches!(subresource, None | Some(Subresource::Scale)) {
        return warnings;
    }
    let changed = |field: &[&str]| {
        let at = |object: &'_ Value| {
            field
                .iter()
                .fold(object.clone(), |v, step| v[*step].clone())
        };
        old.is_none_or(|old| at(old) != at(value))
    };
    let new_generation = || changed(&["metadata", "generation"]);
    let spec = &value["spec"];
    match (resource.group.as_str(), resource.plural.as_str()) {
        // Pods change too often to warn about each update.
        ("", "pods") if old.is_none() => {
            name(value, "the Pod's hostname", &mut warnings);
            pod::pod(value, "", &mut warnings);
        }
        ("", "podtemplates") if changed(&["template"]) => {
            pod::pod(&value["template"], "template.", &mut warnings);
        }
        ("apps", "daemonsets") if changed(&["spec", "template"]) => {
            pod::pod(&spec["template"], "spec.template.", &mut warnings);
        }
        ("apps", "deployments" | "replicasets") | ("", "replicationcontrollers")
            if new_generation() =>
        {
            pod_name(value, old, &mut warnings);
            pod::pod(&spec["template"], "spec.template.", &mut warnings);
        }
        ("apps", "statefulsets") => {
            if new_generation() {
                pod::pod(&spec["template"], "spec.template.", &mut warnings);
                for (i, claim) in each(&spec["volumeClaimTemplates"]) {
                    let path = format!("spec.volumeClaimTemplates[{i}]");
                    volume::requests(&claim["spec"], &path, &mut warnings);
                }
            }
            if spec["revisionHistoryLimit"].as_i64().is_some_and(|n| n < 0) {
                warnings.push(
                    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                        .to_owned(),
                );
            }
        }
        ("batch", "jobs") if new_generation() => {
            pod_name(value, old, &mut warnings);
            indexed(spec, &mut warnings);
            pod::pod(&spec["template"], "spec.template.", &mut warnings);
        }
        ("batch", "cronjobs") if new_generation() => {
            pod_name(value, old, &mut warnings);
            let template = &spec["jobTemplate"]["spec"]["template"];
            pod::pod(template, "spec.jobTemplate.spec.template.", &mut warnings);
        }
        ("", "services") => service::service(value, &mut warnings),
        ("", "persistentvolumes") => volume::persistent(value, &mut warnings),
        ("", "persistentvolumeclaims") => volume::claim(value, &mut warnings),
        _ => other_kinds(resource, value, old, &mut warnings),
    }
    warnings
}

/// Warns about new finalizers without a domain.
fn finalizers(value: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    let of = |object: &Value| -> BTreeSet<String> {
        each(&object["metadata"]["finalizers"])
            .filter_map(|(_, finalizer)| finalizer.as_str())
            .map(str::to_owned)
            .collect()
    };
    let before = old.map(of).unwrap_or_default();
    for finalizer in of(value).difference(&before) {
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer.as_str()) {
            warnings.push(format!(
                "metadata.finalizers: \"{finalizer}\": prefer a domain-qualified finalizer name to avoid accidental \
                 conflicts with other finalizer writers"
            ));
        }
    }
}

/// Warns about kinds with a single rule.
fn other_kinds(
    resource: &Resource,
    value: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) {
    let annotations = &value["metadata"]["annotations"];
    let is_new = old.is_none();
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("networking.k8s.io", "ingresses")
            if is_new
                && value["spec"]["ingressClassName"].is_null()
                && !annotations["kubernetes.io/ingress.class"].is_null() =>
        {
            warnings.push(
                "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
                    .to_owned(),
            );
        }
        ("storage.k8s.io", "storageclasses") => volume::topologies(value, warnings),
        ("", "serviceaccounts")
            if is_new && !annotations["kubernetes.io/enforce-mountable-secrets"].is_null() =>
        {
            warnings.push(
                "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
                    .to_owned(),
            );
        }
        ("", "secrets") if value["type"] == "kubernetes.io/tls" => {
            warnings.extend(key_pair::problem(&value["data"]));
        }
        ("", "nodes") if !value["spec"]["externalID"].is_null() => {
            warnings.push(
                "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
            );
        }
        ("discovery.k8s.io", "endpointslices") if is_new && value["addressType"] == "FQDN" => {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        _ => {}
    }
}

/// Returns the items of a list with their indexes.
fn each(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Warns about names that are no valid host names.
fn pod_name(value: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if old.is_none() {
        name(value, "Pod names and hostnames", warnings);
    }
}

fn name(value: &Value, used: &str, warnings: &mut Vec<String>) {
    let name = text(&value["metadata"], "name");
    let wrong: Vec<&str> = [
        (name.len() > 63, "must be no more than 63 characters"),
        (name.contains('.'), "must not contain dots"),
    ]
    .into_iter()
    .filter_map(|(wrong, message)| wrong.then_some(message))
    .collect();
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Warns about indexed jobs that are too large to track.
fn indexed(spec: &Value, warnings: &mut Vec<String>) {
    let over = |field: &str, most: i64| spec[field].as_i64().is_some_and(|n| n > most);
    if spec["completionMode"] == "Indexed"
        && over("completions", 100_000)
        && over("parallelism", 10_000)
    {
        warnings.push(
            "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
                .to_owned(),
        );
    }
}

/// Returns the warning about a deprecated node label.
fn deprecated_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Warns about deprecated labels in node selector terms.
fn node_terms(terms: &Value, path: &str, warnings: &mut Vec<String>) {
    for (i, term) in each(terms) {
        node_term(term, &format!("{path}[{i}]"), warnings);
    }
}

fn node_term(term: &Value, path: &str, warnings: &mut Vec<String>) {
    for (i, expression) in each(&term["matchExpressions"]) {
        let key = text(expression, "key");
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!(
                "{path}.matchExpressions[{i}].key: {key} is {message}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pod_names_that_are_no_host_names_give_a_warning() {
        let mut warnings = Vec::new();
        name(&json!({"metadata": {"name": "fine"}}), "x", &mut warnings);
        assert!(warnings.is_empty());
        let long = "a".repeat(64) + ".b";
        name(&json!({"metadata": {"name": long}}), "x", &mut warnings);
        assert!(
            warnings[0].ends_with("[must be no more than 63 characters must not contain dots]")
        );
    }
}
