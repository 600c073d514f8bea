//! Warnings about pods and pod templates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{deprecated_label, each, node_term, node_terms, text, volume};

/// The lists of containers of a pod.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// The two lists of an affinity.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// Deprecated annotations that fields replace.
const FIELDS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APP_ARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";

/// Warns about a pod or pod template; `at` is the prefix of its paths.
pub(super) fn pod(pod: &Value, at: &str, warnings: &mut Vec<String>) {
    let (meta, spec) = (&pod["metadata"], &pod["spec"]);
    let path = format!("{at}spec");
    nodes(spec, &path, warnings);
    for (i, constraint) in each(&spec["topologySpreadConstraints"]) {
        let path = format!("{path}.topologySpreadConstraints[{i}]");
        let key = text(constraint, "topologyKey");
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{path}.topologyKey: {key} is {message}"));
        }
        selects(constraint, &path, warnings);
    }
    annotations(meta, spec, at, warnings);
    for (i, of) in each(&spec["volumes"]) {
        volume::of_pod(of, &format!("{path}.volumes[{i}]"), warnings);
    }
    duplicates(
        &spec["hostAliases"],
        "ip",
        &format!("{path}.hostAliases"),
        warnings,
    );
    let secrets = format!("{path}.imagePullSecrets");
    duplicates(&spec["imagePullSecrets"], "name", &secrets, warnings);
    for (i, secret) in each(&spec["imagePullSecrets"]) {
        if text(secret, "name").is_empty() {
            warnings.push(format!("{secrets}[{i}].name: invalid empty name \"\""));
        }
    }
    for (path, container) in containers(spec, &path) {
        volume::whole_bytes(
            &container["resources"],
            &["memory", "ephemeral-storage"],
            &format!("{path}.resources"),
            warnings,
        );
        environment(container, &path, warnings);
    }
    affinities(&spec["affinity"], &format!("{path}.affinity"), warnings);
    ports(spec, &path, warnings);
}

fn containers<'v>(spec: &'v Value, path: &str) -> Vec<(String, &'v Value)> {
    let list = |name: &'static str| {
        each(&spec[name]).map(move |(i, container)| (format!("{path}.{name}[{i}]"), container))
    };
    CONTAINERS.into_iter().flat_map(list).collect()
}

fn nodes(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for key in spec["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{path}.nodeSelector[{key}]: {message}"));
        }
    }
    let affinity = &spec["affinity"]["nodeAffinity"];
    let path = format!("{path}.affinity.nodeAffinity");
    let terms = format!("{path}.{REQUIRED}.nodeSelectorTerms");
    node_terms(&affinity[REQUIRED]["nodeSelectorTerms"], &terms, warnings);
    for (i, preferred) in each(&affinity[PREFERRED]) {
        let path = format!("{path}.{PREFERRED}[{i}].preference");
        node_term(&preferred["preference"], &path, warnings);
    }
}

fn selects(of: &Value, path: &str, warnings: &mut Vec<String>) {
    if of["labelSelector"].is_null() {
        warnings.push(format!(
            "{path}.labelSelector: a null labelSelector results in matching no pod"
        ));
    }
}

fn affinities(affinity: &Value, path: &str, warnings: &mut Vec<String>) {
    for side in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in each(&affinity[side][REQUIRED]) {
            selects(term, &format!("{path}.{side}.{REQUIRED}[{i}]"), warnings);
        }
        for (i, weighted) in each(&affinity[side][PREFERRED]) {
            let path = format!("{path}.{side}.{PREFERRED}[{i}].podAffinityTerm");
            selects(&weighted["podAffinityTerm"], &path, warnings);
        }
    }
}

fn annotations(meta: &Value, spec: &Value, at: &str, warnings: &mut Vec<String>) {
    let Some(annotations) = meta["annotations"].as_object() else {
        return;
    };
    let path = format!("{at}metadata.annotations");
    let mut deprecated = |annotation: &str, message: &str| {
        if annotations.contains_key(annotation) {
            warnings.push(format!("{path}[{annotation}]: {message}"));
        }
    };
    let own = &spec["securityContext"];
    if own["seccompProfile"].is_null() {
        deprecated("seccomp.security.alpha.kubernetes.io/pod", SECCOMP);
    }
    for (annotation, message) in FIELDS {
        deprecated(annotation, message);
    }
    for (_, container) in containers(spec, "") {
        let (name, context) = (text(container, "name"), &container["securityContext"]);
        if context["seccompProfile"].is_null() {
            let annotation = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            deprecated(&annotation, SECCOMP);
        }
        if context["appArmorProfile"].is_null() && own["appArmorProfile"].is_null() {
            let annotation = format!("container.apparmor.security.beta.kubernetes.io/{name}");
            deprecated(&annotation, APP_ARMOR);
        }
    }
}

/// Warns about items with the same value of a field.
fn duplicates(list: &Value, field: &str, path: &str, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, item) in each(list) {
        let value = text(item, field);
        if !seen.insert(value) {
            warnings.push(format!(
                "{path}[{i}].{field}: duplicate {field} \"{value}\""
            ));
        }
    }
}

fn environment(container: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, variable) in each(&container["env"]) {
        let name = text(variable, "name");
        // A value such as `$(NAME):/bin` includes the previous value.
        if !seen.insert(name) && !text(variable, "value").contains(&format!("$({name})")) {
            warnings.push(format!(
                "{path}.env[{i}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
}

fn ports(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut all: BTreeMap<(i64, &str), Vec<(String, &Value)>> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut called = Vec::new();
    for (path, container) in containers(spec, path) {
        for (i, port) in each(&container["ports"]) {
            let at = format!("{path}.ports[{i}]");
            let number = |field: &str| port[field].as_i64().unwrap_or(0);
            let (host_port, host) = (number("hostPort"), text(port, "hostIP"));
            let (inner, protocol) = (number("containerPort"), text(port, "protocol"));
            if !host.is_empty() && host_port == 0 {
                warnings.push(format!(
                    "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{inner} Protocol:{protocol} HostIP:{host}}}",
                    text(port, "name")
                ));
            }
            let others = all.entry((inner, protocol)).or_default();
            for (other_at, other) in others.iter() {
                let other_port = other["hostPort"].as_i64().unwrap_or(0);
                let other_host = text(other, "hostIP");
                let how = if host == other_host && host_port == other_port {
                    "duplicate"
                } else if host_port == 0 || other_port == 0 {
                    "overlapping"
                } else if host_port == other_port && host.is_empty() != other_host.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{at}: {how} port definition with {other_at}"));
            }
            others.push((at.clone(), port));
            let name = text(port, "name");
            if name.is_empty() {
                continue;
            }
            if let Some(first) = names.get(name) {
                called.push(format!(
                    "{at}: duplicate port name \"{name}\" with {first}, services and probes that select ports by name will use {first}"
                ));
            } else {
                names.insert(name, at);
            }
        }
    }
    warnings.extend(called);
}
