//! Table cells of pods, pod templates and nodes.

use serde_json::{Value, json};

use super::cell::{int, joined, string};

pub(super) fn pod_status(o: &Value) -> Value {
    if !o["metadata"]["deletionTimestamp"].is_null() {
        return json!("Terminating");
    }
    if let Some(progress) = initialization(o) {
        return json!(progress);
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

fn is_sidecar(init: &Value) -> bool {
    init["restartPolicy"] == "Always"
}

/// Returns the statuses of the init containers of a pod that keep running.
fn sidecars(o: &Value) -> impl Iterator<Item = &Value> {
    let init = o["spec"]["initContainers"].as_array().into_iter().flatten();
    let statuses = o["status"]["initContainerStatuses"].as_array();
    let statuses = statuses.into_iter().flatten();
    init.zip(statuses)
        .filter(|(init, _)| is_sidecar(init))
        .map(|(_, status)| status)
}

/// Returns the state of the first init container that is not complete, such as `Init:0/2`.
fn initialization(o: &Value) -> Option<String> {
    let init = o["spec"]["initContainers"].as_array()?;
    let statuses = o["status"]["initContainerStatuses"].as_array()?;
    let is_done = |init: &Value, status: &Value| {
        let terminated = &status["state"]["terminated"];
        terminated["exitCode"] == 0 || is_sidecar(init) && status["started"] == true
    };
    let mut all = init.iter().zip(statuses).enumerate();
    let (index, (_, status)) = all.find(|(_, (init, status))| !is_done(init, status))?;
    let state = &status["state"];
    let reason = state["terminated"]["reason"].as_str();
    let reason = reason.or_else(|| state["waiting"]["reason"].as_str());
    Some(match reason {
        Some(reason) if reason != "PodInitializing" => format!("Init:{reason}"),
        _ => format!("Init:{index}/{}", init.len()),
    })
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
    let ready = ready.into_iter().flatten().chain(sidecars(o));
    let ready = ready.filter(|c| c["ready"] == true).count();
    let init = o["spec"]["initContainers"].as_array().into_iter().flatten();
    let sidecars = init.filter(|init| is_sidecar(init)).count();
    let containers = o["spec"]["containers"].as_array().map_or(0, Vec::len);
    json!(format!("{ready}/{}", containers + sidecars))
}

pub(super) fn restarts(o: &Value) -> Value {
    let all = o["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(sidecars(o));
    let all: i64 = all.map(|container| int(&container["restartCount"])).sum();
    json!(all.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_starting_pod_counts_its_init_containers() {
        let done = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let waits = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        let sidecar = json!({"started": true, "ready": true, "state": {"running": {}}});
        let main = json!({"ready": true, "state": {"running": {}}});
        let initializing = waits("PodInitializing");
        for (init, main, status, ready) in [
            (
                [initializing.clone(), initializing.clone()],
                &initializing,
                "Init:0/2",
                "0/2",
            ),
            (
                [done.clone(), initializing.clone()],
                &initializing,
                "Init:1/2",
                "0/2",
            ),
            (
                [waits("ImagePullBackOff"), initializing.clone()],
                &initializing,
                "Init:ImagePullBackOff",
                "0/2",
            ),
            ([done, sidecar], &main, "Running", "2/2"),
        ] {
            let pod = json!({
                "spec": {"containers": [{}], "initContainers": [{}, {"restartPolicy": "Always"}]},
                "status": {"phase": "Running", "initContainerStatuses": init, "containerStatuses": [main]},
            });
            assert_eq!(pod_status(&pod), status, "{pod}");
            assert_eq!(ready_containers(&pod), ready, "{pod}");
        }
    }
}
