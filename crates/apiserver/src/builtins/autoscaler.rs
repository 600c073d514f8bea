//! Defaults of horizontal pod autoscalers.

use serde_json::{Value, json};

use super::set;

pub(super) fn autoscaler(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "minReplicas", json!(1));
    set(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    if let Some(behavior) = spec.get_mut("behavior").filter(|b| b.is_object()) {
        set(behavior, "scaleUp", json!({}));
        set(behavior, "scaleDown", json!({}));
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let up = &mut behavior["scaleUp"];
        set(up, "stabilizationWindowSeconds", json!(0));
        set(up, "selectPolicy", json!("Max"));
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        set(up, "policies", json!([pods, percent]));
        let down = &mut behavior["scaleDown"];
        set(down, "selectPolicy", json!("Max"));
        set(down, "policies", json!([percent]));
    }
}

/// Sets the defaults of `autoscaling/v1`, which knows only the CPU metric.
pub(super) fn v1(value: &mut Value) {
    let annotation = "autoscaling.alpha.kubernetes.io/metrics";
    let others = value["metadata"]["annotations"].get(annotation).is_some();
    let spec = &mut value["spec"];
    set(spec, "minReplicas", json!(1));
    if !others {
        set(spec, "targetCPUUtilizationPercentage", json!(80));
    }
}
