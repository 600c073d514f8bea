//! The columns of pods, pod templates and nodes.

use serde_json::{Value, json};

use super::cell::{AGE, count, int, joined, or, string, text, wide};
use crate::table::BuiltinColumn;

fn pod_status(o: &Value) -> Value {
    if !o["metadata"]["deletionTimestamp"].is_null() {
        return json!("Terminating");
    }
    let waiting = o["status"]["containerStatuses"].as_array().and_then(|l| {
        l.iter().find_map(|c| {
            c["state"]["waiting"]["reason"]
                .as_str()
                .or_else(|| c["state"]["terminated"]["reason"].as_str())
        })
    });
    let reason = o["status"]["reason"].as_str();
    json!(
        waiting
            .or(reason)
            .unwrap_or_else(|| o["status"]["phase"].as_str().unwrap_or_default())
    )
}

fn node_status(o: &Value) -> Value {
    let ready = o["status"]["conditions"]
        .as_array()
        .and_then(|l| l.iter().find(|c| c["type"] == "Ready"))
        .map_or("Unknown", |c| {
            if c["status"] == "True" {
                "Ready"
            } else {
                "NotReady"
            }
        });
    let fenced = if o["spec"]["unschedulable"] == true {
        ",SchedulingDisabled"
    } else {
        ""
    };
    json!(format!("{ready}{fenced}"))
}

fn node_roles(o: &Value) -> Value {
    let prefix = "node-role.kubernetes.io/";
    let roles: Vec<&str> = o["metadata"]["labels"]
        .as_object()
        .map(|m| m.keys().filter_map(|k| k.strip_prefix(prefix)).collect())
        .unwrap_or_default();
    if roles.is_empty() {
        json!("<none>")
    } else {
        json!(roles.join(","))
    }
}

fn node_address(o: &Value, kind: &str) -> Value {
    let found = o["status"]["addresses"]
        .as_array()
        .and_then(|l| l.iter().find(|a| a["type"] == kind));
    found.map_or_else(|| json!("<none>"), |a| a["address"].clone())
}

/// Returns a field of all containers of a pod spec.
fn of_containers(spec: &Value, field: &str) -> Value {
    joined(&spec["containers"], |c| string(&c[field]), "")
}

/// Returns the columns of a kind after its name.
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "pods") => {
            const {
                &[
                    text("Ready", |o| {
                        let ready = o["status"]["containerStatuses"].as_array();
                        let ready =
                            ready.map_or(0, |l| l.iter().filter(|c| c["ready"] == true).count());
                        json!(format!("{ready}/{}", int(&count(&o["spec"]["containers"]))))
                    }),
                    text("Status", pod_status),
                    text("Restarts", |o| {
                        let all = o["status"]["containerStatuses"].as_array();
                        json!(
                            all.map_or(0, |l| l
                                .iter()
                                .map(|c| int(&c["restartCount"]))
                                .sum::<i64>())
                                .to_string()
                        )
                    }),
                    AGE,
                    wide("IP", |o| or(&o["status"]["podIP"], "<none>")),
                    wide("Node", |o| or(&o["spec"]["nodeName"], "<none>")),
                    wide("Nominated Node", |o| {
                        or(&o["status"]["nominatedNodeName"], "<none>")
                    }),
                    wide("Readiness Gates", |_| json!("<none>")),
                ]
            }
        }
        ("", "podtemplates") => {
            const {
                &[
                    text("Containers", |o| {
                        of_containers(&o["template"]["spec"], "name")
                    }),
                    text("Images", |o| of_containers(&o["template"]["spec"], "image")),
                    text("Pod Labels", |o| {
                        let labels = o["template"]["metadata"]["labels"].as_object();
                        let pairs: Vec<String> = labels
                            .into_iter()
                            .flatten()
                            .map(|(k, v)| format!("{k}={}", string(v)))
                            .collect();
                        or(&json!(pairs.join(",")), "<none>")
                    }),
                ]
            }
        }
        ("", "nodes") => {
            const {
                &[
                    text("Status", node_status),
                    text("Roles", node_roles),
                    AGE,
                    text("Version", |o| {
                        o["status"]["nodeInfo"]["kubeletVersion"].clone()
                    }),
                    wide("Internal-IP", |o| node_address(o, "InternalIP")),
                    wide("External-IP", |o| node_address(o, "ExternalIP")),
                    wide("OS-Image", |o| {
                        or(&o["status"]["nodeInfo"]["osImage"], "<unknown>")
                    }),
                    wide("Kernel-Version", |o| {
                        or(&o["status"]["nodeInfo"]["kernelVersion"], "<unknown>")
                    }),
                    wide("Container-Runtime", |o| {
                        or(
                            &o["status"]["nodeInfo"]["containerRuntimeVersion"],
                            "<unknown>",
                        )
                    }),
                ]
            }
        }
        _ => return None,
    })
}
