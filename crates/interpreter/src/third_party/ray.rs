//! Rules for the kinds of KubeRay: RayCluster, RayJob and RayService.

use berth_api::binding::Component;
use berth_api::dependency::DependentObjectReference;
use berth_api::quantity::Quantity;
use berth_apimachinery::json_fields::{has_condition, number, text_at};
use serde_json::{Value, json};

use super::pods::{component, dependencies, interpretation, number_or_text, to_count};
use super::{Aggregation, Fields, Kind, Result};
use crate::error::InterpretError;
use crate::native::pod_requirements;
use crate::workload_requirements::Interpretation;

pub(super) static KINDS: [Kind; 3] = [
    Kind {
        components: Some(|cluster| components(cluster.get("spec"))),
        aggregate: Some(aggregate_cluster),
        health: Some(|cluster| {
            let status = cluster.get("status").unwrap_or(&Value::Null);
            Ok(has_condition(status, "HeadPodReady")
                && has_condition(status, "RayClusterProvisioned")
                && !has_condition(status, "RayClusterReplicaFailure"))
        }),
        ..Kind::new("ray.io/v1", "RayCluster")
    },
    Kind {
        components: Some(|job| components(job.pointer("/spec/rayClusterSpec"))),
        aggregate: Some(aggregate_job),
        health: Some(|job| {
            let is_complete = text_at(job, "/status/jobStatus") == "SUCCEEDED";
            Ok(match text_at(job, "/status/jobDeploymentStatus") {
                "Running" => true,
                "Complete" => is_complete,
                _ => false,
            })
        }),
        dependencies: Some(|job| {
            let cluster = job.pointer("/spec/rayClusterSpec");
            let submitter = job.pointer("/spec/submitterPodTemplate");
            dependencies_of(job, templates(cluster).chain(submitter))
        }),
        ..Kind::new("ray.io/v1", "RayJob")
    },
    Kind {
        replicas: Some(service_replicas),
        revise: Some(revise_service),
        aggregate: Some(aggregate_service),
        health: Some(|service| {
            let status = service.get("status").unwrap_or(&Value::Null);
            Ok(has_condition(status, "Ready"))
        }),
        dependencies: Some(|service| {
            let cluster = service.pointer("/spec/rayClusterConfig");
            dependencies_of(service, templates(cluster))
        }),
        ..Kind::new("ray.io/v1", "RayService")
    },
];

fn head(cluster: Option<&Value>) -> Option<&Value> {
    cluster?.pointer("/headGroupSpec/template")
}

fn worker_groups(cluster: Option<&Value>) -> impl Iterator<Item = &Value> {
    let groups = cluster.and_then(|cluster| cluster.get("workerGroupSpecs")?.as_array());
    groups.into_iter().flatten()
}

/// Returns the pod templates of a Ray cluster.
fn templates(cluster: Option<&Value>) -> impl Iterator<Item = &Value> {
    let workers = worker_groups(cluster).filter_map(|group| group.get("template"));
    head(cluster).into_iter().chain(workers)
}

fn dependencies_of<'a>(
    object: &Value,
    templates: impl Iterator<Item = &'a Value>,
) -> Result<Vec<DependentObjectReference>> {
    dependencies(object, templates)
}

/// Returns the replicas of a worker group.
fn replicas_of(group: &Value) -> i32 {
    number_or_text(group.get("replicas")).map_or(0, to_count)
}

fn components(cluster: Option<&Value>) -> Result<Vec<Component>> {
    let mut components = Vec::new();
    if let Some(head) = head(cluster) {
        components.push(component("ray-head", 1, Some(head))?);
    }
    for (number, group) in (1..).zip(worker_groups(cluster)) {
        let name = match text_at(group, "/groupName") {
            "" => format!("worker-{number}"),
            name => name.to_owned(),
        };
        components.push(component(&name, replicas_of(group), group.get("template"))?);
    }
    Ok(components)
}

/// Counts the head and all workers as replicas. Each replica has the requirements of the head, with the greatest CPU
/// and memory requests of the head and the worker groups.
fn service_replicas(service: &Value) -> Result<Interpretation> {
    let cluster = service.pointer("/spec/rayClusterConfig");
    let Some(head) = head(cluster) else {
        return Ok(Interpretation::default());
    };
    let workers = worker_groups(cluster).map(replicas_of);
    let replicas = workers.fold(1, i32::saturating_add);
    let mut interpretation = interpretation(replicas, head)?;
    let Some(requirements) = &mut interpretation.requirements else {
        return Ok(interpretation);
    };
    for group in worker_groups(cluster) {
        let Some(template) = group.get("template") else {
            continue;
        };
        let worker = pod_requirements(template)?.unwrap_or_default();
        for resource in ["cpu", "memory"] {
            let wanted = text_at(&worker["resourceRequest"], &format!("/{resource}"));
            let current = text_at(requirements, &format!("/resourceRequest/{resource}"));
            if !wanted.is_empty() && quantity(wanted)? > quantity(current)? {
                requirements["resourceRequest"][resource] = json!(wanted);
            }
        }
    }
    Ok(interpretation)
}

fn quantity(text: &str) -> Result<Quantity> {
    if text.is_empty() {
        return Ok(Quantity::default());
    }
    Quantity::parse(text).map_err(|_| InterpretError::Quantity {
        container: "ray".to_owned(),
        resource: "amount".to_owned(),
        text: text.to_owned(),
    })
}

/// Divides the replicas except the head among the worker groups, in proportion to their sizes. The last group gets the
/// remainder.
fn revise_service(service: &mut Value, replicas: i32) {
    let groups = service.pointer_mut("/spec/rayClusterConfig/workerGroupSpecs");
    let Some(groups) = groups.and_then(Value::as_array_mut) else {
        return;
    };
    let workers = i64::from(replicas.saturating_sub(1).max(0));
    let total: i64 = groups
        .iter()
        .map(|group| i64::from(replicas_of(group)))
        .sum();
    let count = groups.len();
    let mut left = workers;
    for (index, group) in groups.iter_mut().enumerate() {
        let share = if index + 1 == count {
            left
        } else if total == 0 {
            let count = i64::try_from(count).unwrap_or(1);
            let index = i64::try_from(index).unwrap_or(0);
            workers / count + i64::from(index < workers % count)
        } else {
            // The share is rounded half up.
            (2 * workers * i64::from(replicas_of(group)) + total) / (2 * total)
        };
        left -= share;
        if group.is_object() {
            group["replicas"] = json!(share);
        }
    }
}

fn aggregate_cluster(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    if let Some(only) = members.only() {
        return Some(only);
    }
    let mut status = members.old();
    let mut set = |field: &str, value: Value| {
        status.insert(field.to_owned(), value);
    };
    set("conditions", members.joined("conditions"));
    for counter in [
        "readyWorkerReplicas",
        "availableWorkerReplicas",
        "maxWorkerReplicas",
        "minWorkerReplicas",
        "desiredWorkerReplicas",
    ] {
        set(counter, json!(members.sum(counter)));
    }
    for resource in ["desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU"] {
        let mut sum = Quantity::default();
        for amount in members.values(resource).filter_map(Value::as_str) {
            // A malformed amount from one member counts as zero.
            sum = sum + quantity(amount).unwrap_or_default();
        }
        set(resource, json!(sum.to_string()));
    }
    set("lastUpdateTime", json!(members.latest("lastUpdateTime")));
    for field in ["endpoints", "head"] {
        set(
            field,
            members.values(field).next().cloned().unwrap_or_default(),
        );
    }
    let mut with_state = members
        .statuses()
        .filter(|report| report.get("state").is_some());
    let first = with_state.next().unwrap_or(&Value::Null);
    for field in ["state", "stateTransitionTimes"] {
        set(field, first.get(field).cloned().unwrap_or_default());
    }
    Some(status)
}

/// Returns the first report with the greatest rank.
fn worst<'a>(
    reports: impl Iterator<Item = &'a Value>,
    rank: impl Fn(&Value) -> usize,
) -> Option<&'a Value> {
    reports.fold(None, |worst, report| match worst {
        Some(worst) if rank(report) <= rank(worst) => Some(worst),
        _ => Some(report),
    })
}

/// Returns the position of the group that contains a text. Unknown texts have the lowest rank.
fn rank(text: &str, groups: &[&[&str]]) -> usize {
    let group = groups.iter().position(|group| group.contains(&text));
    group.unwrap_or(0)
}

const DEPLOYMENT_STATUSES: [&[&str]; 9] = [
    &[""],
    &["Initializing"],
    &["Waiting"],
    &["Suspending", "Suspended"],
    &["Retrying"],
    &["Running"],
    &["Complete"],
    &["ValidationFailed"],
    &["Failed"],
];
const JOB_STATUSES: [&[&str]; 6] = [
    &[""],
    &["PENDING"],
    &["RUNNING"],
    &["SUCCEEDED"],
    &["STOPPED"],
    &["FAILED"],
];

fn aggregate_job(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    if let Some(only) = members.only() {
        return Some(only);
    }
    let mut status = members.old();
    let deployed = members
        .statuses()
        .filter(|report| report.get("jobDeploymentStatus").is_some());
    let deployment = worst(deployed, |report| {
        rank(
            text_at(report, "/jobDeploymentStatus"),
            &DEPLOYMENT_STATUSES,
        )
    });
    for field in ["jobDeploymentStatus", "reason", "message"] {
        let value = deployment.and_then(|report| report.get(field)).cloned();
        status.insert(field.to_owned(), value.unwrap_or_default());
    }
    let jobs = members.values("jobStatus").filter(|status| **status != "");
    let job = worst(jobs, |status| {
        rank(status.as_str().unwrap_or_default(), &JOB_STATUSES)
    });
    status.insert("jobStatus".to_owned(), job.cloned().unwrap_or_default());
    Some(status)
}

const APPLICATION_STATUSES: [&[&str]; 6] = [
    &["RUNNING"],
    &["NOT_STARTED"],
    &["DEPLOYING"],
    &["DELETING"],
    &["UNHEALTHY"],
    &["DEPLOY_FAILED"],
];

fn aggregate_service(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    if let Some(only) = members.only() {
        return Some(only);
    }
    let mut status = members.old();
    let mut set = |field: &str, value: Value| {
        status.insert(field.to_owned(), value);
    };
    set("conditions", members.joined("conditions"));
    set("numServeEndpoints", json!(members.sum("numServeEndpoints")));
    set("lastUpdateTime", json!(members.latest("lastUpdateTime")));
    let generations = members.statuses();
    let generations = generations.map(|report| number(report, "observedGeneration"));
    set(
        "observedGeneration",
        json!(generations.max().unwrap_or(0).max(0)),
    );
    let is_idle = members.values("serviceStatus").any(|status| *status == "");
    set("serviceStatus", json!(if is_idle { "" } else { "Running" }));
    if let Some(first) = members.values("activeServiceStatus").next() {
        let mut active = first.clone();
        active["applicationStatuses"] = applications(members);
        set("activeServiceStatus", active);
    }
    if let Some(pending) = members.values("pendingServiceStatus").next() {
        set("pendingServiceStatus", pending.clone());
    }
    Some(status)
}

/// Returns each application with its worst status among the members.
fn applications(members: Aggregation<'_>) -> Value {
    let rank = |status: &Value| rank(text_at(status, "/status"), &APPLICATION_STATUSES);
    let mut all = Fields::new();
    for active in members.values("activeServiceStatus") {
        let statuses = active.get("applicationStatuses").and_then(Value::as_object);
        for (name, status) in statuses.into_iter().flatten() {
            if all.get(name).is_none_or(|worst| rank(status) > rank(worst)) {
                all.insert(name.clone(), status.clone());
            }
        }
    }
    Value::Object(all)
}
