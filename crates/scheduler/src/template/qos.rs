//! The Kubernetes QoS class of a template's pods.

use berth_api::quantity::Quantity;
use serde_json::Value;

/// QoS class of a pod. The plugin GroupQueueSort orders bindings with a greater class first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    /// No container has requests or limits for CPU or memory.
    #[default]
    BestEffort,
    /// At least one container has requests or limits for CPU or memory, but the class is not [`QosClass::Guaranteed`].
    Burstable,
    /// Every container has CPU and memory limits, and no request differs from its limit.
    Guaranteed,
}

impl QosClass {
    /// Returns the class of the pod template in an object, or of the object itself if it is a pod. The class of an
    /// object without pods is [`Self::BestEffort`].
    pub fn of_template(object: &Value) -> Self {
        [
            "/spec/jobTemplate/spec/template/spec",
            "/spec/template/spec",
            "/spec",
        ]
        .into_iter()
        .filter_map(|path| object.pointer(path))
        .find(|spec| spec.get("containers").is_some())
        .map_or_else(Self::default, Self::of_pod)
    }

    fn of_pod(spec: &Value) -> Self {
        let containers = ["containers", "initContainers"]
            .into_iter()
            .filter_map(|list| spec.get(list)?.as_array())
            .flatten();
        let (mut any, mut all) = (false, true);
        for container in containers {
            for resource in ["cpu", "memory"] {
                let amount =
                    |list: &str| quantity(container.get("resources")?.get(list)?.get(resource)?);
                let (limit, request) = (amount("limits"), amount("requests"));
                any |= limit.is_some() || request.is_some();
                all &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
            }
        }
        match (any, all) {
            (false, _) => Self::BestEffort,
            (true, false) => Self::Burstable,
            (true, true) => Self::Guaranteed,
        }
    }
}

/// Parses a quantity greater than 0.
fn quantity(value: &Value) -> Option<Quantity> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let quantity = Quantity::parse(&text).ok()?;
    (quantity > Quantity::ZERO).then_some(quantity)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        let equal = json!({"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
        let less = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
        let half = json!({"limits": {"cpu": "1"}});
        for (containers, class) in [
            (vec![], QosClass::BestEffort),
            (vec![json!({})], QosClass::BestEffort),
            (
                vec![json!({"requests": {"cpu": "0"}})],
                QosClass::BestEffort,
            ),
            (
                vec![json!({"requests": {"ephemeral-storage": "1Gi"}})],
                QosClass::BestEffort,
            ),
            (vec![full.clone()], QosClass::Guaranteed),
            (vec![equal, full.clone()], QosClass::Guaranteed),
            (vec![full.clone(), json!({})], QosClass::Burstable),
            (vec![less], QosClass::Burstable),
            (vec![half], QosClass::Burstable),
        ] {
            let containers: Vec<Value> = containers
                .iter()
                .map(|resources| json!({ "name": "c", "resources": resources }))
                .collect();
            let pod = json!({ "containers": containers });
            for object in [
                json!({ "spec": pod }),
                json!({ "spec": { "template": { "spec": pod } } }),
                json!({ "spec": { "jobTemplate": { "spec": { "template": { "spec": pod } } } } }),
            ] {
                assert_eq!(QosClass::of_template(&object), class, "{object}");
            }
        }
        let init =
            json!({ "spec": { "containers": [{ "resources": full }], "initContainers": [{}] } });
        assert_eq!(QosClass::of_template(&init), QosClass::Burstable);
        assert_eq!(
            QosClass::of_template(&json!({ "data": {} })),
            QosClass::BestEffort
        );
    }
}
