//! Jobs: finished when they are finished everywhere, failed when they failed anywhere.

use berth_api::binding::AggregatedStatusItem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::super::counters::put;
use super::{reports, total};

/// The status of a Job; nothing where it is finished already, for that is final.
pub(super) fn status(
    old: Option<&Value>,
    items: &[AggregatedStatusItem],
    now: &Time,
) -> Option<Value> {
    if old.is_some_and(|old| has(old, "Complete") || has(old, "Failed")) {
        return None;
    }
    let mut status = Map::new();
    for field in ["active", "succeeded", "failed"] {
        put(&mut status, field, total(items, field));
    }
    let conditions = conditions(items, now);
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    let times = |field: &str| {
        let times = reports(items).filter_map(|(_, report)| report.get(field)?.as_str());
        let times = times.filter(|time| time.parse::<jiff::Timestamp>().is_ok());
        let times: Vec<&str> = times.collect();
        (!items.is_empty() && times.len() == items.len()).then_some(times)
    };
    // Times of one form: the later one is the greater text.
    let began = old.and_then(|old| old.get("startTime")?.as_str());
    let began = began.or_else(|| times("startTime")?.into_iter().min());
    let ended = times("completionTime").and_then(|times| times.into_iter().max());
    for (field, time) in [("startTime", began), ("completionTime", ended)] {
        if let Some(time) = time {
            status.insert(field.to_owned(), json!(time));
        }
    }
    Some(Value::Object(status))
}

fn conditions(items: &[AggregatedStatusItem], now: &Time) -> Vec<Value> {
    let with = |kind: &str| -> Vec<&str> {
        let having = reports(items).filter(|(_, report)| has(report, kind));
        having.map(|(cluster, _)| cluster).collect()
    };
    let everywhere = |kind: &str| !items.is_empty() && with(kind).len() == items.len();
    let condition = |kind: &str, reason: &str, message: String| {
        json!({ "type": kind, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now })
    };
    let mut conditions = Vec::new();
    let failed = with("Failed");
    if !failed.is_empty() {
        let message = format!(
            "Job executed failed in member clusters {}",
            failed.join(",")
        );
        conditions.push(condition("Failed", "JobFailed", message));
    }
    if everywhere("Complete") {
        let message = "Job completed".to_owned();
        conditions.push(condition("Complete", "Completed", message));
        if everywhere("SuccessCriteriaMet") {
            let message = "All member clusters have met success criteria".to_owned();
            conditions.push(condition(
                "SuccessCriteriaMet",
                "CompletionsReached",
                message,
            ));
        }
    }
    conditions
}

fn has(status: &Value, kind: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type") == Some(&json!(kind))
            && condition.get("status") == Some(&json!("True"))
    })
}
