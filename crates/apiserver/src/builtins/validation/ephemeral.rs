//! Validation of ephemeral containers.

use super::container;
use super::field::Field;
use super::rules::Check::RequiredText;
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

/// Checks the ephemeral containers of a spec.
pub(super) fn containers(spec: &Field<'_>) {
    let others = spec.items("containers").chain(spec.items("initContainers"));
    let others: Vec<&str> = others.map(|other| other.text_of("name")).collect();
    let mut taken = others.clone();
    for container in spec.items("ephemeralContainers") {
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
            field.forbidden("cannot be set for an ephemeral container");
        }
    }
}
