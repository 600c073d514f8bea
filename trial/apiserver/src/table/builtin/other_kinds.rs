//! Table cells of kinds without a module of their own: events, ConfigMaps, quotas, role bindings, disruption budgets,
//! certificate signing requests, and references to scale targets.

use serde_json::{Value, json};

use super::cell::{count, int, string};
use crate::clock;
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

/// Returns a reference to an object as `KIND/NAME`.
pub(super) fn reference(reference: &Value) -> Value {
    json!(format!(
        "{}/{}",
        string(&reference["kind"]),
        string(&reference["name"])
    ))
}

/// Returns a limit of a disruption budget, which is a number or a percentage.
pub(super) fn share(share: &Value) -> Value {
    match share {
        Value::Null => json!("N/A"),
        share => json!(string(share)),
    }
}

/// Returns the names of a binding's subjects of one kind.
pub(super) fn subjects(object: &Value, kind: &str) -> Value {
    let named: Vec<String> = object["subjects"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|s| s["kind"] == kind)
        .map(|s| match s["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{}", string(&s["name"])),
            None => string(&s["name"]),
        })
        .collect();
    json!(named.join(", "))
}

/// Returns the state of a certificate signing request.
pub(super) fn request_state(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let is = |kind: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition["type"] == kind)
    };
    let mut state = match (is("Denied"), is("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if is("Failed") {
        state.push_str(",Failed");
    }
    if object["status"]["certificate"]
        .as_str()
        .is_some_and(|text| !text.is_empty())
    {
        state.push_str(",Issued");
    }
    json!(state)
}

pub(super) fn requested_duration(object: &Value) -> Value {
    match object["spec"]["expirationSeconds"].as_i64() {
        Some(seconds) => json!(clock::human_duration(seconds)),
        None => json!("<none>"),
    }
}
