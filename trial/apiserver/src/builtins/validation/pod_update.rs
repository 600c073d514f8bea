//! Validation of updates of pods. Most fields of a pod's spec are immutable.

use serde_json::Value;

use super::field::Field;

/// Fields of a pod's spec that an update may change.
const FREE: [&str; 3] = ["activeDeadlineSeconds", "schedulingGates", "tolerations"];
/// Fields that an update may also change while a pod has scheduling gates.
const GATED: [&str; 2] = ["affinity", "nodeSelector"];

/// Checks a change of a pod. `pod::spec` validates the new spec.
pub(super) fn pod(pod: &Field<'_>) {
    let spec = pod.get("spec");
    let Some(old) = spec.old else { return };
    let gated = old["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty());
    let fixed = |spec: &Value| {
        let mut fixed = spec.clone();
        for list in ["containers", "initContainers"] {
            for container in fixed[list].as_array_mut().into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        if let Some(fields) = fixed.as_object_mut() {
            fields.retain(|name, value| {
                let name = name.as_str();
                let is_free = FREE.contains(&name) || gated && GATED.contains(&name);
                !value.is_null() && !is_free
            });
        }
        fixed
    };
    if fixed(spec.value) != fixed(old) {
        spec.forbidden("only images, activeDeadlineSeconds and tolerations may change");
    }
}

/// Checks a change of the ephemeral containers. Containers may be added, but existing containers must not change.
pub(super) fn ephemeral(pod: &Field<'_>) {
    let containers = pod.get("spec.ephemeralContainers");
    let before = containers.old.and_then(Value::as_array);
    for before in before.into_iter().flatten() {
        if !containers.each().any(|now| now.value == before) {
            let name = &before["name"];
            containers.forbidden(&format!("ephemeral container {name} may not be changed"));
        }
    }
}
