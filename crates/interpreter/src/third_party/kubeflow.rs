//! Rules for the kinds of Kubeflow: Notebook, PyTorchJob, TFJob and MPIJob.

use berth_api::binding::Component;
use berth_api::dependency::DependentObjectReference;
use berth_apimachinery::json_fields::{has_condition, number, text_at};
use serde_json::{Value, json};

use super::pods::{component, count, dependencies, of_template, with_requirements};
use super::pruning::drop_zero;
use super::reports::conditions_of;
use super::{Aggregation, Fields, Kind, Result, picked};

pub(super) static KINDS: [Kind; 4] = [
    Kind {
        replicas: Some(|notebook| of_template(notebook, 1)),
        reflect: Some(|_, status| {
            let mut report = picked(status, &["containerState", "conditions"]);
            let ready = number(status, "readyReplicas");
            report.insert("readyReplicas".to_owned(), json!(ready));
            report
        }),
        aggregate: Some(aggregate_notebook),
        health: Some(|notebook| {
            let state = notebook.pointer("/status/containerState");
            Ok(is_notebook_healthy(state.unwrap_or(&Value::Null)))
        }),
        ..Kind::new("kubeflow.org/v1", "Notebook")
    },
    Kind {
        components: Some(|job| role_components(job, "pytorchReplicaSpecs", &PYTORCH_ROLES)),
        aggregate: Some(|members| {
            Some(aggregate_training(
                members,
                &PYTORCH_ROLES,
                pytorch_conditions,
            ))
        }),
        health: Some(|job| Ok(has_not_failed(job))),
        dependencies: Some(|job| role_dependencies(job, "pytorchReplicaSpecs", &PYTORCH_ROLES)),
        ..Kind::new("kubeflow.org/v1", "PyTorchJob")
    },
    Kind {
        components: Some(|job| role_components(job, "tfReplicaSpecs", &TENSORFLOW_ROLES)),
        aggregate: Some(|members| {
            Some(aggregate_training(
                members,
                &TENSORFLOW_ROLES,
                tensorflow_conditions,
            ))
        }),
        health: Some(|job| Ok(has_not_failed(job))),
        dependencies: Some(|job| role_dependencies(job, "tfReplicaSpecs", &TENSORFLOW_ROLES)),
        ..Kind::new("kubeflow.org/v1", "TFJob")
    },
    Kind {
        components: Some(mpi_components),
        reflect: Some(|_, status| {
            let mut report = picked(status, &MPI_REPORTED);
            let roles = report.get_mut("replicaStatuses");
            for counts in roles.and_then(Value::as_object_mut).into_iter().flatten() {
                *counts.1 = Value::Object(picked(counts.1, &MPI_COUNTS));
            }
            report
        }),
        aggregate: Some(aggregate_mpi),
        health: Some(|job| {
            let status = job.get("status").unwrap_or(&Value::Null);
            Ok(conditions_of(status).next().is_some() && has_not_failed(job))
        }),
        ..Kind::new("kubeflow.org/v2beta1", "MPIJob")
    },
];

const PYTORCH_ROLES: [&str; 2] = ["Master", "Worker"];
const TENSORFLOW_ROLES: [&str; 5] = ["PS", "Worker", "Chief", "Master", "Evaluator"];
const COUNTS: [&str; 3] = ["active", "failed", "succeeded"];
const MPI_COUNTS: [&str; 4] = ["active", "succeeded", "failed", "selector"];
const MPI_REPORTED: [&str; 5] = [
    "replicaStatuses",
    "conditions",
    "startTime",
    "completionTime",
    "lastReconcileTime",
];

/// Reports whether a job has conditions and has not failed.
fn has_not_failed(job: &Value) -> bool {
    let status = job.get("status").unwrap_or(&Value::Null);
    status.get("conditions").is_some() && !has_condition(status, "Failed")
}

/// Returns one component for each role that the job has.
fn role_components(job: &Value, field: &str, roles: &[&str]) -> Result<Vec<Component>> {
    let specs = roles.iter().filter_map(|role| {
        let spec = job.pointer(&format!("/spec/{field}/{role}"))?;
        Some((role.to_lowercase(), spec))
    });
    specs
        .map(|(name, spec)| {
            let replicas = count(spec.get("replicas"), 1);
            match spec.get("template") {
                Some(template) => component(&name, replicas, Some(template)),
                None => with_requirements(&name, replicas, Some(json!({}))),
            }
        })
        .collect()
}

fn role_dependencies(
    job: &Value,
    field: &str,
    roles: &[&str],
) -> Result<Vec<DependentObjectReference>> {
    let template = |role: &&str| job.pointer(&format!("/spec/{field}/{role}/template"));
    dependencies(job, roles.iter().filter_map(template))
}

/// Aggregates the status of a PyTorchJob or TFJob: the earliest start, the latest end, the pods by role, and the
/// conditions.
fn aggregate_training(
    members: Aggregation<'_>,
    roles: &[&str],
    conditions: fn(Aggregation<'_>, &Outcome<'_>) -> Vec<Value>,
) -> Fields {
    let mut status = members.old();
    if members.items.is_empty() {
        for field in [
            "startTime",
            "completionTime",
            "replicaStatuses",
            "conditions",
        ] {
            status.remove(field);
        }
        return status;
    }
    let outcome = Outcome::of(members);
    if outcome.has_succeeded {
        let end = json!(members.latest("completionTime"));
        status.insert("completionTime".to_owned(), end);
    }
    status.insert("startTime".to_owned(), json!(members.earliest("startTime")));
    let reconciled = json!(members.latest("lastReconcileTime"));
    status.insert("lastReconcileTime".to_owned(), reconciled);
    let mut counts = json!({});
    for role in roles {
        counts[role] = role_counts(members, role);
    }
    status.insert("replicaStatuses".to_owned(), counts);
    let conditions = conditions(members, &outcome);
    status.insert("conditions".to_owned(), Value::Array(conditions));
    drop_zero(&mut status);
    status
}

/// Returns the numbers of pods of a role, summed over the members.
fn role_counts(members: Aggregation<'_>, role: &str) -> Value {
    let mut counts = json!({});
    for count in COUNTS {
        let roles = members.values("replicaStatuses");
        let roles = roles.filter_map(|roles| roles.get(role));
        let sum: i64 = roles.map(|role| number(role, count)).sum();
        counts[count] = json!(sum);
    }
    counts
}

/// The outcome of a job in all members.
#[derive(Debug)]
struct Outcome<'a> {
    /// The clusters in which the job failed.
    failed: Vec<&'a str>,
    /// True if the job succeeded in all members.
    has_succeeded: bool,
}

impl<'a> Outcome<'a> {
    fn of(members: Aggregation<'a>) -> Self {
        let (mut failed, mut succeeded) = (Vec::new(), 0);
        for (cluster, report) in members.reports() {
            if has_condition(report, "Failed") {
                failed.push(cluster);
            } else if has_condition(report, "Succeeded") {
                succeeded += 1;
            }
        }
        Self {
            failed,
            has_succeeded: succeeded > 0 && succeeded == members.items.len(),
        }
    }
}

/// Returns the conditions of a PyTorchJob. Their order matters, because kubectl prints the last condition.
fn pytorch_conditions(members: Aggregation<'_>, outcome: &Outcome<'_>) -> Vec<Value> {
    let condition = |kind: &str, status: &str, updated: Value, changed: Value, message: String| {
        json!({"type": kind, "status": status,
            "lastUpdateTime": updated, "lastTransitionTime": changed,
            "reason": format!("PyTorchJob{kind}"), "message": message})
    };
    let mut conditions = Vec::new();
    let start = json!(members.earliest("startTime"));
    if members
        .statuses()
        .any(|report| has_condition(report, "Created"))
    {
        let message = "PyTorchJob is created.".to_owned();
        conditions.push(condition("Created", "True", start.clone(), start, message));
    }
    let running = members.conditions().map(|(_, condition)| condition);
    let running = running.filter(|condition| text_at(condition, "/type") == "Running");
    if let Some(running) = running.last() {
        let time = |field: &str| running.get(field).cloned().unwrap_or_default();
        let is_running = outcome.failed.is_empty() && !outcome.has_succeeded;
        let status = if is_running { "True" } else { "False" };
        let times = (time("lastUpdateTime"), time("lastTransitionTime"));
        let message = "PyTorchJob is running.".to_owned();
        conditions.push(condition("Running", status, times.0, times.1, message));
    }
    let end = json!(members.latest("completionTime"));
    if !outcome.failed.is_empty() {
        let clusters = outcome.failed.join(", ");
        let message = format!("PyTorchJob executed failed in member clusters: {clusters}");
        conditions.push(condition("Failed", "True", end.clone(), end, message));
    } else if outcome.has_succeeded {
        let message = "PyTorchJob is successfully completed.".to_owned();
        conditions.push(condition("Succeeded", "True", end.clone(), end, message));
    }
    conditions
}

/// Returns a condition with the status True. If the template already has the condition, its times remain unchanged.
fn finished(members: Aggregation<'_>, kind: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": members.transition_time("lastProbeTime", message),
        "lastTransitionTime": members.transition_time("lastTransitionTime", message)})
}

fn tensorflow_conditions(members: Aggregation<'_>, outcome: &Outcome<'_>) -> Vec<Value> {
    let mut conditions = Vec::new();
    if !outcome.failed.is_empty() {
        let clusters = outcome.failed.join(", ");
        let message = format!("TFJob executed failed in member clusters: {clusters}");
        conditions.push(finished(members, "Failed", "TFJobFailed", &message));
    }
    if outcome.has_succeeded {
        let message = "TFJob completed successfully";
        conditions.push(finished(members, "Succeeded", "Completed", message));
    }
    conditions
}

fn mpi_components(job: &Value) -> Result<Vec<Component>> {
    let roles = job
        .pointer("/spec/mpiReplicaSpecs")
        .and_then(Value::as_object);
    let specs = roles.into_iter().flatten();
    specs
        .filter_map(|(role, spec)| Some((role, spec, spec.get("template")?)))
        .map(|(role, spec, template)| {
            let default = i32::from(!role.eq_ignore_ascii_case("worker"));
            component(role, count(spec.get("replicas"), default), Some(template))
        })
        .collect()
}

fn aggregate_mpi(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    if let Some(only) = members.only() {
        return Some(only);
    }
    let mut status = Fields::new();
    let mut roles = json!({});
    for report in members.values("replicaStatuses") {
        for role in report.as_object().into_iter().flat_map(Fields::keys) {
            roles[role] = role_counts(members, role);
        }
    }
    status.insert("replicaStatuses".to_owned(), roles);
    let mut latest: Vec<&Value> = Vec::new();
    for (_, condition) in members.conditions() {
        let time = |condition: &Value| match text_at(condition, "/lastUpdateTime") {
            "" => text_at(condition, "/lastTransitionTime").to_owned(),
            time => time.to_owned(),
        };
        let kind = condition.get("type");
        match latest.iter_mut().find(|other| other.get("type") == kind) {
            Some(other) if time(condition) > time(other) => *other = condition,
            Some(_) => {}
            None if time(condition).is_empty() => {}
            None => latest.push(condition),
        }
    }
    status.insert("conditions".to_owned(), json!(latest));
    status.insert("startTime".to_owned(), json!(members.earliest("startTime")));
    for time in ["completionTime", "lastReconcileTime"] {
        status.insert(time.to_owned(), json!(members.latest(time)));
    }
    Some(status)
}

/// Reports whether a container is running, is being created, or ended without an error.
fn is_notebook_healthy(state: &Value) -> bool {
    if state.get("running").is_some() {
        return true;
    }
    if let Some(waiting) = state.get("waiting") {
        return text_at(waiting, "/reason") == "ContainerCreating";
    }
    state.get("terminated").is_some_and(|end| {
        let reason = text_at(end, "/reason");
        number(end, "exitCode") == 0
            && !matches!(reason, "Error" | "OOMKilled" | "ContainerCannotRun")
    })
}

fn aggregate_notebook(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    if let Some(only) = members.only() {
        return Some(only);
    }
    let (mut failed, mut running) = (Vec::new(), 0);
    let mut state: Option<Value> = None;
    for (cluster, report) in members.reports() {
        let container = report.get("containerState").unwrap_or(&Value::Null);
        let start = container.pointer("/running/startedAt");
        let has = |field: &str| container.get(field).is_some();
        if has("running") && !has("waiting") && !has("terminated") {
            if !failed.is_empty() {
                continue;
            }
            running += 1;
            let current = state
                .as_ref()
                .and_then(|state| state.pointer("/running/startedAt"));
            let is_later = start.and_then(Value::as_str) > current.and_then(Value::as_str);
            if state.is_none() || is_later {
                state = Some(json!({"running": {"startedAt": start}}));
            }
        } else {
            failed.push(cluster);
            let is_unknown = container.as_object().is_none_or(Fields::is_empty);
            state = Some(if is_unknown {
                json!({"waiting": {"reason": "Unschedulable"}})
            } else {
                container.clone()
            });
        }
    }
    let mut conditions = Vec::new();
    if !failed.is_empty() {
        let clusters = failed.join(", ");
        let message = format!("Notebook executed failed in member clusters: {clusters}");
        conditions.push(finished(members, "Failed", "NotebookFailed", &message));
    }
    if running == members.items.len() {
        let message = "All notebooks are ready";
        conditions.push(finished(members, "Ready", "Ready", message));
    }
    let mut status = Fields::new();
    let ready = json!(members.sum("readyReplicas"));
    status.insert("readyReplicas".to_owned(), ready);
    status.insert("containerState".to_owned(), state.unwrap_or_default());
    status.insert("conditions".to_owned(), Value::Array(conditions));
    Some(status)
}
