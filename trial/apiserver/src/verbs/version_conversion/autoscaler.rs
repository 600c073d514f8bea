//! Conversion of HorizontalPodAutoscalers between the stored version `autoscaling/v2` and `autoscaling/v1`. Annotations
//! of the `autoscaling/v1` object contain the fields that exist only in `autoscaling/v2`.

use serde_json::{Value, json};

/// Annotation that contains all metrics of the spec except the CPU utilization.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// Returns the average utilization in the field `figure` of a CPU metric. Returns `None` for any other metric.
fn utilization<'a>(metric: &'a Value, figure: &str) -> Option<&'a Value> {
    let of_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let found = metric["resource"][figure].get("averageUtilization")?;
    (of_cpu && !found.is_null()).then_some(found)
}

fn annotate(meta: &mut Value, name: &str, value: &Value) {
    let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !empty {
        if !meta["annotations"].is_object() {
            meta["annotations"] = json!({});
        }
        meta["annotations"][name] = json!(value.to_string());
    }
}

/// Removes an annotation, and parses its value as JSON.
fn take_annotation(meta: &mut Value, name: &str) -> Option<Value> {
    let annotations = meta.get_mut("annotations")?.as_object_mut()?;
    let value = annotations.remove(name)?;
    let empty = annotations.is_empty();
    if empty && let Some(meta) = meta.as_object_mut() {
        meta.remove("annotations");
    }
    serde_json::from_str(value.as_str()?).ok()
}

fn take_list(meta: &mut Value, name: &str) -> Vec<Value> {
    match take_annotation(meta, name) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// Returns the CPU utilization in a list of metrics, and stores the other metrics in the annotation `name`.
fn split(meta: &mut Value, list: &Value, figure: &str, name: &str) -> Option<Value> {
    let mut list = list.as_array()?.clone();
    let position = list.iter().position(|m| utilization(m, figure).is_some());
    let metric = position.map(|position| list.remove(position));
    annotate(meta, name, &Value::Array(list));
    utilization(&metric?, figure).cloned()
}

/// Converts a stored autoscaler to `autoscaling/v1`.
pub(super) fn to_v1(mut value: Value) -> Value {
    value["apiVersion"] = json!("autoscaling/v1");
    let mut meta = value["metadata"].take();
    if let Some(spec) = value["spec"].as_object_mut() {
        let metrics = spec.remove("metrics").unwrap_or_default();
        if let Some(target) = split(&mut meta, &metrics, "target", METRICS) {
            spec.insert("targetCPUUtilizationPercentage".into(), target);
        }
        let behavior = spec.remove("behavior").unwrap_or_default();
        annotate(&mut meta, BEHAVIOR, &behavior);
    }
    let mut shown = json!({"currentReplicas": 0, "desiredReplicas": 0});
    for (name, field) in value["status"].as_object().into_iter().flatten() {
        match name.as_str() {
            "conditions" => annotate(&mut meta, CONDITIONS, field),
            "currentMetrics" => {
                if let Some(now) = split(&mut meta, field, "current", CURRENT) {
                    shown["currentCPUUtilizationPercentage"] = now;
                }
            }
            _ => shown[name.as_str()] = field.clone(),
        }
    }
    value["metadata"] = meta;
    value["status"] = shown;
    value
}

/// Converts an autoscaler of `autoscaling/v1` to the stored version.
pub(super) fn to_v2(mut value: Value) -> Value {
    value["apiVersion"] = json!("autoscaling/v2");
    let mut meta = value["metadata"].take();
    if let Some(spec) = value["spec"].as_object_mut() {
        let mut metrics = take_list(&mut meta, METRICS);
        if let Some(target) = spec.remove("targetCPUUtilizationPercentage") {
            let target = json!({"type": "Utilization", "averageUtilization": target});
            let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
            metrics.insert(0, cpu);
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), Value::Array(metrics));
        }
        if let Some(behavior) = take_annotation(&mut meta, BEHAVIOR) {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = value["status"].as_object_mut() {
        let mut current = take_list(&mut meta, CURRENT);
        if let Some(now) = status.remove("currentCPUUtilizationPercentage") {
            let now = json!({"averageUtilization": now});
            let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "current": now}});
            current.insert(0, cpu);
        }
        let current = if current.is_empty() {
            Value::Null
        } else {
            Value::Array(current)
        };
        status.insert("currentMetrics".into(), current);
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.remove("currentReplicas");
        }
        if let Some(conditions) = take_annotation(&mut meta, CONDITIONS) {
            status.insert("conditions".into(), conditions);
        }
    }
    value["metadata"] = meta;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_keeps_all_fields() {
        let stored = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "annotations": {"mine": "x"}},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Max"}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Resource", "resource": {"name": "memory",
                    "target": {"type": "AverageValue", "averageValue": "1Gi"}}}]},
            "status": {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": null,
                "conditions": [{"type": "AbleToScale", "status": "True"}]}});
        let shown = to_v1(stored.clone());
        assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(shown["spec"].get("metrics"), None);
        assert_eq!(shown["metadata"]["annotations"]["mine"], "x");
        assert_eq!(to_v2(shown), stored);
    }
}
