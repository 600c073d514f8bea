//! What a change through a part of a pod leaves as it was, and what a status keeps.

use serde_json::{Map, Value};

/// The pod with other containers for debugging, and nothing else that is new.
pub(crate) fn with_ephemeral(old: &Value, new: &Value) -> Value {
    let mut kept = old.clone();
    put(&mut kept["spec"], &new["spec"], "ephemeralContainers");
    kept
}

/// The pod with other resources. Containers that are not the same ones are left as they are sent: they are refused.
pub(crate) fn resized(old: &Value, new: &Value) -> Value {
    let mut kept = old.clone();
    let count = |pod: &Value, list: &str| pod["spec"][list].as_array().map_or(0, Vec::len);
    let lists = ["containers", "initContainers"];
    if lists
        .iter()
        .any(|list| count(old, list) != count(new, list))
    {
        kept["spec"] = new["spec"].clone();
        return kept;
    }
    put(&mut kept["spec"], &new["spec"], "resources");
    for list in lists {
        let sent = new["spec"][list].as_array().into_iter().flatten();
        let before = kept["spec"].get_mut(list).and_then(Value::as_array_mut);
        let same = sent
            .clone()
            .zip(before.iter().flat_map(|before| before.iter()))
            .all(|(sent, before)| sent["name"] == before["name"]);
        if !same {
            kept["spec"][list] = new["spec"][list].clone();
            continue;
        }
        for (container, sent) in before.into_iter().flatten().zip(sent) {
            put(container, sent, "resources");
            put(container, sent, "resizePolicy");
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

/// Keeps in a status what writers that do not know of it leave out: which generation was seen, and the class of quality.
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
        let place = known
            .iter()
            .position(|old| old["type"] == condition["type"]);
        let before = place.map(|place| known.remove(place));
        keep(condition, before.unwrap_or(&Value::Null), SEEN);
    }
}

/// The resources that a part of a pod asks for or may use.
pub(super) fn amounts<'a>(resources: &'a Value, part: &str) -> Option<&'a Map<String, Value>> {
    resources[part].as_object().filter(|map| !map.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_seen_is_not_forgotten() {
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
