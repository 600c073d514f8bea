//! Defaults of horizontal pod autoscalers.

use serde_json::{Value, json};

use super::{fill, fill_at};
use crate::resource::Resource;

/// Sets the defaults of an autoscaler.
pub(super) fn default(resource: &Resource, value: &mut Value) {
    fill_at(value, "/spec", json!({"minReplicas": 1}));
    if resource.version == "v1" {
        // `autoscaling/v1` has a field for the CPU metric only. An annotation contains the other metrics.
        let annotation = "autoscaling.alpha.kubernetes.io/metrics";
        if value["metadata"]["annotations"].get(annotation).is_none() {
            fill_at(
                value,
                "/spec",
                json!({"targetCPUUtilizationPercentage": 80}),
            );
        }
        return;
    }
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    fill_at(value, "/spec", json!({"metrics": [cpu]}));
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(behavior) = value.pointer_mut("/spec/behavior") {
        fill(
            behavior,
            json!({
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]},
                "scaleDown": {"selectPolicy": "Max", "policies": [percent]},
            }),
        );
    }
}
