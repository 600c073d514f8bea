//! Rules for the Job of Volcano.

use berth_api::binding::Component;
use berth_apimachinery::json_fields::{number, text_at};
use serde_json::{Value, json};

use super::pods::{component, count};
use super::pruning::drop_zero;
use super::reports::conditions_of;
use super::{Aggregation, Fields, Kind, Result, missing, picked};

pub(super) static KINDS: [Kind; 1] = [Kind {
    components: Some(components),
    reflect: Some(|_, status| picked(status, &REPORTED)),
    aggregate: Some(aggregate),
    health: Some(|job| {
        let phase = text_at(job, "/status/state/phase");
        Ok(HEALTHY.contains(&phase))
    }),
    ..Kind::new("batch.volcano.sh/v1alpha1", "Job")
}];

const REPORTED: [&str; 14] = [
    "minAvailable",
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
    "retryCount",
    "version",
    "runningDuration",
    "taskStatusCount",
    "controlledResources",
    "state",
    "conditions",
];
/// The number of counters at the start of [`REPORTED`].
const COUNTERS: usize = 8;
const HEALTHY: [&str; 9] = [
    "Running",
    "Completed",
    "Pending",
    "Aborting",
    "Aborted",
    "Restarting",
    "Completing",
    "Terminating",
    "Terminated",
];
/// The phases of a failed Job. The conditions of the first member with such a phase become the conditions of the
/// template.
const FAILED: [&str; 5] = ["Failed", "Aborted", "Aborting", "Terminated", "Terminating"];

fn components(job: &Value) -> Result<Vec<Component>> {
    let tasks = job.pointer("/spec/tasks").and_then(Value::as_array);
    let tasks = tasks.into_iter().flatten().enumerate();
    tasks
        .map(|(index, task)| {
            let name = match text_at(task, "/name") {
                "" => format!("task-{index}"),
                name => name.to_owned(),
            };
            let template = task.get("template");
            let template = template.ok_or_else(|| missing("/spec/tasks/template"))?;
            component(&name, count(task.get("minAvailable"), 1), Some(template))
        })
        .collect()
}

fn aggregate(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    if let Some(only) = members.only() {
        return Some(only);
    }
    let mut status = Fields::new();
    for counter in &REPORTED[..COUNTERS] {
        status.insert((*counter).to_owned(), json!(members.sum(counter)));
    }
    let versions = members.statuses().map(|report| number(report, "version"));
    status.insert("version".to_owned(), json!(versions.max().unwrap_or(0)));
    let longest = members
        .values("runningDuration")
        .fold((0.0, None), |longest, value| {
            let seconds = seconds(value);
            if seconds > longest.0 {
                (seconds, Some(value))
            } else {
                longest
            }
        });
    let longest = longest.1.cloned().unwrap_or(Value::Null);
    status.insert("runningDuration".to_owned(), longest);
    status.insert("taskStatusCount".to_owned(), task_counts(members));
    let mut resources = Fields::new();
    for value in members.values("controlledResources") {
        resources.extend(value.as_object().cloned().unwrap_or_default());
    }
    status.insert("controlledResources".to_owned(), Value::Object(resources));
    status.insert("conditions".to_owned(), Value::Array(conditions(members)));
    status.insert("state".to_owned(), state(members));
    drop_zero(&mut status);
    Some(status)
}

/// Returns the seconds of a duration such as `1h2m3.5s`.
fn seconds(duration: &Value) -> f64 {
    let Some(text) = duration.as_str() else {
        return duration.as_f64().unwrap_or(0.0);
    };
    let (mut total, mut digits) = (0.0, String::new());
    for character in text.chars() {
        let unit = match character {
            'h' => 3_600.0,
            'm' => 60.0,
            's' => 1.0,
            _ if character.is_ascii_digit() || character == '.' => {
                digits.push(character);
                continue;
            }
            _ => 0.0,
        };
        total += digits.parse().unwrap_or(0.0) * unit;
        digits.clear();
    }
    total
}

/// Sums the pods of all members by task and phase.
fn task_counts(members: Aggregation<'_>) -> Value {
    let mut tasks = Fields::new();
    for counts in members.values("taskStatusCount") {
        for (task, phases) in counts.as_object().into_iter().flatten() {
            let sums = tasks.entry(task).or_insert_with(|| json!({"phase": {}}));
            let phases = phases.get("phase").and_then(Value::as_object);
            for (phase, pods) in phases.into_iter().flatten() {
                let sum = number(&sums["phase"], phase).saturating_add(pods.as_i64().unwrap_or(0));
                sums["phase"][phase] = json!(sum);
            }
        }
    }
    Value::Object(tasks)
}

/// Returns the conditions of the first failed member. If no member failed, returns the latest condition of each phase.
fn conditions(members: Aggregation<'_>) -> Vec<Value> {
    let mut latest: Vec<Value> = Vec::new();
    for report in members.statuses() {
        if conditions_of(report).any(|condition| FAILED.contains(&text_at(condition, "/status"))) {
            return conditions_of(report).cloned().collect();
        }
        for condition in conditions_of(report) {
            let phase = condition.get("status");
            let time = |condition: &Value| text_at(condition, "/lastTransitionTime").to_owned();
            match latest.iter_mut().find(|other| other.get("status") == phase) {
                None => latest.push(condition.clone()),
                Some(other) if time(condition) > time(other) => *other = condition.clone(),
                Some(_) => {}
            }
        }
    }
    latest
}

fn state(members: Aggregation<'_>) -> Value {
    let phase = |report: &Value| text_at(report, "/state/phase").to_owned();
    let failed: Vec<&str> = members
        .reports()
        .filter(|(_, report)| matches!(phase(report).as_str(), "Failed" | "Aborted"))
        .map(|(cluster, _)| cluster)
        .collect();
    let state = |phase: &str, reason: &str, message: String| {
        json!({"phase": phase, "reason": reason, "message": message,
            "lastTransitionTime": members.transition_time("lastTransitionTime", &message)})
    };
    if !failed.is_empty() {
        let message = format!("Job failed in clusters: {}", failed.join(","));
        return state("Failed", "VolcanoJobFailed", message);
    }
    let completed = members
        .statuses()
        .filter(|report| phase(report) == "Completed");
    if completed.count() == members.items.len() {
        let message = "Job completed successfully".to_owned();
        return state("Completed", "Completed", message);
    }
    Value::Null
}
