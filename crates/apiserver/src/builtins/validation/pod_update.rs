//! Validation of changes of pods.

use serde_json::{Map, Value, json};

use super::field::Field;
use super::rules::Check::Between;

/// The annotation of a static pod's mirror.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The prefix of annotations that named AppArmor profiles before the field existed.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// Fields whose changes have rules of their own.
const CHECKED: [&str; 3] = ["activeDeadlineSeconds", "schedulingGates", "tolerations"];

/// Checks a change of a pod. The new pod itself is validated elsewhere.
pub(super) fn pod(pod: &Field<'_>) {
    annotations(pod);
    let spec = pod.get("spec");
    let Some(old) = spec.old else { return };
    for list in ["containers", "initContainers"] {
        let containers = spec.get(list);
        if containers.count() != len(&old[list]) {
            return containers.forbidden("pod updates may not add or remove containers");
        }
    }
    if !deadline(&spec.get("activeDeadlineSeconds")) {
        return;
    }
    tolerations(&spec.get("tolerations"));
    gates(&spec.get("schedulingGates"));
    let mut rest = spec.value.clone();
    for list in ["containers", "initContainers"] {
        let before = old[list].as_array().into_iter().flatten();
        let after = rest.get_mut(list).and_then(Value::as_array_mut);
        for (container, before) in after.into_iter().flatten().zip(before) {
            restore(container, before, "image");
        }
    }
    for field in CHECKED {
        restore(&mut rest, old, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|before| before < 0) && rest[grace] == 1 {
        restore(&mut rest, old, grace);
    }
    if len(&old["schedulingGates"]) > 0 {
        node_selection(&spec, old, &mut rest);
    }
    if rest != *old {
        spec.forbidden("only images, activeDeadlineSeconds and tolerations may change");
    }
}

/// Reports whether a pod mirrors a static pod.
pub(super) fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][MIRROR].is_null()
}

fn len(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
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

/// Checks that annotations with a meaning for running pods stay.
pub(super) fn annotations(pod: &Field<'_>) {
    let annotations = pod.get("metadata.annotations");
    let none = Map::new();
    let new = annotations.value.as_object().unwrap_or(&none);
    let old = annotations.old.and_then(Value::as_object).unwrap_or(&none);
    for key in new.keys().chain(old.keys()) {
        if (key == MIRROR || key.starts_with(APP_ARMOR)) && new.get(key) != old.get(key) {
            annotations
                .entry(key, annotations.value)
                .forbidden("may not change");
        }
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
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: Vec<Value> = new
        .each()
        .map(|toleration| lasting(toleration.value))
        .collect();
    let mut before = new.old.and_then(Value::as_array).into_iter().flatten();
    if before.any(|before| !kept.contains(&lasting(before))) {
        new.forbidden("only tolerationSeconds of existing tolerations may change");
    }
}

/// Checks that scheduling gates are only removed.
fn gates(new: &Field<'_>) {
    let known = new.old.and_then(Value::as_array);
    for name in new.each().map(|gate| gate.get("name")) {
        let mut known = known.into_iter().flatten();
        if !known.any(|gate| gate["name"].as_str() == Some(name.text())) {
            name.forbidden("scheduling gates may only be removed");
        }
    }
}

/// Checks that a gated pod only narrows its node selection.
fn node_selection(spec: &Field<'_>, old: &Value, rest: &mut Value) {
    let selector = spec.get("nodeSelector");
    let mut before = old["nodeSelector"].as_object().into_iter().flatten();
    if before.any(|(key, label)| selector.value[key.as_str()] != *label) {
        selector.invalid("labels may only be added");
    }
    restore(rest, old, "nodeSelector");
    let (affinity, before) = (spec.get("affinity.nodeAffinity"), &old["affinity"]);
    if *affinity.value == before["nodeAffinity"] {
        return;
    }
    terms(&affinity.get(REQUIRED).get("nodeSelectorTerms"));
    let only = rest["affinity"]
        .as_object()
        .is_none_or(|all| all.keys().all(|k| k == "nodeAffinity"));
    if before.is_null() && only {
        return restore(rest, old, "affinity");
    }
    if rest["affinity"].is_null() {
        rest["affinity"] = json!({});
    }
    restore(&mut rest["affinity"], before, "nodeAffinity");
}

/// Checks that required node selector terms are only extended.
fn terms(terms: &Field<'_>) {
    let Some(before) = terms.old.and_then(Value::as_array) else {
        return;
    };
    if before.len() != terms.count() {
        return terms.invalid("terms may not be added or removed");
    }
    let list = |term: &Value, list: &str| term[list].as_array().cloned().unwrap_or_default();
    for (term, before) in terms.each().zip(before) {
        let lists = ["matchExpressions", "matchFields"];
        let was_empty = lists.iter().all(|name| list(before, name).is_empty());
        let keeps = lists.iter().all(|name| {
            let now = list(term.value, name);
            now.starts_with(&list(before, name)) && (!was_empty || now.is_empty())
        });
        if !keeps {
            term.invalid("requirements may only be added");
        }
    }
}
