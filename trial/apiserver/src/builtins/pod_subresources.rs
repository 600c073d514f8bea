//! Updates of pods through the subresources `ephemeralcontainers` and `resize`, and the status fields that an update
//! keeps.

use serde_json::{Map, Value};

/// Returns the old pod with the ephemeral containers of the new pod.
pub(crate) fn with_ephemeral(old: &Value, new: &Value) -> Value {
    let mut kept = old.clone();
    put(&mut kept["spec"], &new["spec"], "ephemeralContainers");
    kept
}

/// Returns the old pod with the new resources of the pod, and the new resources and resize policies of its containers.
pub(crate) fn resized(old: &Value, new: &Value) -> Value {
    let mut kept = old.clone();
    put(&mut kept["spec"], &new["spec"], "resources");
    for list in ["containers", "initContainers"] {
        let sent: Vec<&Value> = new["spec"][list].as_array().into_iter().flatten().collect();
        let containers = kept["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(sent) = sent.iter().find(|sent| sent["name"] == container["name"]) {
                put(container, sent, "resources");
                put(container, sent, "resizePolicy");
            }
        }
    }
    kept
}

fn put(value: &mut Value, from: &Value, field: &str) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    match from.get(field) {
        Some(inner) => drop(map.insert(field.to_owned(), inner.clone())),
        None => drop(map.remove(field)),
    }
}

/// Keeps `observedGeneration` and `qosClass` of the old status if a client that does not support these fields omits
/// them.
pub(super) fn keep_observed(status: &mut Value, old: &Value) {
    const SEEN: &str = "observedGeneration";
    let keep = |value: &mut Value, old: &Value, field: &str| {
        if value[field].is_null() && !old[field].is_null() {
            value[field] = old[field].clone();
        } else if let Some(map) = value.as_object_mut()
            && map.get(field).is_some_and(Value::is_null)
        {
            map.remove(field);
        }
    };
    keep(status, old, SEEN);
    keep(status, old, "qosClass");
    let mut known: Vec<&Value> = old["conditions"].as_array().into_iter().flatten().collect();
    for condition in super::items(status, "conditions") {
        let position = known
            .iter()
            .position(|old| old["type"] == condition["type"]);
        let before = position.map(|position| known.remove(position));
        keep(condition, before.unwrap_or(&Value::Null), SEEN);
    }
}

/// Returns the `requests` or `limits` of resources, or `None` if there are none.
pub(super) fn amounts<'a>(resources: &'a Value, part: &str) -> Option<&'a Map<String, Value>> {
    resources[part].as_object().filter(|map| !map.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn omitted_observed_generations_are_kept() {
        let old = json!({"observedGeneration": 3, "qosClass": "Burstable", "conditions": [
            {"type": "A", "observedGeneration": 2}, {"type": "B"}, {"type": "A", "observedGeneration": 1}]});
        let mut status =
            json!({"conditions": [{"type": "A"}, {"type": "B"}, {"type": "A"}, {"type": "A"}]});
        keep_observed(&mut status, &old);
        let expected = json!({"observedGeneration": 3, "qosClass": "Burstable", "conditions": [
            {"type": "A", "observedGeneration": 2}, {"type": "B"}, {"type": "A", "observedGeneration": 1},
            {"type": "A"}]});
        assert_eq!(status, expected);
    }
}
