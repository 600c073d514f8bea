//! Validation of the status of pods: a container that must not run again stays terminated.

use serde_json::Value;

use super::super::checks::qualified;
use super::super::field::Field;
use super::super::rules::Check::{Immutable, NotNegative, OptionalText, Text};
use crate::text_rules;

/// The conditions that Kubernetes sets. The types of other conditions must be qualified names.
const SYSTEM_CONDITIONS: [&str; 3] = ["Initialized", "PodScheduled", "Ready"];

/// Checks an update of the status of a pod.
pub(super) fn status(pod: &Field<'_>) {
    let status = pod.get("status");
    for condition in status.items("conditions") {
        NotNegative.apply(&condition.get("observedGeneration"));
        let kind = condition.get("type");
        if !SYSTEM_CONDITIONS.contains(&kind.text()) {
            qualified(&kind.reported_at(format!("{}.Type", condition.path)));
        }
    }
    let nominated = status.get("nominatedNodeName");
    OptionalText(text_rules::subdomain).apply(&nominated);
    let is_bound = !pod.get("spec.nodeName").is_empty();
    if is_bound && !nominated.is_empty() && nominated.old != Some(nominated.value) {
        nominated.forbidden("may not be set on pods that are already bound to a node");
    }
    Immutable.apply(&status.get("qosClass"));
    let spec = &pod.value["spec"];
    if !may_restart_all(spec) {
        for (list, containers) in [
            ("containerStatuses", Some("containers")),
            ("initContainerStatuses", Some("initContainers")),
        ] {
            transitions(&status.get(list), spec, containers);
        }
    }
    transitions(&status.get("ephemeralContainerStatuses"), spec, None);
    addresses(&status.get("podIPs"));
    addresses(&status.get("hostIPs"));
    if let Some(first) = status.items("hostIPs").next()
        && first.text_of("ip") != status.text_of("hostIP")
    {
        first.get("ip").invalid("must be equal to `hostIP`");
    }
}

/// Checks that no terminated container gets another state, unless its restart policy allows it. `containers` is the
/// field with the specs of the containers, or `None` for containers that never restart.
fn transitions(statuses: &Field<'_>, spec: &Value, containers: Option<&str>) {
    let before = statuses.old.and_then(Value::as_array);
    for (index, before) in before.into_iter().flatten().enumerate() {
        let ended = &before["state"]["terminated"];
        let name = &before["name"];
        let runs = |now: &Value| now["name"] == *name && now["state"]["terminated"].is_null();
        if ended.is_null() || !statuses.each().any(|now| runs(now.value)) {
            continue;
        }
        let specs = containers.and_then(|list| spec[list].as_array());
        let mut specs = specs.into_iter().flatten();
        let container = specs.find(|container| container["name"] == *name);
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        if !container.is_some_and(|container| restarts(container, spec, code)) {
            let state = statuses.with(&Value::Null);
            let state = state.reported_at(format!("{}[{index}].state", statuses.path));
            state.forbidden("may not be transitioned to non-terminated state");
        }
    }
}

/// Reports whether a container of the pod can restart all containers.
fn may_restart_all(spec: &Value) -> bool {
    let lists = ["initContainers", "containers"].map(|list| spec[list].as_array());
    let mut rules = lists
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|container| container["restartPolicyRules"].as_array())
        .flatten();
    rules.any(|rule| rule["action"] == "RestartAllContainers")
}

/// Reports whether a container runs again after it has ended with an exit code.
fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let own = container["restartPolicy"].as_str();
    let mut rules = container["restartPolicyRules"]
        .as_array()
        .into_iter()
        .flatten();
    if own.is_some() && rules.any(|rule| rule["action"] == "Restart" && matches(rule, code)) {
        return true;
    }
    match own.or_else(|| spec["restartPolicy"].as_str()) {
        Some("OnFailure") => code != 0,
        Some("Never") => false,
        _ => true,
    }
}

/// Reports whether a restart rule applies to an exit code.
fn matches(rule: &Value, code: i64) -> bool {
    let exit = &rule["exitCodes"];
    let mut values = exit["values"].as_array().into_iter().flatten();
    let is_listed = values.any(|value| *value == code);
    match exit["operator"].as_str() {
        Some("In") => is_listed,
        Some("NotIn") => !is_listed,
        _ => false,
    }
}

/// Checks a list of IP addresses, with one address of each family at most.
fn addresses(list: &Field<'_>) {
    for entry in list.each() {
        let path = entry.path.clone();
        Text(text_rules::ip).apply(&entry.get("ip").reported_at(path));
    }
    let is_v6 = |entry: &Field<'_>| entry.text_of("ip").contains(':');
    let (six, four): (Vec<_>, Vec<_>) = list.each().partition(is_v6);
    if six.len() > 1 || four.len() > 1 {
        list.invalid("may specify no more than one IP for each IP family");
    }
}
