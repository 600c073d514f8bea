//! The columns of certificate signing requests.

use serde_json::{Value, json};

use super::cell::{AGE, or, text};
use crate::clock;
use crate::table::BuiltinColumn;

/// Returns the state of a request.
fn condition(object: &Value) -> Value {
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

/// Returns the columns of a kind after its name.
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("certificates.k8s.io", "certificatesigningrequests") => {
            const {
                &[
                    AGE,
                    text("SignerName", |o| or(&o["spec"]["signerName"], "<none>")),
                    text("Requestor", |o| or(&o["spec"]["username"], "")),
                    text(
                        "RequestedDuration",
                        |o| match o["spec"]["expirationSeconds"].as_i64() {
                            Some(seconds) => json!(clock::human_duration(seconds)),
                            None => json!("<none>"),
                        },
                    ),
                    text("Condition", condition),
                ]
            }
        }
        _ => return None,
    })
}
