//! The columns of apps, batch and autoscaling.

use serde_json::{Value, json};

use super::cell::{
    AGE, count, int, joined, labels, number, or, selector, string, text, typed, wide,
};
use crate::table::{BuiltinColumn, since};

fn pod_spec(object: &Value) -> &Value {
    let spec = &object["spec"];
    let job = &spec["jobTemplate"]["spec"];
    let owner = if job.is_null() { spec } else { job };
    &owner["template"]["spec"]
}

fn containers(o: &Value) -> Value {
    joined(&pod_spec(o)["containers"], |c| string(&c["name"]), "<none>")
}

fn images(o: &Value) -> Value {
    joined(
        &pod_spec(o)["containers"],
        |c| string(&c["image"]),
        "<none>",
    )
}

fn selector_cell(o: &Value) -> Value {
    json!(selector(&o["spec"]["selector"]))
}

fn ready_of(o: &Value) -> Value {
    json!(format!(
        "{}/{}",
        int(&o["status"]["readyReplicas"]),
        int(&o["spec"]["replicas"])
    ))
}

fn job_status(o: &Value) -> Value {
    let has = |kind: &str| {
        o["status"]["conditions"]
            .as_array()
            .is_some_and(|l| l.iter().any(|c| c["type"] == kind && c["status"] == "True"))
    };
    json!(match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if has("Suspended") => "Suspended",
        () if !o["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () => "Running",
    })
}

fn job_duration(o: &Value) -> Value {
    match (
        o["status"]["startTime"].as_str(),
        o["status"]["completionTime"].as_str(),
    ) {
        (None, _) => json!(""),
        (Some(_), None) => since(&o["status"]["startTime"]),
        (Some(start), Some(end)) => {
            let (start, end) = (
                crate::clock::seconds_since(start),
                crate::clock::seconds_since(end),
            );
            json!(crate::clock::human_duration(
                start.unwrap_or(0) - end.unwrap_or(0)
            ))
        }
    }
}

fn hpa_targets(o: &Value) -> Value {
    let target = |m: &Value| {
        let (name, t) = (string(&m["resource"]["name"]), &m["resource"]["target"]);
        let wanted = t["averageUtilization"]
            .as_i64()
            .map_or_else(|| string(&t["averageValue"]), |p| format!("{p}%"));
        format!("{name}: <unknown>/{wanted}")
    };
    joined(&o["spec"]["metrics"], target, "<none>")
}

/// Returns the columns of a kind after its name.
#[expect(clippy::too_many_lines, reason = "a table of columns")]
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "replicationcontrollers") | ("apps", "replicasets") => {
            const {
                &[
                    number("Desired", |o| json!(int(&o["spec"]["replicas"]))),
                    number("Current", |o| json!(int(&o["status"]["replicas"]))),
                    number("Ready", |o| json!(int(&o["status"]["readyReplicas"]))),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("apps", "deployments") => {
            const {
                &[
                    text("Ready", ready_of),
                    text("Up-to-date", |o| {
                        json!(int(&o["status"]["updatedReplicas"]))
                    }),
                    text("Available", |o| {
                        json!(int(&o["status"]["availableReplicas"]))
                    }),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("apps", "statefulsets") => {
            const {
                &[
                    text("Ready", ready_of),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                ]
            }
        }
        ("apps", "daemonsets") => {
            const {
                &[
                    number("Desired", |o| {
                        json!(int(&o["status"]["desiredNumberScheduled"]))
                    }),
                    number("Current", |o| {
                        json!(int(&o["status"]["currentNumberScheduled"]))
                    }),
                    number("Ready", |o| json!(int(&o["status"]["numberReady"]))),
                    number("Up-to-date", |o| {
                        json!(int(&o["status"]["updatedNumberScheduled"]))
                    }),
                    number("Available", |o| json!(int(&o["status"]["numberAvailable"]))),
                    text("Node Selector", |o| {
                        json!(match labels(&pod_spec(o)["nodeSelector"]) {
                            s if s.is_empty() => "<none>".to_owned(),
                            s => s,
                        })
                    }),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("apps", "controllerrevisions") => {
            const {
                &[
                    text("Controller", |o| {
                        let owner = &o["metadata"]["ownerReferences"][0];
                        let kind = string(&owner["kind"]).to_lowercase();
                        json!(if kind.is_empty() {
                            "<none>".to_owned()
                        } else {
                            format!("{kind}/{}", string(&owner["name"]))
                        })
                    }),
                    text("Revision", |o| o["revision"].clone()),
                    AGE,
                ]
            }
        }
        ("batch", "jobs") => {
            const {
                &[
                    text("Status", job_status),
                    text("Completions", |o| {
                        let wanted = o["spec"]["completions"].as_i64().unwrap_or(1);
                        json!(format!("{}/{wanted}", int(&o["status"]["succeeded"])))
                    }),
                    text("Duration", job_duration),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("batch", "cronjobs") => {
            const {
                &[
                    text("Schedule", |o| o["spec"]["schedule"].clone()),
                    text("Timezone", |o| or(&o["spec"]["timeZone"], "<none>")),
                    typed("Suspend", "boolean", |o| {
                        json!(if o["spec"]["suspend"] == true {
                            "True"
                        } else {
                            "False"
                        })
                    }),
                    number("Active", |o| count(&o["status"]["active"])),
                    text(
                        "Last Schedule",
                        |o| match &o["status"]["lastScheduleTime"] {
                            Value::Null => json!("<none>"),
                            at => since(at),
                        },
                    ),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("autoscaling", "horizontalpodautoscalers") => {
            const {
                &[
                    text("Reference", |o| {
                        let target = &o["spec"]["scaleTargetRef"];
                        json!(format!(
                            "{}/{}",
                            string(&target["kind"]),
                            string(&target["name"])
                        ))
                    }),
                    text("Targets", hpa_targets),
                    text("MinPods", |o| {
                        json!(o["spec"]["minReplicas"].as_i64().unwrap_or(1).to_string())
                    }),
                    text("MaxPods", |o| o["spec"]["maxReplicas"].clone()),
                    text("Replicas", |o| json!(int(&o["status"]["currentReplicas"]))),
                    AGE,
                ]
            }
        }
        _ => return None,
    })
}
