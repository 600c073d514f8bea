//! Validation of in-place resizes of pods: only CPU and memory may change.

use serde_json::{Map, Value};

use super::field::Field;
use super::pod_update;
use crate::builtins::{pod, pod_subresources};
use crate::error::Cause;

/// Resources that may change.
const RESIZED: [&str; 2] = ["cpu", "memory"];
const ONLY: &str = "only cpu and memory resources are mutable";

/// Checks a resize. The new pod itself is validated elsewhere.
pub(super) fn update(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let impossible = if pod_update::is_mirror(old) {
        Some("static pods cannot be resized")
    } else if old["spec"]["os"]["name"] == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(detail) = impossible {
        *causes = vec![Cause::forbidden("[]", detail)];
        return;
    }
    let spec = Field::new(&value["spec"], "spec");
    let class = old["status"]["qosClass"].as_str();
    let class = class.unwrap_or_else(|| pod::qos_class(&old["spec"]));
    if class != pod::qos_class(spec.value) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        spec.invalid(detail, causes);
    }
    if !is_supported(old) {
        spec.forbidden("Pod running on node without support for resize", causes);
    }
    pod_level(&spec, &old["spec"]["resources"], causes);
    let lists = ["containers", "initContainers"];
    let mut same = true;
    for list in lists {
        same &= are_same(&spec.field(list), &old["spec"][list], list, causes);
    }
    if !same {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (container, before) in pairs(&spec, old, list) {
            removed(
                &container.field("resources"),
                &before["resources"],
                "resource",
                causes,
            );
        }
    }
    for (container, before) in pairs(&spec, old, "containers") {
        if !differs_in_amounts(container.value, before) {
            spec.forbidden(ONLY, causes);
        }
    }
    for (container, before) in pairs(&spec, old, "initContainers") {
        init_container(&container, before, causes);
    }
}

/// Reports whether the kubelet supports resizes, judging by the status.
fn is_supported(pod: &Value) -> bool {
    let mut statuses = pod["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    statuses
        .find(|status| !status["state"]["running"].is_null())
        .is_none_or(|status| !status["resources"].is_null())
}

/// Checks the pod-level resources.
fn pod_level(spec: &Field<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let resources = spec.field("resources");
    let is_set = |value: &Value| {
        let parts = ["requests", "limits"];
        parts
            .iter()
            .any(|part| pod_subresources::amounts(value, part).is_some())
    };
    if !is_set(resources.value) && !is_set(old) {
        return;
    }
    if !old.is_null() && !resources.is_set() {
        resources.forbidden("pod-level resources cannot be removed", causes);
        return;
    }
    removed(&resources, old, "pod-level resource", causes);
    if !same_but_amounts(resources.value, old) {
        let detail = format!("{ONLY} at pod-level");
        spec.forbidden(&detail, causes);
    }
}

/// Checks that names and order of containers stay.
fn are_same(new: &Field<'_>, old: &Value, list: &str, causes: &mut Vec<Cause>) -> bool {
    let old = old.as_array().map_or(&[][..], Vec::as_slice);
    if new.count() != old.len() {
        let detail = format!("{list} may not be added or removed on resize");
        new.forbidden(&detail, causes);
        return false;
    }
    let mut same = true;
    for (new, old) in Field::new(new.value, new.path.as_str()).each().zip(old) {
        let name = new.field("name");
        if *name.value != old["name"] {
            let detail = format!("{list} may not be renamed or reordered on resize");
            name.forbidden(&detail, causes);
            same = false;
        }
    }
    same
}

/// Returns the containers of a list with their old versions.
fn pairs<'a>(
    spec: &Field<'a>,
    old: &'a Value,
    list: &str,
) -> impl Iterator<Item = (Field<'a>, &'a Value)> + use<'a> {
    let before = old["spec"][list].as_array().into_iter().flatten();
    spec.items(list).zip(before)
}

/// Checks that no request or limit is removed.
fn removed(new: &Field<'_>, old: &Value, what: &str, causes: &mut Vec<Cause>) {
    for part in ["requests", "limits"] {
        let now = pod_subresources::amounts(new.value, part);
        let before = pod_subresources::amounts(old, part).into_iter().flatten();
        if before
            .map(|(name, _)| name)
            .any(|name| now.is_none_or(|now| !now.contains_key(name)))
        {
            let detail = format!("{what} {part} cannot be removed");
            new.field(part).forbidden(&detail, causes);
        }
    }
}

fn init_container(container: &Field<'_>, before: &Value, causes: &mut Vec<Cause>) {
    if !differs_in_amounts(container.value, before) {
        let detail = "only cpu and memory resources for init or sidecar containers are mutable";
        container.forbidden(detail, causes);
    }
    let mut policies = container.items("resizePolicy");
    if container.value != before
        && container.value["restartPolicy"] != "Always"
        && policies.any(|policy| policy.value["restartPolicy"] == "RestartContainer")
    {
        let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        container.forbidden(detail, causes);
    }
}

/// Reports whether two containers differ at most in CPU and memory.
fn differs_in_amounts(new: &Value, old: &Value) -> bool {
    let rest = |container: &Value| {
        let mut rest = container.clone();
        if let Some(map) = rest.as_object_mut() {
            map.remove("resources");
        }
        rest
    };
    rest(new) == rest(old) && same_but_amounts(&new["resources"], &old["resources"])
}

/// Reports whether resources differ at most in CPU and memory.
fn same_but_amounts(new: &Value, old: &Value) -> bool {
    let others = |resources: &Value, part: &str| -> Map<String, Value> {
        let map = pod_subresources::amounts(resources, part)
            .into_iter()
            .flatten();
        map.filter(|(name, _)| !RESIZED.contains(&name.as_str()))
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect()
    };
    new["claims"] == old["claims"]
        && ["requests", "limits"]
            .iter()
            .all(|part| others(new, part) == others(old, part))
}
