//! Table cells of role bindings, disruption budgets and certificate signing requests.

use serde_json::{Value, json};

use super::cell::string;
use crate::clock;

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
