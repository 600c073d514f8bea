//! The columns of roles, budgets, leases, priority classes, webhooks and definitions.

use serde_json::{Value, json};

use super::cell::{AGE, int, number, or, string, text, typed, wide};
use crate::table::BuiltinColumn;

fn role_ref(o: &Value) -> Value {
    json!(format!(
        "{}/{}",
        string(&o["roleRef"]["kind"]),
        string(&o["roleRef"]["name"])
    ))
}

/// Returns the subjects of one kind of a binding.
fn subjects(object: &Value, kind: &str) -> Value {
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

/// Returns the columns of a kind after its name.
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("policy", "poddisruptionbudgets") => {
            const {
                &[
                    text("Min Available", |o| match &o["spec"]["minAvailable"] {
                        Value::Null => json!("N/A"),
                        v => json!(string(v)),
                    }),
                    text("Max Unavailable", |o| match &o["spec"]["maxUnavailable"] {
                        Value::Null => json!("N/A"),
                        v => json!(string(v)),
                    }),
                    number("Allowed Disruptions", |o| {
                        json!(int(&o["status"]["disruptionsAllowed"]))
                    }),
                    AGE,
                ]
            }
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            const {
                &[typed("Created At", "date", |o| {
                    o["metadata"]["creationTimestamp"].clone()
                })]
            }
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            const {
                &[
                    text("Role", role_ref),
                    AGE,
                    wide("Users", |o| subjects(o, "User")),
                    wide("Groups", |o| subjects(o, "Group")),
                    wide("ServiceAccounts", |o| subjects(o, "ServiceAccount")),
                ]
            }
        }
        ("coordination.k8s.io", "leases") => {
            const {
                &[
                    text("Holder", |o| or(&o["spec"]["holderIdentity"], "")),
                    AGE,
                ]
            }
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            const {
                &[
                    number("Value", |o| o["value"].clone()),
                    typed("Global-Default", "boolean", |o| {
                        json!(o["globalDefault"] == true)
                    }),
                    AGE,
                    text("PreemptionPolicy", |o| {
                        or(&o["preemptionPolicy"], "PreemptLowerPriority")
                    }),
                ]
            }
        }
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => {
            const {
                &[
                    number("Webhooks", |o| {
                        json!(o["webhooks"].as_array().map_or(0, Vec::len))
                    }),
                    AGE,
                ]
            }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            const {
                &[typed("Created At", "date", |o| {
                    o["metadata"]["creationTimestamp"].clone()
                })]
            }
        }
        _ => return None,
    })
}
