//! Autoscalers as `autoscaling/v1` sees them. They are stored as `autoscaling/v2`; what the older version has no
//! fields for is kept in annotations, so that nothing is lost on the way there and back.

use serde_json::{Value, json};

/// Metrics other than the utilisation of CPU.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// The average utilisation of CPU that a metric is about.
fn utilization<'a>(metric: &'a Value, figure: &str) -> Option<&'a Value> {
    let of_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let found = metric["resource"][figure].get("averageUtilization")?;
    (of_cpu && !found.is_null()).then_some(found)
}

fn note(meta: &mut Value, name: &str, value: &Value) {
    let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !empty {
        if !meta["annotations"].is_object() {
            meta["annotations"] = json!({});
        }
        meta["annotations"][name] = json!(value.to_string());
    }
}

fn noted(meta: &mut Value, name: &str) -> Option<Value> {
    let annotations = meta.get_mut("annotations")?.as_object_mut()?;
    let value = annotations.remove(name)?;
    let empty = annotations.is_empty();
    if empty && let Some(meta) = meta.as_object_mut() {
        meta.remove("annotations");
    }
    serde_json::from_str(value.as_str()?).ok()
}

fn noted_list(meta: &mut Value, name: &str) -> Vec<Value> {
    match noted(meta, name) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// Takes the one metric that `autoscaling/v1` knows out of a list, and notes the others.
fn split(meta: &mut Value, list: &Value, figure: &str, name: &str) -> Option<Value> {
    let mut list = list.as_array()?.clone();
    let place = list.iter().position(|m| utilization(m, figure).is_some());
    let metric = place.map(|place| list.remove(place));
    note(meta, name, &Value::Array(list));
    utilization(&metric?, figure).cloned()
}

/// A stored autoscaler in `autoscaling/v1`.
pub(super) fn old(mut value: Value) -> Value {
    value["apiVersion"] = json!("autoscaling/v1");
    let mut meta = value["metadata"].take();
    if let Some(spec) = value["spec"].as_object_mut() {
        let metrics = spec.remove("metrics").unwrap_or_default();
        if let Some(target) = split(&mut meta, &metrics, "target", METRICS) {
            spec.insert("targetCPUUtilizationPercentage".into(), target);
        }
        let behavior = spec.remove("behavior").unwrap_or_default();
        note(&mut meta, BEHAVIOR, &behavior);
    }
    let mut shown = json!({"currentReplicas": 0, "desiredReplicas": 0});
    for (name, field) in value["status"].as_object().into_iter().flatten() {
        match name.as_str() {
            "conditions" => note(&mut meta, CONDITIONS, field),
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

/// An autoscaler of `autoscaling/v1` as it is stored.
pub(super) fn new(mut value: Value) -> Value {
    value["apiVersion"] = json!("autoscaling/v2");
    let mut meta = value["metadata"].take();
    if let Some(spec) = value["spec"].as_object_mut() {
        let mut metrics = noted_list(&mut meta, METRICS);
        if let Some(target) = spec.remove("targetCPUUtilizationPercentage") {
            let target = json!({"type": "Utilization", "averageUtilization": target});
            let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
            metrics.insert(0, cpu);
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), Value::Array(metrics));
        }
        if let Some(behavior) = noted(&mut meta, BEHAVIOR) {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = value["status"].as_object_mut() {
        let mut current = noted_list(&mut meta, CURRENT);
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
        if let Some(conditions) = noted(&mut meta, CONDITIONS) {
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
    fn nothing_is_lost_on_the_way() {
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
        let shown = old(stored.clone());
        assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(shown["spec"].get("metrics"), None);
        assert_eq!(shown["metadata"]["annotations"]["mine"], "x");
        assert_eq!(new(shown), stored);
    }
}
