//! Pods that get other resources on their node: whether the node can give so much at all.

use berth_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::error::{ApiError, Cause};
use crate::limits::Needs;
use crate::store::Key;
use crate::verbs::{Call, Subresource, text};

const SYSTEM: &str = "kubernetes.io/os";

/// Refuses to give a pod more than its node has. A pod without a node may find one that has it.
pub(crate) fn check(call: &Call, key: &Key, old: &Value, new: &Value) -> Result<(), ApiError> {
    let node = text(new, &["spec", "nodeName"]);
    if call.subresource != Some(Subresource::Resize)
        || node.is_empty()
        || old["spec"] == new["spec"]
    {
        return Ok(());
    }
    let refused = |why: &str| ApiError::forbidden("", "pods", &key.name, why);
    let Some(found) = call.shared.store.get("nodes", &Key::new("", node)) else {
        return Err(refused(&format!("node \"{node}\" not found")));
    };
    let found = found.value();
    let because = |why: &str, reason: &str| {
        let mut error = refused(why);
        error.causes = vec![Cause {
            field: String::new(),
            reason: reason.to_owned(),
            message: String::new(),
        }];
        Err(error)
    };
    if let Some(system) = found["metadata"]["labels"][SYSTEM]
        .as_str()
        .filter(|system| *system != "linux")
    {
        let why =
            format!("pod resize is only supported on linux nodes, node \"{node}\" is \"{system}\"");
        return because(&why, "UnsupportedPlatform");
    }
    let needs = Needs::of_pod(new).requests;
    let lacking: Vec<String> = [("cpu", 1000.0), ("memory", 1.0)]
        .into_iter()
        .filter_map(|(name, unit)| {
            let has = found["status"]["allocatable"][name].as_str();
            let has = has
                .and_then(|text| Quantity::parse(text).ok())
                .unwrap_or(Quantity::ZERO);
            let asked = needs.get(name).copied().filter(|asked| *asked > has)?;
            let count = |amount: Quantity| (amount.ratio(Quantity::from_integer(1)) * unit).ceil();
            let (asked, has) = (count(asked), count(has));
            Some(format!(
                "{name}, requested: {asked:.0}, allocatable: {has:.0}"
            ))
        })
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let why = format!(
        "node didn't have enough allocatable resources: {}",
        lacking.join("; ")
    );
    because(&why, "NodeCapacity")
}
