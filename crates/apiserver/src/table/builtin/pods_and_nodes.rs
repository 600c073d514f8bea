//! Table cells of pods, pod templates and nodes.

use serde_json::{Value, json};

use super::cell::{count, int, joined, string};

pub(super) fn pod_status(o: &Value) -> Value {
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

pub(super) fn node_status(o: &Value) -> Value {
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

pub(super) fn node_roles(o: &Value) -> Value {
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

pub(super) fn node_address(o: &Value, kind: &str) -> Value {
    let found = o["status"]["addresses"]
        .as_array()
        .and_then(|l| l.iter().find(|a| a["type"] == kind));
    found.map_or_else(|| json!("<none>"), |a| a["address"].clone())
}

/// Returns the value of a field for each container of a pod template.
pub(super) fn of_containers(o: &Value, field: &str) -> Value {
    joined(
        &o["template"]["spec"]["containers"],
        |c| string(&c[field]),
        "",
    )
}

pub(super) fn ready_containers(o: &Value) -> Value {
    let ready = o["status"]["containerStatuses"].as_array();
    let ready = ready.map_or(0, |l| l.iter().filter(|c| c["ready"] == true).count());
    json!(format!("{ready}/{}", int(&count(&o["spec"]["containers"]))))
}

pub(super) fn restarts(o: &Value) -> Value {
    let all = o["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    let all: i64 = all.map(|container| int(&container["restartCount"])).sum();
    json!(all.to_string())
}
