//! Validation of ephemeral containers.

use std::collections::HashSet;

use serde_json::Value;

use super::field::Field;
use super::{container, pod_update};
use crate::error::Cause;
use crate::names;

/// Fields that an ephemeral container cannot have.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const WHY: &str = "cannot be set for an Ephemeral Container";

/// Checks the ephemeral containers of a spec.
pub(super) fn containers(spec: &Field<'_>, volumes: &HashSet<&str>, causes: &mut Vec<Cause>) {
    let lists = ["containers", "initContainers"];
    let others = lists.iter().flat_map(|list| spec.items(list));
    let others: Vec<&str> = others.map(|other| other.field("name").text()).collect();
    let mut taken = others.clone();
    for container in spec.items("ephemeralContainers") {
        let name = container.field("name");
        name.named(names::dns_label, causes);
        container::common(&container, spec, volumes, causes);
        if taken.contains(&name.text()) {
            name.duplicate(causes);
        }
        taken.push(name.text());
        let target = container.field("targetContainerName");
        if !target.text().is_empty() && !others.contains(&target.text()) {
            causes.push(Cause::not_found(target.path.as_str(), target.value));
        }
        for field in FORBIDDEN {
            let field = container.field(field);
            let empty = field
                .value
                .as_object()
                .is_some_and(serde_json::Map::is_empty)
                || field.value.as_array().is_some_and(Vec::is_empty);
            if field.is_set() && !empty {
                field.forbidden(WHY, causes);
            }
        }
        for mount in container.items("volumeMounts") {
            for field in ["subPath", "subPathExpr"] {
                let path = mount.field(field);
                if !path.text().is_empty() {
                    path.forbidden(WHY, causes);
                }
            }
        }
    }
}

/// Checks an update: containers may be added, not changed.
pub(super) fn update(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    if pod_update::is_mirror(old) {
        let detail = "static pods do not support ephemeral containers";
        *causes = vec![Cause::forbidden("[]", detail)];
        return;
    }
    pod_update::annotations(value, old, causes);
    let list = "ephemeralContainers";
    let now = value["spec"][list]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for before in old["spec"][list].as_array().into_iter().flatten() {
        let name = &before["name"];
        let detail = match now.iter().rev().find(|now| now["name"] == *name) {
            Some(now) if now == before => continue,
            Some(_) => format!("ephemeral container {name} may not be changed"),
            None => format!("ephemeral container {name} may not be removed"),
        };
        causes.push(Cause::forbidden(format!("spec.{list}"), &detail));
    }
}
