//! Validation of in-place resizes of pods: only CPU and memory may change.

use serde_json::Value;

use super::field::Field;
use super::pod_update;
use crate::builtins::{pod, pod_subresources};
use crate::error::Cause;

/// Resources that may change.
const RESIZED: [&str; 2] = ["cpu", "memory"];
const ONLY: &str = "only cpu and memory resources are mutable";

/// Checks a resize. The new pod itself is validated elsewhere.
pub(super) fn update(pod: &Field<'_>) {
    let Some(old) = pod.old else { return };
    if pod_update::is_mirror(old) || old["spec"]["os"]["name"] == "windows" {
        let detail = "static pods and windows pods cannot be resized";
        *pod.causes.borrow_mut() = vec![Cause::forbidden("[]", detail)];
        return;
    }
    let spec = pod.get("spec");
    let class = old["status"]["qosClass"].as_str();
    let class = class.unwrap_or_else(|| pod::qos_class(&old["spec"]));
    if class != pod::qos_class(spec.value) {
        spec.invalid("the QoS class may not change");
    }
    if !is_supported(old) {
        spec.forbidden("the node does not support resizes");
    }
    pod_level(&spec);
    let lists = ["initContainers", "containers"].map(|list| spec.get(list));
    let same = lists.iter().filter(|list| are_same(list)).count();
    if same < lists.len() {
        return;
    }
    for list in &lists {
        let before = list.old.and_then(Value::as_array).into_iter().flatten();
        for (container, before) in list.each().zip(before) {
            removed(&container.get("resources"), &before["resources"]);
            if list.path.ends_with("initContainers") {
                init_container(&container, before);
            } else if !differs_in_amounts(container.value, before) {
                spec.forbidden(ONLY);
            }
        }
    }
}

/// Reports whether the kubelet supports resizes, judging by the status.
fn is_supported(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let mut statuses = statuses.into_iter().flatten();
    statuses
        .find(|status| !status["state"]["running"].is_null())
        .is_none_or(|status| !status["resources"].is_null())
}

/// Checks the pod-level resources.
fn pod_level(spec: &Field<'_>) {
    let resources = spec.get("resources");
    let old = resources.old.unwrap_or(&Value::Null);
    let is_set = |value: &Value| {
        let mut parts = ["requests", "limits"].iter();
        parts.any(|part| pod_subresources::amounts(value, part).is_some())
    };
    if !is_set(resources.value) && !is_set(old) {
        return;
    }
    if !old.is_null() && !resources.is_set() {
        return resources.forbidden("pod-level resources cannot be removed");
    }
    removed(&resources, old);
    if !same_but_amounts(resources.value, old) {
        spec.forbidden(ONLY);
    }
}

/// Checks that names and order of containers stay.
fn are_same(new: &Field<'_>) -> bool {
    let old = new.old.and_then(Value::as_array);
    if new.count() != old.map_or(0, Vec::len) {
        new.forbidden("containers may not be added or removed on resize");
        return false;
    }
    let pairs = new
        .each()
        .map(|new| new.get("name"))
        .zip(old.into_iter().flatten());
    let renamed: Vec<_> = pairs
        .filter(|(new, old)| *new.value != old["name"])
        .collect();
    for (name, _) in &renamed {
        name.forbidden("containers may not be renamed or reordered on resize");
    }
    renamed.is_empty()
}

/// Checks that no request or limit is removed.
fn removed(new: &Field<'_>, old: &Value) {
    for part in ["requests", "limits"] {
        let now = pod_subresources::amounts(new.value, part);
        let mut before = pod_subresources::amounts(old, part).into_iter().flatten();
        if before.any(|(name, _)| now.is_none_or(|now| !now.contains_key(name))) {
            new.get(part)
                .forbidden("requests and limits cannot be removed");
        }
    }
}

fn init_container(container: &Field<'_>, before: &Value) {
    if !differs_in_amounts(container.value, before) {
        container.forbidden(ONLY);
    }
    let mut policies = container.items("resizePolicy");
    if container.value != before
        && container.value["restartPolicy"] != "Always"
        && policies.any(|policy| policy.value["restartPolicy"] == "RestartContainer")
    {
        container.forbidden("init containers that restart on a resize cannot be resized");
    }
}

/// Reports whether two containers differ at most in CPU and memory.
fn differs_in_amounts(new: &Value, old: &Value) -> bool {
    let rest = |container: &Value| {
        let mut rest = container.clone();
        rest["resources"] = Value::Null;
        rest
    };
    rest(new) == rest(old) && same_but_amounts(&new["resources"], &old["resources"])
}

/// Reports whether resources differ at most in CPU and memory.
fn same_but_amounts(new: &Value, old: &Value) -> bool {
    let others = |resources: &Value, part: &str| {
        let mut map = pod_subresources::amounts(resources, part)
            .cloned()
            .unwrap_or_default();
        map.retain(|name, _| !RESIZED.contains(&name.as_str()));
        map
    };
    let mut parts = ["requests", "limits"].iter();
    new["claims"] == old["claims"] && parts.all(|part| others(new, part) == others(old, part))
}
