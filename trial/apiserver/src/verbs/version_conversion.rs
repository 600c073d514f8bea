//! Conversion between the stored and the served API version of objects.

mod autoscaler;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::resource::{Conversion, Resource};
use crate::store::{self, Stored};

/// Returns a stored object as JSON in the served version. Returns the stored bytes if the object needs no conversion.
pub(crate) fn bytes(object: &Stored, resource: &Resource) -> Bytes {
    if *object.api_version == *resource.api_version() && !resource.may_lack_defaults(object) {
        return object.bytes.clone();
    }
    let value = value(object, resource);
    store::encode(&value).map_or_else(|_| object.bytes.clone(), Bytes::from)
}

/// Returns a stored object in the served version.
pub(crate) fn value(object: &Stored, resource: &Resource) -> Value {
    to_served(resource.read(object), resource)
}

/// Converts an object from the stored to the served version.
pub(crate) fn to_served(mut value: Value, resource: &Resource) -> Value {
    match resource.conversion {
        Conversion::EventsV1 => new_event(&value),
        Conversion::AutoscalingV1 => autoscaler::to_v1(value),
        Conversion::None => {
            value["apiVersion"] = json!(resource.api_version());
            value
        }
    }
}

/// Converts an object from the served to the stored version.
pub(crate) fn to_stored(value: Value, resource: &Resource) -> Value {
    match resource.conversion {
        Conversion::EventsV1 => core_event(&value),
        Conversion::AutoscalingV1 => autoscaler::to_v2(value),
        Conversion::None => value,
    }
}

/// Pairs of field names: the name in `events.k8s.io/v1`, and the name of the same field in core `v1`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(value: &Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let mut out = Map::new();
    for (key, inner) in value.as_object().into_iter().flatten() {
        out.insert(name(key).unwrap_or(key).to_owned(), inner.clone());
    }
    out.insert("apiVersion".into(), json!(api_version));
    Value::Object(out)
}

fn new_event(value: &Value) -> Value {
    rename(value, "events.k8s.io/v1", |k| {
        EVENT_FIELDS
            .iter()
            .find(|(_, core)| *core == k)
            .map(|(new, _)| *new)
    })
}

fn core_event(value: &Value) -> Value {
    let mut event = rename(value, "v1", |k| {
        EVENT_FIELDS
            .iter()
            .find(|(new, _)| *new == k)
            .map(|(_, core)| *core)
    });
    if let Some(object) = event.as_object_mut() {
        object.entry("involvedObject").or_insert_with(|| json!({}));
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_conversion_keeps_all_fields() {
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "note": "hi",
            "regarding": {"kind": "Pod"}, "reportingController": "c", "reason": "R"});
        let core = core_event(&new);
        assert_eq!(core["message"], "hi");
        assert_eq!(core["involvedObject"]["kind"], "Pod");
        assert_eq!(new_event(&core), new);
    }
}
