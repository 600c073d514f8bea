//! The check of pod resizes: the requests of a pod must fit into the allocatable resources of its node.

use berth_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::builtins::pod_resources::PodResources;
use crate::error::{ApiError, Cause};
use crate::resource::Subresource;
use crate::store::Key;
use crate::table_names;
use crate::verbs::{Call, text};

const OS_LABEL: &str = "kubernetes.io/os";

/// Refuses to resize a pod beyond the allocatable resources of its node, or on a node that does not run Linux. A pod
/// without a node passes this check.
pub(super) fn check(call: &Call, key: &Key, old: &Value, new: &Value) -> Result<(), ApiError> {
    let node = text(new, &["spec", "nodeName"]);
    if call.subresource != Some(Subresource::Resize)
        || node.is_empty()
        || old["spec"] == new["spec"]
    {
        return Ok(());
    }
    let refused = |detail: &str| ApiError::forbidden("", "pods", &key.name, detail);
    let Some(stored) = call
        .shared
        .store
        .get(table_names::NODES, &Key::new("", node))
    else {
        return Err(refused(&format!("node \"{node}\" not found")));
    };
    let stored = stored.value();
    let because = |detail: &str, reason: &str| {
        let mut error = refused(detail);
        error.causes = vec![Cause {
            field: String::new(),
            reason: reason.to_owned(),
            message: String::new(),
        }];
        Err(error)
    };
    if let Some(os) = stored["metadata"]["labels"][OS_LABEL]
        .as_str()
        .filter(|os| *os != "linux")
    {
        let detail =
            format!("pod resize is only supported on linux nodes, node \"{node}\" is \"{os}\"");
        return because(&detail, "UnsupportedPlatform");
    }
    let requests = PodResources::of_pod(new).requests;
    let missing: Vec<String> = [("cpu", 1000.0), ("memory", 1.0)]
        .into_iter()
        .filter_map(|(name, unit)| {
            let allocatable = stored["status"]["allocatable"][name].as_str();
            let allocatable = allocatable
                .and_then(|text| Quantity::parse(text).ok())
                .unwrap_or(Quantity::ZERO);
            let requested = requests
                .get(name)
                .copied()
                .filter(|requested| *requested > allocatable)?;
            let count = |amount: Quantity| (amount.ratio(Quantity::from_integer(1)) * unit).ceil();
            let (requested, allocatable) = (count(requested), count(allocatable));
            Some(format!(
                "{name}, requested: {requested:.0}, allocatable: {allocatable:.0}"
            ))
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let detail = format!(
        "node didn't have enough allocatable resources: {}",
        missing.join("; ")
    );
    because(&detail, "NodeCapacity")
}
