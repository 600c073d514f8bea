//! Aggregation of Jobs. A Job is complete if it is complete in every member, and failed if it failed in any member.

use berth_api::binding::AggregatedStatusItem;
use berth_apimachinery::json_fields::has_condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::{put, reports, total};

/// Returns the status of a Job, or `None` if the Job has finished. The status of a finished Job is final.
pub(super) fn status(
    old: Option<&Value>,
    items: &[AggregatedStatusItem],
    now: &Time,
) -> Option<Value> {
    if old.is_some_and(|old| has_condition(old, "Complete") || has_condition(old, "Failed")) {
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
    // Returns the times in a field, or `None` if a member does not report a valid time.
    let times = |field: &str| {
        let times = reports(items).filter_map(|(_, report)| report.get(field)?.as_str());
        let times = times.filter(|time| time.parse::<jiff::Timestamp>().is_ok());
        let times: Vec<&str> = times.collect();
        (!items.is_empty() && times.len() == items.len()).then_some(times)
    };
    // RFC 3339 times in UTC sort as text.
    let start = old.and_then(|old| old.get("startTime")?.as_str());
    let start = start.or_else(|| times("startTime")?.into_iter().min());
    let completion = times("completionTime").and_then(|times| times.into_iter().max());
    for (field, time) in [("startTime", start), ("completionTime", completion)] {
        if let Some(time) = time {
            status.insert(field.to_owned(), json!(time));
        }
    }
    Some(Value::Object(status))
}

fn conditions(items: &[AggregatedStatusItem], now: &Time) -> Vec<Value> {
    let clusters_with = |kind: &str| -> Vec<&str> {
        let matching = reports(items).filter(|(_, report)| has_condition(report, kind));
        matching.map(|(cluster, _)| cluster).collect()
    };
    let everywhere = |kind: &str| !items.is_empty() && clusters_with(kind).len() == items.len();
    let condition = |kind: &str, reason: &str, message: String| {
        json!({ "type": kind, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now })
    };
    let mut conditions = Vec::new();
    let failed = clusters_with("Failed");
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
