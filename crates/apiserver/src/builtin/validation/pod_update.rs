//! What of a pod may be changed after its creation.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::place::Place;
use super::{go_form, placement};
use crate::error::Cause;

/// What may change, in the words of a refusal.
const FIELDS: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
    set to 1 if it was previously negative)";
/// The annotation of a pod that a kubelet has from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// What annotations begin with that were once the way to name a profile.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Refuses a change of a pod that may not be. What is wrong with the new pod as such is said elsewhere.
pub(super) fn pod(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    annotations(value, old, causes);
    let (new, old) = (&value["spec"], &old["spec"]);
    let spec = Place::new(new, "spec");
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.count() != old[list].as_array().map_or(0, Vec::len) {
            let why = "pod updates may not add or remove containers";
            containers.forbidden(why, causes);
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
            take_back(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        take_back(&mut rest, old, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|before| before < 0) && rest[grace] == 1 {
        take_back(&mut rest, old, grace);
    }
    if old["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        placing(&spec, old, &mut rest, causes);
    }
    if rest != *old {
        let differences = go_form::pods(old, &rest);
        let why = format!("pod updates may not change fields other than {FIELDS}\n{differences}");
        spec.forbidden(&why, causes);
    }
}

/// Whether a pod is the image of one that a kubelet has from a file.
pub(super) fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][MIRROR].is_null()
}

/// Makes a field what it was.
fn take_back(value: &mut Value, old: &Value, field: &str) {
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

fn image(image: &Place<'_>, causes: &mut Vec<Cause>) {
    image.not_empty(causes);
    if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace", causes);
    }
}

/// It may be set, and become shorter. Returns whether it makes sense to look on.
fn deadline(deadline: &Place<'_>, old: &Value, causes: &mut Vec<Cause>) -> bool {
    let before = old["activeDeadlineSeconds"].as_i64();
    let most = i64::from(i32::MAX);
    match (deadline.number(), before) {
        (Some(seconds), _) if !(0..=most).contains(&seconds) => {
            let why = format!("must be between 0 and {most}, inclusive");
            deadline.invalid(&why, causes);
            false
        }
        (Some(seconds), Some(before)) if before < seconds => {
            deadline.invalid("must be less than or equal to previous value", causes);
            false
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            deadline.invalid_go("null", why, causes);
            true
        }
        _ => true,
    }
}

/// They may become more, and last longer or shorter.
fn tolerations(new: &Place<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let lasting = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: Vec<Value> = Place::new(new.value, "")
        .each()
        .map(|toleration| lasting(toleration.value))
        .collect();
    let before = old.as_array().into_iter().flatten();
    if before.map(lasting).any(|before| !kept.contains(&before)) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        new.forbidden(why, causes);
        return;
    }
    for toleration in Place::new(new.value, new.path.as_str()).each() {
        placement::toleration(&toleration, causes);
    }
}

/// They may become fewer.
fn gates(new: &Place<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let known = old["schedulingGates"].as_array().into_iter().flatten();
    let known: HashSet<&str> = known.filter_map(|gate| gate["name"].as_str()).collect();
    for gate in Place::new(new.value, new.path.as_str()).each() {
        let name = gate.field("name");
        if !known.contains(name.text()) {
            let why = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            name.forbidden(&why, causes);
        }
    }
}

/// As long as gates hold a pod, it may become more particular about its node.
fn placing(spec: &Place<'_>, old: &Value, rest: &mut Value, causes: &mut Vec<Cause>) {
    let selector = spec.field("nodeSelector");
    let mut before = old["nodeSelector"].as_object().into_iter().flatten();
    if before.any(|(key, label)| selector.value[key.as_str()] != *label) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        selector.invalid_go(&selector.value.to_string(), why, causes);
    }
    take_back(rest, old, "nodeSelector");

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
        take_back(rest, old, "affinity");
        return;
    }
    if rest["affinity"].is_null() {
        rest["affinity"] = json!({});
    }
    take_back(&mut rest["affinity"], before, "nodeAffinity");
}

/// What a pod requires of its node may become more.
fn terms(affinity: &Place<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let terms = affinity.field(REQUIRED).field("nodeSelectorTerms");
    let Some(before) = old[REQUIRED]["nodeSelectorTerms"].as_array() else {
        return;
    };
    if before.len() != terms.count() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = go_form::in_one_line("NodeSelectorTerm", terms.value);
        terms.invalid_go(&shown, why, causes);
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
            let why = "only additions are allowed (no mutations or deletions)";
            let shown = go_form::in_one_line("NodeSelectorTerm", term.value);
            term.invalid_go(&shown, why, causes);
        }
    }
}
