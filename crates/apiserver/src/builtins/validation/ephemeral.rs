//! Validation of ephemeral containers.

use super::field::Field;
use super::rules::Check::RequiredText;
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
const WHY: &str = "cannot be set for an ephemeral container";
const LIST: &str = "ephemeralContainers";

/// Checks the ephemeral containers of a spec.
pub(super) fn containers(spec: &Field<'_>) {
    let others = spec.items("containers").chain(spec.items("initContainers"));
    let others: Vec<&str> = others.map(|other| other.text_of("name")).collect();
    let mut taken = others.clone();
    for container in spec.items(LIST) {
        let (name, target) = (container.get("name"), container.get("targetContainerName"));
        RequiredText(names::dns_label).apply(&name);
        if taken.contains(&name.text()) {
            name.duplicate();
        }
        taken.push(name.text());
        container::common(&container, spec);
        if !target.is_empty() && !others.contains(&target.text()) {
            target.report(Cause::not_found(target.path.as_str(), target.value));
        }
        let forbidden = FORBIDDEN.iter().map(|field| container.get(field));
        let mounts = container.items("volumeMounts");
        let paths = mounts.flat_map(|mount| [mount.get("subPath"), mount.get("subPathExpr")]);
        for field in forbidden.chain(paths).filter(|field| !field.is_empty()) {
            field.forbidden(WHY);
        }
    }
}

/// Checks an update: containers may be added, not changed.
pub(super) fn update(pod: &Field<'_>) {
    if pod.old.is_some_and(pod_update::is_mirror) {
        let detail = "static pods do not support ephemeral containers";
        *pod.causes.borrow_mut() = vec![Cause::forbidden("[]", detail)];
        return;
    }
    pod_update::annotations(pod);
    let containers = pod.get("spec.ephemeralContainers");
    let before = containers.old.and_then(|old| old.as_array());
    for before in before.into_iter().flatten() {
        let same_name = containers
            .each()
            .filter(|now| now.value["name"] == before["name"]);
        if same_name.last().is_none_or(|now| now.value != before) {
            let name = &before["name"];
            containers.forbidden(&format!("ephemeral container {name} may not be changed"));
        }
    }
}
