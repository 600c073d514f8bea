//! Table cells of the kinds in the API groups `apps`, `batch` and `autoscaling`.

use serde_json::{Value, json};

use super::cell::{int, joined, labels_or_none, string};
use crate::table::since;

fn pod_spec(object: &Value) -> &Value {
    let spec = &object["spec"];
    let job = &spec["jobTemplate"]["spec"];
    let owner = if job.is_null() { spec } else { job };
    &owner["template"]["spec"]
}

pub(super) fn containers(o: &Value) -> Value {
    joined(&pod_spec(o)["containers"], |c| string(&c["name"]), "<none>")
}

pub(super) fn images(o: &Value) -> Value {
    joined(
        &pod_spec(o)["containers"],
        |c| string(&c["image"]),
        "<none>",
    )
}

pub(super) fn ready(o: &Value) -> Value {
    json!(format!(
        "{}/{}",
        int(&o["status"]["readyReplicas"]),
        int(&o["spec"]["replicas"])
    ))
}

pub(super) fn job_status(o: &Value) -> Value {
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

pub(super) fn job_duration(o: &Value) -> Value {
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

pub(super) fn hpa_targets(o: &Value) -> Value {
    let target = |m: &Value| {
        let (name, t) = (string(&m["resource"]["name"]), &m["resource"]["target"]);
        let wanted = t["averageUtilization"]
            .as_i64()
            .map_or_else(|| string(&t["averageValue"]), |p| format!("{p}%"));
        format!("{name}: <unknown>/{wanted}")
    };
    joined(&o["spec"]["metrics"], target, "<none>")
}

pub(super) fn node_selector(o: &Value) -> Value {
    labels_or_none(&pod_spec(o)["nodeSelector"])
}

pub(super) fn controller(o: &Value) -> Value {
    let owner = &o["metadata"]["ownerReferences"][0];
    let kind = string(&owner["kind"]).to_lowercase();
    json!(if kind.is_empty() {
        "<none>".to_owned()
    } else {
        format!("{kind}/{}", string(&owner["name"]))
    })
}

pub(super) fn job_completions(o: &Value) -> Value {
    let wanted = o["spec"]["completions"].as_i64().unwrap_or(1);
    json!(format!("{}/{wanted}", int(&o["status"]["succeeded"])))
}

pub(super) fn suspended(o: &Value) -> Value {
    json!(if o["spec"]["suspend"] == true {
        "True"
    } else {
        "False"
    })
}

pub(super) fn last_schedule(o: &Value) -> Value {
    match &o["status"]["lastScheduleTime"] {
        Value::Null => json!("<none>"),
        at => since(at),
    }
}

pub(super) fn hpa_minimum(o: &Value) -> Value {
    json!(o["spec"]["minReplicas"].as_i64().unwrap_or(1).to_string())
}
