//! Rules for the FlinkDeployment of Apache Flink.

use berth_api::binding::Component;
use berth_api::quantity::{Format, Quantity};
use berth_apimachinery::json_fields::text_at;
use serde_json::{Value, json};

use super::pods::{
    count, node_claim_without_affinity, number_or_text, to_count, with_requirements,
};
use super::{Aggregation, Fields, Kind, Result, picked};
use crate::error::InterpretError;
use crate::workload_requirements::Interpretation;

pub(super) static KINDS: [Kind; 1] = [Kind {
    replicas: Some(replicas),
    components: Some(components),
    reflect: Some(|_, status| picked(status, &REPORTED)),
    aggregate: Some(aggregate),
    health: Some(|deployment| Ok(is_healthy(deployment))),
    ..Kind::new("flink.apache.org/v1beta1", "FlinkDeployment")
}];

const REPORTED: [&str; 8] = [
    "clusterInfo",
    "error",
    "jobManagerDeploymentStatus",
    "jobStatus",
    "observedGeneration",
    "lifecycleState",
    "reconciliationStatus",
    "taskManager",
];

/// Errors that would also occur in another cluster.
const USER_ERRORS: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"];

fn is_healthy(deployment: &Value) -> bool {
    let text = |pointer: &str| text_at(deployment, pointer);
    if deployment.pointer("/status/jobStatus/state").is_none() {
        return text("/status/jobManagerDeploymentStatus") == "READY"
            && text("/status/lifecycleState") == "STABLE";
    }
    match text("/status/jobStatus/state") {
        // The last three states are transitions into one of the other states.
        "RUNNING" | "FINISHED" | "FAILED" | "CANCELED" | "SUSPENDED" | "CANCELLING" | "FAILING"
        | "RESTARTING" => true,
        "CREATED" | "INITIALIZING" | "RECONCILING" => {
            let error = text("/status/error");
            USER_ERRORS.iter().any(|known| error.contains(known))
        }
        _ => false,
    }
}

fn task_managers(deployment: &Value) -> i32 {
    let at = |pointer: &str| number_or_text(deployment.pointer(pointer));
    if let Some(replicas) = at("/spec/taskManager/replicas") {
        return to_count(replicas);
    }
    let slots = deployment.pointer("/spec/flinkConfiguration");
    let slots = slots.and_then(|options| options.get("taskmanager.numberOfTaskSlots"));
    match (at("/spec/job/parallelism"), number_or_text(slots)) {
        (Some(parallelism), Some(slots)) if slots != 0.0 => to_count((parallelism / slots).ceil()),
        _ => 1,
    }
}

fn job_managers(deployment: &Value) -> i32 {
    count(deployment.pointer("/spec/jobManager/replicas"), 1)
}

/// Returns the amount of a resource that a manager requests.
fn amount(deployment: &Value, manager: &str, resource: &str) -> Result<Option<Quantity>> {
    let value = deployment.pointer(&format!("/spec/{manager}/resource/{resource}"));
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    match Quantity::parse(&text) {
        Ok(amount) => Ok(Some(amount)),
        Err(_) => Err(InterpretError::Quantity {
            container: manager.to_owned(),
            resource: resource.to_owned(),
            text,
        }),
    }
}

/// Returns the requirements of a pod. The request for a resource is the greatest amount that any of `managers`
/// requests.
fn requirements(
    deployment: &Value,
    managers: &[&str],
    format: impl Fn(Quantity) -> Quantity,
) -> Result<Value> {
    let mut requests = json!({});
    for resource in ["cpu", "memory"] {
        let mut most: Option<Quantity> = None;
        for manager in managers {
            if let Some(amount) = amount(deployment, manager, resource)? {
                most = Some(most.map_or(amount, |most| if amount > most { amount } else { most }));
            }
        }
        if let Some(most) = most {
            requests[resource] = json!(format(most).to_string());
        }
    }
    let mut requirements = json!({});
    if requests != json!({}) {
        requirements["resourceRequest"] = requests;
    }
    let pod = deployment.pointer("/spec/podTemplate/spec");
    let pod = pod.unwrap_or(&Value::Null);
    if let Some(claim) = node_claim_without_affinity(pod) {
        requirements["nodeClaim"] = claim;
    }
    if let Some(class) = pod["priorityClassName"].as_str().filter(|c| !c.is_empty()) {
        requirements["priorityClassName"] = json!(class);
    }
    Ok(requirements)
}

/// Counts the job managers and task managers as replicas. For each resource, a replica requests the greater of the
/// amounts of a job manager and a task manager.
fn replicas(deployment: &Value) -> Result<Interpretation> {
    let mut requirements =
        requirements(deployment, &["taskManager", "jobManager"], |amount| amount)?;
    let priority = requirements["priorityClassName"]
        .as_str()
        .map(str::to_owned);
    let namespace = text_at(deployment, "/metadata/namespace");
    if !namespace.is_empty() {
        requirements["namespace"] = json!(namespace);
    }
    Ok(Interpretation {
        replicas: job_managers(deployment).saturating_add(task_managers(deployment)),
        requirements: Some(requirements),
        priority_class_name: priority,
    })
}

fn components(deployment: &Value) -> Result<Vec<Component>> {
    let component = |name: &str, manager: &str, replicas: i32| {
        // Karmada writes the requests of components in decimal notation.
        let plain = |amount: Quantity| amount.in_format(Format::DecimalSi);
        let requirements = requirements(deployment, &[manager], plain)?;
        with_requirements(name, replicas, Some(requirements))
    };
    Ok(vec![
        component("jobmanager", "jobManager", job_managers(deployment))?,
        component("taskmanager", "taskManager", task_managers(deployment))?,
    ])
}

/// Copies the fields in [`REPORTED`] from the last member that has reported. Without a report, writes defaults.
fn aggregate(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    let mut status = members.old();
    let last = members.statuses().last();
    for field in REPORTED {
        let value = match last {
            Some(report) => report.get(field).cloned().unwrap_or(Value::Null),
            None => match field {
                "observedGeneration" => json!(0),
                "error" | "jobManagerDeploymentStatus" | "lifecycleState" => json!(""),
                _ => Value::Null,
            },
        };
        status.insert(field.to_owned(), value);
    }
    Some(status)
}
