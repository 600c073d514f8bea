//! Rules for the SparkApplication of the Spark operator.

use berth_api::binding::Component;
use berth_api::quantity::Quantity;
use berth_apimachinery::json_fields::text_at;
use serde_json::{Value, json};

use super::pods::{count, node_claim, number_or_text, with_requirements};
use super::{Aggregation, Fields, Kind, Result, missing, picked};
use crate::error::InterpretError;

pub(super) static KINDS: [Kind; 1] = [Kind {
    components: Some(components),
    reflect: Some(|_, status| picked(status, &REPORTED)),
    aggregate: Some(aggregate),
    health: Some(|application| {
        let state = application.pointer("/status/applicationState/state");
        Ok(state.is_some_and(|state| *state != "FAILED"))
    }),
    ..Kind::new("sparkoperator.k8s.io/v1beta2", "SparkApplication")
}];

const REPORTED: [&str; 9] = [
    "applicationState",
    "driverInfo",
    "executorState",
    "sparkApplicationId",
    "lastSubmissionAttemptTime",
    "submissionAttempts",
    "executionAttempts",
    "submissionID",
    "terminationTime",
];

const MEBI: f64 = 1_048_576.0;
/// Minimum memory overhead of a pod without the field `memoryOverhead`, in bytes.
const LEAST_OVERHEAD: f64 = 384.0 * MEBI;

fn components(application: &Value) -> Result<Vec<Component>> {
    let kind = application.pointer("/spec/type").and_then(Value::as_str);
    let kind = kind.ok_or_else(|| missing("/spec/type"))?;
    let is_jvm = matches!(kind.to_lowercase().as_str(), "java" | "scala");
    let factor = number_or_text(application.pointer("/spec/memoryOverheadFactor"));
    let factor = factor.unwrap_or(if is_jvm { 0.1 } else { 0.4 });
    let component = |role: &str, replicas: i32| {
        let spec = application.pointer(&format!("/spec/{role}"));
        let requirements = requirements(role, spec.unwrap_or(&Value::Null), factor)?;
        with_requirements(role, replicas, Some(requirements))
    };
    Ok(vec![
        component("driver", 1)?,
        component("executor", executors(application))?,
    ])
}

fn executors(application: &Value) -> i32 {
    let instances = count(application.pointer("/spec/executor/instances"), 1);
    let dynamic = application.pointer("/spec/dynamicAllocation");
    let dynamic = dynamic.filter(|options| options["enabled"] == true);
    dynamic.map_or(instances, |options| {
        let initial = count(options.get("initialExecutors"), 1);
        instances
            .max(initial)
            .max(count(options.get("minExecutors"), 1))
    })
}

fn requirements(role: &str, spec: &Value, factor: f64) -> Result<Value> {
    let cores = spec.get("cores").filter(|cores| !cores.is_null());
    let cores = cores.map_or_else(
        || "1".to_owned(),
        |cores| {
            cores
                .as_str()
                .map_or_else(|| cores.to_string(), str::to_owned)
        },
    );
    let memory = memory_at(role, spec, "memory")?.unwrap_or(1024.0 * MEBI);
    let overhead = memory_at(role, spec, "memoryOverhead")?;
    let overhead = overhead.unwrap_or_else(|| (memory * factor).max(LEAST_OVERHEAD));
    let mut requests = json!({ "cpu": cores, "memory": bytes(memory + overhead)? });
    let gpus = number_or_text(spec.pointer("/gpu/quantity")).unwrap_or(0.0);
    let gpu = text_at(spec, "/gpu/name");
    if !gpu.is_empty() && gpus > 0.0 {
        requests[gpu] = json!(gpus.to_string());
    }
    let mut requirements = json!({ "resourceRequest": requests });
    if let Some(claim) = node_claim(spec) {
        requirements["nodeClaim"] = claim;
    }
    if let Some(class) = spec["priorityClassName"].as_str().filter(|c| !c.is_empty()) {
        requirements["priorityClassName"] = json!(class);
    }
    Ok(requirements)
}

/// Returns the bytes of an amount of memory in Java's notation, such as `512m`.
fn memory_at(role: &str, spec: &Value, field: &'static str) -> Result<Option<f64>> {
    let Some(value) = spec.get(field).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let text = value.as_str().unwrap_or_default().to_lowercase();
    let unit =
        text.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let power = match unit {
        "b" => 0,
        "k" | "kb" => 1,
        "m" | "mb" => 2,
        "g" | "gb" => 3,
        "t" | "tb" => 4,
        "p" | "pb" => 5,
        _ => -1,
    };
    let number = text[..text.len() - unit.len()].parse::<f64>();
    match number {
        Ok(number) if power >= 0 => Ok(Some(number * 1024_f64.powi(power))),
        _ => Err(InterpretError::Quantity {
            container: role.to_owned(),
            resource: field.to_owned(),
            text: value.to_string(),
        }),
    }
}

/// Returns a number of bytes as a quantity. As in Karmada, fractions of a byte are kept.
fn bytes(amount: f64) -> Result<String> {
    let text = format!("{:.6}Mi", amount / MEBI);
    match Quantity::parse(&text) {
        Ok(quantity) => Ok(quantity.to_string()),
        Err(_) => Err(InterpretError::Quantity {
            container: "spark".to_owned(),
            resource: "memory".to_owned(),
            text,
        }),
    }
}

/// Returns the severity of a state. A greater number is worse.
fn severity(state: &str) -> i32 {
    match state {
        "SUBMITTED" | "PENDING_RERUN" => 1,
        "COMPLETED" => 2,
        "SUSPENDING" | "SUSPENDED" => 3,
        "RUNNING" | "RESUMING" | "SUCCEEDING" => 4,
        "INVALIDATING" => 5,
        "FAILING" | "FAILED" | "SUBMISSION_FAILED" => 6,
        _ => 0,
    }
}

fn aggregate(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    if let Some(only) = members.only() {
        return Some(only);
    }
    let mut status = members.old();
    let worst = members
        .values("applicationState")
        .fold(None, |worst: Option<&Value>, state| {
            let severity = |state: &Value| severity(text_at(state, "/state"));
            match worst {
                Some(worst) if severity(state) <= severity(worst) => Some(worst),
                _ => Some(state),
            }
        });
    status.insert(
        "applicationState".to_owned(),
        worst.cloned().unwrap_or_default(),
    );
    for counter in ["executionAttempts", "submissionAttempts"] {
        status.insert(counter.to_owned(), json!(members.sum(counter)));
    }
    let mut executors = Fields::new();
    for value in members.values("executorState") {
        executors.extend(value.as_object().cloned().unwrap_or_default());
    }
    status.insert("executorState".to_owned(), Value::Object(executors));
    for time in ["lastSubmissionAttemptTime", "terminationTime"] {
        let latest = members.latest(time).unwrap_or_default();
        status.insert(time.to_owned(), json!(latest));
    }
    Some(status)
}
