//! One stored object, seen in the API version that was asked for.

mod autoscaler;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::registry::{Resource, View};
use crate::store::Stored;

/// The bytes of `object` as served for `resource`; almost always those that are stored.
pub(crate) fn bytes(object: &Stored, resource: &Resource) -> Bytes {
    if *object.api_version == *resource.api_version() && !resource.may_lack_defaults(object) {
        return object.bytes.clone();
    }
    let value = value(object, resource);
    serde_json::to_vec(&value).map_or_else(|_| object.bytes.clone(), Bytes::from)
}

/// A stored object as served for `resource`.
pub(crate) fn value(object: &Stored, resource: &Resource) -> Value {
    to_view(resource.read(object), resource)
}

/// An object in the version that it is stored in, as served for `resource`.
pub(crate) fn to_view(mut value: Value, resource: &Resource) -> Value {
    match resource.view {
        View::NewEvent => new_event(&value),
        View::OldAutoscaler => autoscaler::old(value),
        View::Plain => {
            value["apiVersion"] = json!(resource.api_version());
            value
        }
    }
}

/// An object sent for `resource` as it is stored.
pub(crate) fn to_stored(value: Value, resource: &Resource) -> Value {
    match resource.view {
        View::NewEvent => core_event(&value),
        View::OldAutoscaler => autoscaler::new(value),
        View::Plain => value,
    }
}

/// Names of the fields of `events.k8s.io/v1` and of core/v1 for the same thing.
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
    fn both_views_of_an_event_hold_the_same() {
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "note": "hi",
            "regarding": {"kind": "Pod"}, "reportingController": "c", "reason": "R"});
        let core = core_event(&new);
        assert_eq!(core["message"], "hi");
        assert_eq!(core["involvedObject"]["kind"], "Pod");
        assert_eq!(new_event(&core), new);
    }
}
