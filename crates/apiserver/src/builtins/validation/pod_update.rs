//! Validation of changes of pods: of the whole pod, of its ephemeral containers, and in-place resizes.

use serde_json::{Map, Value, json};

use super::field::Field;
use super::rules::Check::Between;
use crate::builtins::{pod, pod_subresources};
use crate::error::Cause;

/// The annotation of a static pod's mirror.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Fields whose changes have rules of their own.
const CHECKED: [&str; 3] = ["activeDeadlineSeconds", "schedulingGates", "tolerations"];
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Checks a change of a pod. The new pod itself is validated elsewhere.
pub(super) fn pod(pod: &Field<'_>) {
    annotations(pod);
    let spec = pod.get("spec");
    let Some(old) = spec.old else { return };
    for containers in LISTS.map(|list| spec.get(list)) {
        if containers.count() != list(containers.old).len() {
            return containers.forbidden("pod updates may not add or remove containers");
        }
    }
    if !deadline(&spec.get("activeDeadlineSeconds")) {
        return;
    }
    tolerations(&spec.get("tolerations"));
    gates(&spec.get("schedulingGates"));
    let mut rest = spec.value.clone();
    for name in LISTS {
        let before = list(Some(&old[name])).iter();
        let after = rest.get_mut(name).and_then(Value::as_array_mut);
        for (container, before) in after.into_iter().flatten().zip(before) {
            restore(container, before, "image");
        }
    }
    for field in CHECKED {
        restore(&mut rest, old, field);
    }
    // A gated pod may narrow its node selection.
    if !list(Some(&old["schedulingGates"])).is_empty() {
        restore(&mut rest, old, "nodeSelector");
        restore(&mut rest, old, "affinity");
    }
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|before| before < 0) && rest[grace] == 1 {
        restore(&mut rest, old, grace);
    }
    if rest != *old {
        spec.forbidden("only images, activeDeadlineSeconds and tolerations may change");
    }
}

/// Checks a change of the ephemeral containers: they may be added, not changed.
pub(super) fn ephemeral(pod: &Field<'_>) {
    if pod.old.is_some_and(is_mirror) {
        return refuse(pod, "static pods do not support ephemeral containers");
    }
    annotations(pod);
    let containers = pod.get("spec.ephemeralContainers");
    for before in list(containers.old) {
        if !containers.each().any(|now| now.value == before) {
            let name = &before["name"];
            containers.forbidden(&format!("ephemeral container {name} may not be changed"));
        }
    }
}

const ONLY: &str = "only cpu and memory resources are mutable";

/// Checks a resize: only CPU and memory may change.
pub(super) fn resize(pod: &Field<'_>) {
    let Some(old) = pod.old else { return };
    if is_mirror(old) || old["spec"]["os"]["name"] == "windows" {
        return refuse(pod, "static pods and windows pods cannot be resized");
    }
    let spec = pod.get("spec");
    let class = old["status"]["qosClass"].as_str();
    let class = class.unwrap_or_else(|| pod::qos_class(&old["spec"]));
    if class != pod::qos_class(spec.value) {
        spec.invalid("the QoS class may not change");
    }
    let resources = spec.get("resources");
    resized(&resources, resources.old.unwrap_or(&Value::Null), &spec);
    for containers in LISTS.map(|list| spec.get(list)) {
        let old = list(containers.old);
        if containers.count() != old.len() {
            return containers.forbidden("containers may not be added or removed on resize");
        }
        for (container, before) in containers.each().zip(old) {
            let (name, ends) = (
                container.get("name"),
                containers.path.starts_with("spec.init"),
            );
            if *name.value != before["name"] {
                return name.forbidden("containers may not be renamed or reordered on resize");
            }
            let place = if ends { &container } else { &spec };
            let others = |container: &Value| {
                let mut others = container.clone();
                others["resources"] = json!(null);
                others
            };
            if others(container.value) == others(before) {
                resized(&container.get("resources"), &before["resources"], place);
            } else {
                place.forbidden(ONLY);
            }
        }
    }
}

/// Checks that CPU and memory are not removed, and that nothing else changes.
fn resized(new: &Field<'_>, old: &Value, place: &Field<'_>) {
    let amounts = |resources: &Value, part: &str| {
        let amounts = pod_subresources::amounts(resources, part);
        amounts.cloned().unwrap_or_default()
    };
    let others = |mut amounts: Map<String, Value>| {
        amounts.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
        amounts
    };
    let mut same = new.value["claims"] == old["claims"];
    for part in ["requests", "limits"] {
        let (now, before) = (amounts(new.value, part), amounts(old, part));
        if before.keys().any(|name| !now.contains_key(name)) {
            new.get(part)
                .forbidden("requests and limits cannot be removed");
        }
        same &= others(now) == others(before);
    }
    if !same {
        place.forbidden(ONLY);
    }
}

/// Reports a single cause for the whole pod.
fn refuse(pod: &Field<'_>, detail: &str) {
    *pod.causes.borrow_mut() = vec![Cause::forbidden("[]", detail)];
}

/// Reports whether a pod mirrors a static pod.
fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][MIRROR].is_null()
}

/// Returns the items of a list, none if it is absent.
fn list(list: Option<&Value>) -> &[Value] {
    let items = list.and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}

/// Restores a field.
fn restore(value: &mut Value, old: &Value, field: &str) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    match old.get(field) {
        Some(before) => drop(map.insert(field.to_owned(), before.clone())),
        None => drop(map.remove(field)),
    }
}

/// Checks that a pod neither becomes nor ceases to be a mirror.
fn annotations(pod: &Field<'_>) {
    let annotations = pod.get("metadata.annotations");
    let before = annotations.old.unwrap_or(&Value::Null);
    if annotations.value[MIRROR] != before[MIRROR] {
        let mirror = annotations.entry(MIRROR, annotations.value);
        mirror.forbidden("may not change");
    }
}

/// Checks that a deadline is set or shortened. Returns false if further checks make no sense.
fn deadline(deadline: &Field<'_>) -> bool {
    let before = deadline.old.and_then(Value::as_i64);
    match (deadline.number(), before) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            Between(0, i64::from(i32::MAX)).apply(deadline);
            false
        }
        (Some(seconds), Some(before)) if before < seconds => {
            deadline.invalid("must be less than or equal to the previous value");
            false
        }
        (None, Some(_)) => {
            deadline.invalid("must not be removed");
            true
        }
        _ => true,
    }
}

/// Checks that tolerations are only added, or change their time.
fn tolerations(new: &Field<'_>) {
    let lasting = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration["tolerationSeconds"] = json!(null);
        toleration
    };
    let kept: Vec<Value> = new.each().map(|new| lasting(new.value)).collect();
    let mut before = list(new.old).iter();
    if before.any(|before| !kept.contains(&lasting(before))) {
        new.forbidden("only tolerationSeconds of existing tolerations may change");
    }
}

/// Checks that scheduling gates are only removed.
fn gates(new: &Field<'_>) {
    for name in new.each().map(|gate| gate.get("name")) {
        let mut known = list(new.old).iter();
        if !known.any(|gate| gate["name"] == *name.value) {
            name.forbidden("scheduling gates may only be removed");
        }
    }
}
