//! Table cells of events, quotas and ConfigMaps.

use serde_json::{Value, json};

use super::cell::{count, int, string};
use crate::table::since;

pub(super) fn event_object(o: &Value) -> Value {
    let involved = &o["involvedObject"];
    json!(format!(
        "{}/{}",
        string(&involved["kind"]).to_lowercase(),
        string(&involved["name"])
    ))
}

pub(super) fn event_last_seen(o: &Value) -> Value {
    let times = [
        &o["series"]["lastObservedTime"],
        &o["lastTimestamp"],
        &o["eventTime"],
        &o["firstTimestamp"],
    ];
    since(
        times
            .into_iter()
            .find(|t| t.is_string())
            .unwrap_or_else(|| &o["metadata"]["creationTimestamp"]),
    )
}

/// Returns the component and the host that reported an event.
pub(super) fn event_source(object: &Value) -> Value {
    let source = &object["source"];
    let component = match string(&source["component"]) {
        none if none.is_empty() => string(&object["reportingComponent"]),
        component => component,
    };
    let host = string(&source["host"]);
    json!(if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    })
}

pub(super) fn data(o: &Value) -> Value {
    json!(int(&count(&o["data"])) + int(&count(&o["binaryData"])))
}

/// Returns the usage and the limit of each resource in a quota.
pub(super) fn quota(o: &Value) -> Value {
    let used = &o["status"]["used"];
    let hard = o["spec"]["hard"].as_object().into_iter().flatten();
    let lines = hard.map(|(k, v)| format!("{k}: {}/{}", string(&used[k]), string(v)));
    json!(lines.collect::<Vec<_>>().join(", "))
}
