//! Aggregation of Jobs. A Job is complete if it is complete in every member. It is failing if it failed in any member,
//! and failed when it has finished in every member. An API server accepts each resulting status after the former one:
//! conditions stay, counters do not decrease, and a finished Job has no active pods.

use berth_api::binding::AggregatedStatusItem;
use berth_apimachinery::json_fields::{has_condition, number, text_at};
use berth_apimachinery::timestamp::whole_seconds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::{put, reports, total};

/// The state of a Job over all members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// The Job has met its criteria, and has not finished in every member.
    Succeeding,
    /// The Job failed in a member, and has not finished in every member.
    Failing,
    Complete,
    Failed,
}

impl State {
    fn of(old: &Value, items: &[AggregatedStatusItem]) -> Self {
        let all_have = |is: fn(&Value) -> bool| {
            let matching = reports(items).filter(|(_, report)| is(report));
            !items.is_empty() && matching.count() == items.len()
        };
        let is_complete = |report: &Value| has_condition(report, "Complete");
        let is_finished = all_have(|r| has_condition(r, "Complete") || has_condition(r, "Failed"));
        let failed = reports(items).any(|(_, report)| has_condition(report, "Failed"));
        // The API server refuses to take these two conditions back.
        if has_condition(old, "SuccessCriteriaMet") {
            if is_finished {
                Self::Complete
            } else {
                Self::Succeeding
            }
        } else if failed || has_condition(old, "FailureTarget") {
            if is_finished {
                Self::Failed
            } else {
                Self::Failing
            }
        } else if all_have(is_complete) {
            Self::Complete
        } else {
            Self::Running
        }
    }

    fn is_finished(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

/// Returns the status of a Job, or `None` if the Job has finished. The status of a finished Job is final.
pub(super) fn status(
    template: &Value,
    items: &[AggregatedStatusItem],
    now: &Time,
) -> Option<Value> {
    let old = template.get("status").unwrap_or(&Value::Null);
    if has_condition(old, "Complete") || has_condition(old, "Failed") {
        return None;
    }
    let state = State::of(old, items);
    let mut status = Map::new();
    if !state.is_finished() {
        put(&mut status, "active", total(items, "active"));
    }
    // The report of a cluster that has left is missing in the sum.
    let monotonic = |field: &str| total(items, field).max(number(old, field));
    let succeeded = if is_elastic(template) {
        total(items, "succeeded")
    } else {
        monotonic("succeeded")
    };
    put(&mut status, "succeeded", succeeded);
    put(&mut status, "failed", monotonic("failed"));
    let conditions = conditions(state, template, items, succeeded, now);
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    for (field, time) in times(state, old, items, now) {
        if let Some(time) = time {
            status.insert(field.to_owned(), json!(time));
        }
    }
    Some(Value::Object(status))
}

/// Reports whether the completions of a Job, and therefore the succeeded pods, may decrease.
fn is_elastic(template: &Value) -> bool {
    let spec = template.get("spec").unwrap_or(&Value::Null);
    spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"]
}

/// Returns the start and the completion of a Job. The first known start is kept.
fn times(
    state: State,
    old: &Value,
    items: &[AggregatedStatusItem],
    now: &Time,
) -> [(&'static str, Option<Timestamp>); 2] {
    let now = whole_seconds(now.0);
    let valid = |field: &str| -> Vec<Timestamp> {
        let times = reports(items).filter_map(|(_, report)| time(report, field));
        times.collect()
    };
    let started = valid("startTime");
    let start = time(old, "startTime").or_else(|| {
        let first = started.iter().min().copied();
        match state {
            _ if !items.is_empty() && started.len() == items.len() => first,
            // A finished Job needs a start.
            State::Complete | State::Failed => Some(first.unwrap_or(now)),
            State::Running | State::Succeeding | State::Failing => None,
        }
    });
    let completion = (state == State::Complete).then(|| {
        let last = valid("completionTime").into_iter().max().unwrap_or(now);
        time(old, "completionTime").unwrap_or_else(|| start.map_or(last, |start| last.max(start)))
    });
    [("startTime", start), ("completionTime", completion)]
}

fn time(status: &Value, field: &str) -> Option<Timestamp> {
    let time = status.get(field)?.as_str()?.parse().ok()?;
    Some(whole_seconds(time))
}

fn conditions(
    state: State,
    template: &Value,
    items: &[AggregatedStatusItem],
    succeeded: i64,
    now: &Time,
) -> Vec<Value> {
    let old = template.pointer("/status/conditions");
    let old = old.and_then(Value::as_array);
    let known = |kind: &str| {
        let mut known = old.into_iter().flatten();
        known.find(|c| c["type"] == kind && c["status"] == "True")
    };
    // A condition that stays keeps its times, because each write causes another aggregation.
    let condition = |kind: &str, reason: &str, message: &str| match known(kind) {
        Some(known) if known["message"] == message => known.clone(),
        known => {
            let since = known.map(|known| known["lastTransitionTime"].clone());
            json!({ "type": kind, "status": "True", "reason": reason, "message": message,
                "lastProbeTime": now, "lastTransitionTime": since.unwrap_or_else(|| json!(now)) })
        }
    };
    let failure = || {
        let failed = reports(items).filter(|(_, report)| has_condition(report, "Failed"));
        let failed: Vec<&str> = failed.map(|(cluster, _)| cluster).collect();
        match known("FailureTarget") {
            Some(known) if failed.is_empty() => text_at(known, "/message").to_owned(),
            _ => format!(
                "Job executed failed in member clusters {}",
                failed.join(",")
            ),
        }
    };
    let criteria = || {
        let message = "All member clusters have met success criteria";
        condition("SuccessCriteriaMet", "CompletionsReached", message)
    };
    match state {
        State::Running => Vec::new(),
        State::Succeeding => vec![criteria()],
        State::Failing => vec![condition("FailureTarget", "JobFailed", &failure())],
        State::Failed => {
            let message = failure();
            let kinds = ["FailureTarget", "Failed"];
            kinds
                .map(|kind| condition(kind, "JobFailed", &message))
                .to_vec()
        }
        State::Complete => {
            let message = completion_message(template, succeeded);
            vec![condition("Complete", "Completed", &message), criteria()]
        }
    }
}

/// Returns the message of a complete Job. The message names the completions that are missing, because a cluster left
/// with its share.
fn completion_message(template: &Value, succeeded: i64) -> String {
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let wanted = spec["completions"].as_i64();
    match wanted.filter(|wanted| *wanted > succeeded && spec["successPolicy"].is_null()) {
        Some(wanted) => format!("Job completed with {succeeded} of {wanted} completions"),
        None => "Job completed".to_owned(),
    }
}
