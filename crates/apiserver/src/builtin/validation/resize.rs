//! The checks of a pod that gets other resources while it runs: more or less CPU and memory, and nothing else.

use serde_json::{Map, Value, json};

use super::place::Place;
use super::pod_update;
use crate::builtin::{pod, pod_parts};
use crate::error::Cause;

/// The resources that can change.
const RESIZED: [&str; 2] = ["cpu", "memory"];
const ONLY: &str = "only cpu and memory resources are mutable";

/// Refuses a change of a pod that is more than that. What is wrong with the new pod as such is said elsewhere.
pub(super) fn update(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let impossible = if pod_update::is_mirror(old) {
        Some("static pods cannot be resized")
    } else if old["spec"]["os"]["name"] == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(why) = impossible {
        *causes = vec![Cause::forbidden("[]", why)];
        return;
    }
    let spec = Place::new(&value["spec"], "spec");
    let class = old["status"]["qosClass"].as_str();
    let class = class.unwrap_or_else(|| pod::qos_class(&old["spec"]));
    if class != pod::qos_class(spec.value) {
        let why = "Pod QOS Class may not change as a result of resizing";
        spec.invalid_as(&json!(class), why, causes);
    }
    if !is_supported(old) {
        spec.forbidden("Pod running on node without support for resize", causes);
    }
    whole(&spec, &old["spec"]["resources"], causes);
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

/// Whether whoever runs it can do that, as far as it is known.
fn is_supported(pod: &Value) -> bool {
    let mut statuses = pod["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    statuses
        .find(|status| !status["state"]["running"].is_null())
        .is_none_or(|status| !status["resources"].is_null())
}

/// What the pod as a whole asks for.
fn whole(spec: &Place<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let resources = spec.field("resources");
    let is_set = |value: &Value| {
        let parts = ["requests", "limits"];
        parts
            .iter()
            .any(|part| pod_parts::amounts(value, part).is_some())
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
        let why = format!("{ONLY} at pod-level");
        spec.forbidden(&why, causes);
    }
}

/// They are the same containers in the same order.
fn are_same(new: &Place<'_>, old: &Value, list: &str, causes: &mut Vec<Cause>) -> bool {
    let old = old.as_array().map_or(&[][..], Vec::as_slice);
    if new.count() != old.len() {
        let why = format!("{list} may not be added or removed on resize");
        new.forbidden(&why, causes);
        return false;
    }
    let mut same = true;
    for (new, old) in Place::new(new.value, new.path.as_str()).each().zip(old) {
        let name = new.field("name");
        if *name.value != old["name"] {
            let why = format!("{list} may not be renamed or reordered on resize");
            name.forbidden(&why, causes);
            same = false;
        }
    }
    same
}

/// The containers of a list, and what they were.
fn pairs<'a>(
    spec: &Place<'a>,
    old: &'a Value,
    list: &str,
) -> impl Iterator<Item = (Place<'a>, &'a Value)> + use<'a> {
    let before = old["spec"][list].as_array().into_iter().flatten();
    spec.items(list).zip(before)
}

/// What is asked for may change and may not go.
fn removed(new: &Place<'_>, old: &Value, what: &str, causes: &mut Vec<Cause>) {
    for part in ["requests", "limits"] {
        let now = pod_parts::amounts(new.value, part);
        let before = pod_parts::amounts(old, part).into_iter().flatten();
        if before
            .map(|(name, _)| name)
            .any(|name| now.is_none_or(|now| !now.contains_key(name)))
        {
            let why = format!("{what} {part} cannot be removed");
            new.field(part).forbidden(&why, causes);
        }
    }
}

fn init_container(container: &Place<'_>, before: &Value, causes: &mut Vec<Cause>) {
    if !differs_in_amounts(container.value, before) {
        let why = "only cpu and memory resources for init or sidecar containers are mutable";
        container.forbidden(why, causes);
    }
    let mut policies = container.items("resizePolicy");
    if container.value != before
        && container.value["restartPolicy"] != "Always"
        && policies.any(|policy| policy.value["restartPolicy"] == "RestartContainer")
    {
        let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        container.forbidden(why, causes);
    }
}

/// Whether two containers differ in CPU and memory at most.
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

/// The same of resources.
fn same_but_amounts(new: &Value, old: &Value) -> bool {
    let others = |resources: &Value, part: &str| -> Map<String, Value> {
        let map = pod_parts::amounts(resources, part).into_iter().flatten();
        map.filter(|(name, _)| !RESIZED.contains(&name.as_str()))
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect()
    };
    new["claims"] == old["claims"]
        && ["requests", "limits"]
            .iter()
            .all(|part| others(new, part) == others(old, part))
}
