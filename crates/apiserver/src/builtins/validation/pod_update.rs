//! Validation of changes of pods.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::field::Field;
use super::placement;
use crate::error::Cause;

/// Fields that may change.
const FIELDS: &str = "images, activeDeadlineSeconds and tolerations";
/// The annotation of a static pod's mirror.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The prefix of annotations that named AppArmor profiles before the field existed.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Checks a change of a pod. The new pod itself is validated elsewhere.
pub(super) fn pod(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    annotations(value, old, causes);
    let (new, old) = (&value["spec"], &old["spec"]);
    let spec = Field::new(new, "spec");
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.count() != old[list].as_array().map_or(0, Vec::len) {
            let detail = "pod updates may not add or remove containers";
            containers.forbidden(detail, causes);
            return;
        }
        for container in containers.each() {
            image(&container.field("image"), causes);
        }
    }
    if !deadline(&spec.field("activeDeadlineSeconds"), old, causes) {
        return;
    }
    tolerations(&spec.field("tolerations"), &old["tolerations"], causes);
    gates(&spec.field("schedulingGates"), old, causes);
    if new == old {
        return;
    }
    let mut rest = new.clone();
    for list in ["containers", "initContainers"] {
        let before = old[list].as_array().into_iter().flatten();
        let after = rest.get_mut(list).and_then(Value::as_array_mut);
        for (container, before) in after.into_iter().flatten().zip(before) {
            restore(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut rest, old, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|before| before < 0) && rest[grace] == 1 {
        restore(&mut rest, old, grace);
    }
    if old["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        node_selection(&spec, old, &mut rest, causes);
    }
    if rest != *old {
        spec.forbidden(&format!("only {FIELDS} may change"), causes);
    }
}

/// Reports whether a pod mirrors a static pod.
pub(super) fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][MIRROR].is_null()
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

pub(super) fn annotations(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let none = Map::new();
    let of = |pod: &Value| pod["metadata"]["annotations"].as_object().cloned();
    let (new, old) = (of(value), of(old));
    let (new, old) = (new.as_ref().unwrap_or(&none), old.as_ref().unwrap_or(&none));
    let mut refuse = |key: &str, done: &str| {
        let what = match key {
            MIRROR => "mirror pod annotation",
            key if key.starts_with(APP_ARMOR) => "AppArmor annotations",
            _ => return,
        };
        let path = format!("metadata.annotations[{key}]");
        causes.push(Cause::forbidden(path, &format!("may not {done} {what}")));
    };
    for (key, text) in old {
        if new.get(key) != Some(text) {
            refuse(key, "remove or update");
        }
    }
    for key in new.keys().filter(|key| !old.contains_key(*key)) {
        refuse(key, "add");
    }
}

fn image(image: &Field<'_>, causes: &mut Vec<Cause>) {
    image.not_empty(causes);
    if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace", causes);
    }
}

/// Checks that a deadline is set or shortened. Returns false if further checks make no sense.
fn deadline(deadline: &Field<'_>, old: &Value, causes: &mut Vec<Cause>) -> bool {
    let before = old["activeDeadlineSeconds"].as_i64();
    let most = i64::from(i32::MAX);
    match (deadline.number(), before) {
        (Some(seconds), _) if !(0..=most).contains(&seconds) => {
            let detail = format!("must be between 0 and {most}, inclusive");
            deadline.invalid(&detail, causes);
            false
        }
        (Some(seconds), Some(before)) if before < seconds => {
            deadline.invalid("must be less than or equal to previous value", causes);
            false
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            deadline.invalid(detail, causes);
            true
        }
        _ => true,
    }
}

/// Checks that tolerations are only added, or change their time.
fn tolerations(new: &Field<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let lasting = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: Vec<Value> = Field::new(new.value, "")
        .each()
        .map(|toleration| lasting(toleration.value))
        .collect();
    let before = old.as_array().into_iter().flatten();
    if before.map(lasting).any(|before| !kept.contains(&before)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        new.forbidden(detail, causes);
        return;
    }
    for toleration in Field::new(new.value, new.path.as_str()).each() {
        placement::toleration(&toleration, causes);
    }
}

/// Checks that scheduling gates are only removed.
fn gates(new: &Field<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let known = old["schedulingGates"].as_array().into_iter().flatten();
    let known: HashSet<&str> = known.filter_map(|gate| gate["name"].as_str()).collect();
    for gate in Field::new(new.value, new.path.as_str()).each() {
        let name = gate.field("name");
        if !known.contains(name.text()) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            name.forbidden(&detail, causes);
        }
    }
}

/// Checks that a gated pod only narrows its node selection.
fn node_selection(spec: &Field<'_>, old: &Value, rest: &mut Value, causes: &mut Vec<Cause>) {
    let selector = spec.field("nodeSelector");
    let mut before = old["nodeSelector"].as_object().into_iter().flatten();
    if before.any(|(key, label)| selector.value[key.as_str()] != *label) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        selector.invalid(detail, causes);
    }
    restore(rest, old, "nodeSelector");

    let (affinity, before) = (
        spec.field("affinity").field("nodeAffinity"),
        &old["affinity"],
    );
    if *affinity.value == before["nodeAffinity"] {
        return;
    }
    terms(&affinity, &before["nodeAffinity"], causes);
    let only = rest["affinity"]
        .as_object()
        .is_none_or(|all| all.keys().all(|k| k == "nodeAffinity"));
    if before.is_null() && only {
        restore(rest, old, "affinity");
        return;
    }
    if rest["affinity"].is_null() {
        rest["affinity"] = json!({});
    }
    restore(&mut rest["affinity"], before, "nodeAffinity");
}

/// Checks that required node selector terms are only extended.
fn terms(affinity: &Field<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let terms = affinity.field(REQUIRED).field("nodeSelectorTerms");
    let Some(before) = old[REQUIRED]["nodeSelectorTerms"].as_array() else {
        return;
    };
    if before.len() != terms.count() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        terms.invalid(detail, causes);
        return;
    }
    for (term, before) in terms.each().zip(before) {
        let size = |term: &Value, list: &str| term[list].as_array().map_or(0, Vec::len);
        let lists = ["matchExpressions", "matchFields"];
        let was_empty = lists.iter().all(|list| size(before, list) == 0);
        let keeps = lists.iter().all(|list| {
            let first = before[*list].as_array().map_or(&[][..], Vec::as_slice);
            let now = term.value[*list].as_array().map_or(&[][..], Vec::as_slice);
            now.starts_with(first) && (!was_empty || now.is_empty())
        });
        if !keeps {
            let detail = "only additions are allowed (no mutations or deletions)";
            term.invalid(detail, causes);
        }
    }
}
