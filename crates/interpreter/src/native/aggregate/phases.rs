//! Aggregation of kinds with a phase. The worst phase of the members becomes the phase of the template. For a
//! PersistentVolumeClaim without a lost claim, the last phase other than `Bound` becomes the phase of the template.

use std::collections::BTreeSet;

use berth_api::binding::AggregatedStatusItem;
use serde_json::{Map, Value, json};

use super::{containers, reports};

/// Returns the phase and the container states of a Pod, or `None` if there are no items.
pub(super) fn pod(template: &Value, items: &[AggregatedStatusItem]) -> Option<Value> {
    if items.is_empty() {
        return None;
    }
    let mut status = Map::new();
    for (list, specs) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ] {
        let statuses = containers::statuses(template, items, list, specs);
        if !statuses.is_empty() {
            status.insert(list.to_owned(), Value::Array(statuses));
        }
    }
    // The API server sets this field, and refuses changes.
    if let Some(class) = template.pointer("/status/qosClass") {
        status.insert("qosClass".to_owned(), class.clone());
    }
    if let Some(phase) = worst(items, &["Failed", "Pending", "Running", "Succeeded"]) {
        status.insert("phase".to_owned(), json!(phase));
    }
    Some(Value::Object(status))
}

/// Returns the phase of a PersistentVolume.
pub(super) fn volume(items: &[AggregatedStatusItem]) -> Value {
    let order = ["Failed", "Pending", "Available", "Bound", "Released"];
    worst(items, &order).map_or_else(|| json!({}), |phase| json!({ "phase": phase }))
}

/// Returns the phase of a PersistentVolumeClaim: `Lost` if any member reports `Lost`, otherwise the last reported phase
/// other than `Bound`. Returns `Bound` if there is no such phase.
pub(super) fn claim(items: &[AggregatedStatusItem]) -> Value {
    let phases = reports(items).filter_map(|(_, report)| report.get("phase")?.as_str());
    let mut result = "Bound";
    for phase in phases {
        match phase {
            "Lost" => return json!({ "phase": "Lost" }),
            "Bound" => {}
            other => result = other,
        }
    }
    json!({ "phase": result })
}

/// Returns the first phase in `order` that any member reports. A member without a report counts as `Pending`.
fn worst(items: &[AggregatedStatusItem], order: &[&'static str]) -> Option<&'static str> {
    let phases: BTreeSet<&str> = items
        .iter()
        .map(|item| match &item.status {
            None => "Pending",
            Some(status) => status.get("phase").and_then(Value::as_str).unwrap_or(""),
        })
        .collect();
    order.iter().copied().find(|phase| phases.contains(phase))
}
