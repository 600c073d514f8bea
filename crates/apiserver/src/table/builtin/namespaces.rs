//! The columns of namespaces and common namespaced kinds.

use serde_json::{Value, json};

use super::cell::{AGE, count, int, or, string, text, typed, wide};
use crate::table::{BuiltinColumn, since};

fn event_object(o: &Value) -> Value {
    let involved = &o["involvedObject"];
    json!(format!(
        "{}/{}",
        string(&involved["kind"]).to_lowercase(),
        string(&involved["name"])
    ))
}

fn event_last_seen(o: &Value) -> Value {
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

/// Returns the source of an event.
fn event_source(object: &Value) -> Value {
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

/// Returns the columns of a kind after its name.
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "namespaces") => const { &[text("Status", |o| o["status"]["phase"].clone()), AGE] },
        ("", "configmaps") => {
            const {
                &[
                    text("Data", |o| {
                        json!(int(&count(&o["data"])) + int(&count(&o["binaryData"])))
                    }),
                    AGE,
                ]
            }
        }
        ("", "secrets") => {
            const {
                &[
                    text("Type", |o| o["type"].clone()),
                    text("Data", |o| count(&o["data"])),
                    AGE,
                ]
            }
        }
        ("" | "events.k8s.io", "events") => {
            const {
                &[
                    text("Last Seen", event_last_seen),
                    text("Type", |o| o["type"].clone()),
                    text("Reason", |o| o["reason"].clone()),
                    text("Object", event_object),
                    wide("Subobject", |o| or(&o["involvedObject"]["fieldPath"], "")),
                    wide("Source", event_source),
                    text("Message", |o| json!(string(&o["message"]).trim())),
                    wide("First Seen", |o| {
                        let first = &o["firstTimestamp"];
                        since(if first.is_string() {
                            first
                        } else {
                            &o["eventTime"]
                        })
                    }),
                    wide("Count", |o| json!(int(&o["count"]).max(1).to_string())),
                    wide("Name", |o| o["metadata"]["name"].clone()),
                ]
            }
        }
        ("", "resourcequotas") => {
            const {
                &[
                    text("Request", |o| {
                        let used = &o["status"]["used"];
                        let line = |(k, v): (&String, &Value)| {
                            format!("{k}: {}/{}", string(&used[k]), string(v))
                        };
                        let hard = o["spec"]["hard"].as_object();
                        json!(
                            hard.map(|m| m.iter().map(line).collect::<Vec<_>>().join(", "))
                                .unwrap_or_default()
                        )
                    }),
                    text("Limit", |_| json!("")),
                    AGE,
                ]
            }
        }
        ("", "limitranges") => {
            const {
                &[typed("Created At", "date", |o| {
                    o["metadata"]["creationTimestamp"].clone()
                })]
            }
        }
        _ => return None,
    })
}
