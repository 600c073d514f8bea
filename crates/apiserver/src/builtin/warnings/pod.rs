//! What clients are warned of about pods and templates of pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{each, node_term, node_terms, old_label, text, volume};

/// Lists of containers, in the order in which they start.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Parts of affinities.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// Annotations that fields have taken the place of.
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

/// A pod, or the template of one; `at` is what its paths begin with.
pub(super) fn pod(pod: &Value, at: &str, said: &mut Vec<String>) {
    let (meta, spec) = (&pod["metadata"], &pod["spec"]);
    let path = format!("{at}spec");
    nodes(spec, &path, said);
    for (i, constraint) in each(&spec["topologySpreadConstraints"]) {
        let path = format!("{path}.topologySpreadConstraints[{i}]");
        let key = text(constraint, "topologyKey");
        if let Some(why) = old_label(key) {
            said.push(format!("{path}.topologyKey: {key} is {why}"));
        }
        selects(constraint, &path, said);
    }
    annotations(meta, spec, at, said);
    for (i, of) in each(&spec["volumes"]) {
        volume::of_pod(of, &format!("{path}.volumes[{i}]"), said);
    }
    twice(
        &spec["hostAliases"],
        "ip",
        &format!("{path}.hostAliases"),
        said,
    );
    let secrets = format!("{path}.imagePullSecrets");
    twice(&spec["imagePullSecrets"], "name", &secrets, said);
    for (i, secret) in each(&spec["imagePullSecrets"]) {
        if text(secret, "name").is_empty() {
            said.push(format!("{secrets}[{i}].name: invalid empty name \"\""));
        }
    }
    for (path, container) in containers(spec, &path) {
        volume::whole_bytes(
            &container["resources"],
            &["memory", "ephemeral-storage"],
            &format!("{path}.resources"),
            said,
        );
        environment(container, &path, said);
    }
    affinities(&spec["affinity"], &format!("{path}.affinity"), said);
    ports(spec, &path, said);
}

fn containers<'v>(spec: &'v Value, path: &str) -> Vec<(String, &'v Value)> {
    let list = |name: &'static str| {
        each(&spec[name]).map(move |(i, container)| (format!("{path}.{name}[{i}]"), container))
    };
    CONTAINERS.into_iter().flat_map(list).collect()
}

fn nodes(spec: &Value, path: &str, said: &mut Vec<String>) {
    for key in spec["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if let Some(why) = old_label(key) {
            said.push(format!("{path}.nodeSelector[{key}]: {why}"));
        }
    }
    let affinity = &spec["affinity"]["nodeAffinity"];
    let path = format!("{path}.affinity.nodeAffinity");
    let terms = format!("{path}.{REQUIRED}.nodeSelectorTerms");
    node_terms(&affinity[REQUIRED]["nodeSelectorTerms"], &terms, said);
    for (i, preferred) in each(&affinity[PREFERRED]) {
        let path = format!("{path}.{PREFERRED}[{i}].preference");
        node_term(&preferred["preference"], &path, said);
    }
}

fn selects(of: &Value, path: &str, said: &mut Vec<String>) {
    if of["labelSelector"].is_null() {
        said.push(format!(
            "{path}.labelSelector: a null labelSelector results in matching no pod"
        ));
    }
}

fn affinities(affinity: &Value, path: &str, said: &mut Vec<String>) {
    for side in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in each(&affinity[side][REQUIRED]) {
            selects(term, &format!("{path}.{side}.{REQUIRED}[{i}]"), said);
        }
        for (i, weighted) in each(&affinity[side][PREFERRED]) {
            let path = format!("{path}.{side}.{PREFERRED}[{i}].podAffinityTerm");
            selects(&weighted["podAffinityTerm"], &path, said);
        }
    }
}

fn annotations(meta: &Value, spec: &Value, at: &str, said: &mut Vec<String>) {
    let Some(annotations) = meta["annotations"].as_object() else {
        return;
    };
    let path = format!("{at}metadata.annotations");
    let mut out_of_date = |annotation: &str, why: &str| {
        if annotations.contains_key(annotation) {
            said.push(format!("{path}[{annotation}]: {why}"));
        }
    };
    let own = &spec["securityContext"];
    if own["seccompProfile"].is_null() {
        out_of_date("seccomp.security.alpha.kubernetes.io/pod", SECCOMP);
    }
    for (annotation, why) in FIELDS {
        out_of_date(annotation, why);
    }
    for (_, container) in containers(spec, "") {
        let (name, context) = (text(container, "name"), &container["securityContext"]);
        if context["seccompProfile"].is_null() {
            let annotation = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            out_of_date(&annotation, SECCOMP);
        }
        if context["appArmorProfile"].is_null() && own["appArmorProfile"].is_null() {
            let annotation = format!("container.apparmor.security.beta.kubernetes.io/{name}");
            out_of_date(&annotation, APP_ARMOR);
        }
    }
}

/// Items that say the same in a field.
fn twice(list: &Value, field: &str, path: &str, said: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, item) in each(list) {
        let value = text(item, field);
        if !seen.insert(value) {
            said.push(format!(
                "{path}[{i}].{field}: duplicate {field} \"{value}\""
            ));
        }
    }
}

fn environment(container: &Value, path: &str, said: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, variable) in each(&container["env"]) {
        let name = text(variable, "name");
        // One that is made of the one before hides nothing.
        if !seen.insert(name) && !text(variable, "value").contains(&format!("$({name})")) {
            said.push(format!(
                "{path}.env[{i}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
}

fn ports(spec: &Value, path: &str, said: &mut Vec<String>) {
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
                said.push(format!(
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
                said.push(format!("{at}: {how} port definition with {other_at}"));
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
    said.extend(called);
}
