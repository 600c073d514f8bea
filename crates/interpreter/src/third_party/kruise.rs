//! Rules for the workloads of OpenKruise.

use std::collections::BTreeSet;

use berth_api::dependency::DependentObjectReference;
use berth_apimachinery::json_fields::{number, text_at};
use serde_json::{Value, json};

use super::pods::{dependencies, named, of_template, replicas_at, template_dependencies};
use super::reports::{conditions_of, with_generations};
use super::{Aggregation, Fields, Kind, Result, missing, picked, required, set_in_spec};
use crate::workload_requirements::Interpretation;

pub(super) static KINDS: [Kind; 7] = [
    Kind {
        aggregate: Some(aggregate_cron_job),
        dependencies: Some(cron_job_dependencies),
        ..Kind::new("apps.kruise.io/v1alpha1", "AdvancedCronJob")
    },
    Kind {
        replicas: Some(|job| of_template(job, replicas_at(job, "/spec/parallelism", Some(1))?)),
        revise: Some(|job, replicas| set_in_spec(job, "parallelism", replicas)),
        retain: Some(retain_template_labels),
        reflect: Some(|_, status| picked(status, &BROADCAST_JOB)),
        aggregate: Some(aggregate_broadcast_job),
        health: Some(is_broadcast_job_healthy),
        dependencies: Some(template_dependencies),
        ..Kind::new("apps.kruise.io/v1alpha1", "BroadcastJob")
    },
    Kind {
        replicas: Some(replicas),
        revise: Some(|set, replicas| set_in_spec(set, "replicas", replicas)),
        reflect: Some(|set, status| with_generations(set, status, &CLONE_SET)),
        aggregate: Some(|members| {
            let mut status = with_counters(members, &CLONE_SET[..6]);
            if !members.items.is_empty() {
                add_texts(&mut status, members, &CLONE_SET[6..9]);
            }
            Some(status)
        }),
        health: Some(is_rolled_out),
        dependencies: Some(template_dependencies),
        ..Kind::new("apps.kruise.io/v1alpha1", "CloneSet")
    },
    Kind {
        reflect: Some(|set, status| with_generations(set, status, &DAEMON_SET)),
        aggregate: Some(|members| {
            let mut status = with_counters(members, &DAEMON_SET[..7]);
            let hash = members.last("daemonSetHash").cloned();
            // As in Karmada, the hash is 0 if no member reports a hash.
            status.insert("daemonSetHash".to_owned(), hash.unwrap_or_else(|| json!(0)));
            Some(status)
        }),
        health: Some(is_daemon_set_rolled_out),
        dependencies: Some(template_dependencies),
        ..Kind::new("apps.kruise.io/v1alpha1", "DaemonSet")
    },
    Kind {
        replicas: Some(|_| Ok(Interpretation::default())),
        retain: Some(|_, _| ()),
        reflect: Some(|_, status| sidecar_counters(|field| number(status, field))),
        aggregate: Some(|members| Some(sidecar_counters(|field| members.sum(field)))),
        health: Some(|set| {
            let matched = set.pointer("/status/matchedPods").and_then(Value::as_i64);
            let status = set.get("status").unwrap_or(&Value::Null);
            let is_updated = number(status, "updatedPods") == matched.unwrap_or(0);
            Ok(status.is_object() && (matched.unwrap_or(0) == 0 || is_updated))
        }),
        dependencies: Some(|set| Ok(sidecar_dependencies(set))),
        ..Kind::new("apps.kruise.io/v1alpha1", "SidecarSet")
    },
    Kind {
        replicas: Some(replicas),
        revise: Some(|set, replicas| set_in_spec(set, "replicas", replicas)),
        reflect: Some(|set, status| with_generations(set, status, &UNITED_DEPLOYMENT)),
        aggregate: Some(|members| {
            let mut status = with_counters(members, &UNITED_DEPLOYMENT[..5]);
            let mut conditions: Vec<Value> = Vec::new();
            for (_, condition) in members.conditions() {
                let kind = condition.get("type");
                match conditions
                    .iter_mut()
                    .find(|other| other.get("type") == kind)
                {
                    Some(other) => *other = condition.clone(),
                    None => conditions.push(condition.clone()),
                }
            }
            if !conditions.is_empty() {
                status.insert("conditions".to_owned(), Value::Array(conditions));
            }
            Some(status)
        }),
        health: Some(|deployment| {
            let has = |field: &str| deployment.get(field).is_some_and(Value::is_object);
            Ok(has("status") && has("spec") && is_rolled_out(deployment)?)
        }),
        dependencies: Some(template_dependencies),
        ..Kind::new("apps.kruise.io/v1alpha1", "UnitedDeployment")
    },
    Kind {
        replicas: Some(replicas),
        revise: Some(|set, replicas| set_in_spec(set, "replicas", replicas)),
        reflect: Some(|set, status| with_generations(set, status, &STATEFUL_SET)),
        aggregate: Some(|members| {
            let mut status = with_counters(members, &STATEFUL_SET[..6]);
            add_texts(&mut status, members, &STATEFUL_SET[6..8]);
            Some(status)
        }),
        health: Some(is_rolled_out),
        dependencies: Some(template_dependencies),
        ..Kind::new("apps.kruise.io/v1beta1", "StatefulSet")
    },
];

const BROADCAST_JOB: [&str; 8] = [
    "conditions",
    "startTime",
    "completionTime",
    "active",
    "succeeded",
    "failed",
    "desired",
    "phase",
];
/// The reported fields of a CloneSet. The first six are counters, and the next three are strings.
const CLONE_SET: [&str; 10] = [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReadyReplicas",
    "expectedUpdatedReplicas",
    "updateRevision",
    "currentRevision",
    "labelSelector",
    "observedGeneration",
];
/// The reported fields of a DaemonSet. The first seven are counters.
const DAEMON_SET: [&str; 9] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "daemonSetHash",
    "observedGeneration",
];
/// The reported fields of a UnitedDeployment. The first five are counters.
const UNITED_DEPLOYMENT: [&str; 7] = [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "observedGeneration",
    "conditions",
];
/// The reported fields of a StatefulSet. The first six are counters, and the next two are strings.
const STATEFUL_SET: [&str; 9] = [
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "updatedReadyReplicas",
    "updateRevision",
    "currentRevision",
    "observedGeneration",
];

fn replicas(object: &Value) -> Result<Interpretation> {
    of_template(object, replicas_at(object, "/spec/replicas", None)?)
}

/// Returns the old status with the sums of the counters and the observed generation.
fn with_counters(members: Aggregation<'_>, counters: &[&str]) -> Fields {
    let mut status = members.old();
    for counter in counters {
        status.insert((*counter).to_owned(), json!(members.sum(counter)));
    }
    members.set_observed_generation(&mut status);
    status
}

fn add_texts(status: &mut Fields, members: Aggregation<'_>, fields: &[&str]) {
    for field in fields {
        let text = members.last(field).cloned();
        status.insert((*field).to_owned(), text.unwrap_or_else(|| json!("")));
    }
}

/// Reports whether all replicas are updated and available.
fn is_rolled_out(object: &Value) -> Result<bool> {
    if !is_observed(object)? {
        return Ok(false);
    }
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    if let Some(replicas) = replicas
        && required(object, "/status/updatedReplicas")? < replicas
    {
        return Ok(false);
    }
    let available = required(object, "/status/availableReplicas")?;
    Ok(available >= required(object, "/status/updatedReplicas")?)
}

fn is_daemon_set_rolled_out(set: &Value) -> Result<bool> {
    if !is_observed(set)? {
        return Ok(false);
    }
    let updated = required(set, "/status/updatedNumberScheduled")?;
    Ok(updated >= required(set, "/status/desiredNumberScheduled")?
        && required(set, "/status/numberAvailable")? >= updated)
}

fn is_observed(object: &Value) -> Result<bool> {
    let status = status_of(object)?;
    Ok(status.get("observedGeneration") == object.pointer("/metadata/generation"))
}

/// Returns the status of an object, or an error if the object has no status.
fn status_of(object: &Value) -> Result<&Value> {
    let status = object.get("status").filter(|status| status.is_object());
    status.ok_or_else(|| missing("/status"))
}

fn is_broadcast_job_healthy(job: &Value) -> Result<bool> {
    let status = status_of(job)?;
    let count = |field: &str| status.get(field).and_then(Value::as_i64);
    let is_idle = count("succeeded") == Some(0) && count("active") == Some(0);
    Ok(count("desired") != Some(0) && count("failed") == Some(0) && !is_idle)
}

fn aggregate_broadcast_job(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    let mut status = members.old();
    for counter in ["active", "succeeded", "failed", "desired"] {
        status.insert(counter.to_owned(), json!(members.sum(counter)));
    }
    let phase = members.values("phase").last().cloned();
    status.insert("phase".to_owned(), phase.unwrap_or_else(|| json!("")));
    let (mut complete, mut failed) = (0, Vec::new());
    // As in Karmada, an unfinished member counts with the result of the previous member.
    let mut last = None;
    for item in members.items {
        let report = item.status.as_ref().unwrap_or(&Value::Null);
        let mut kinds = conditions_of(report)
            .filter(|condition| text_at(condition, "/status") == "True")
            .map(|condition| text_at(condition, "/type"));
        last = kinds
            .find(|kind| matches!(*kind, "Complete" | "Failed"))
            .or(last);
        match last {
            Some("Complete") => complete += 1,
            Some("Failed") => failed.push(item.cluster_name.as_str()),
            _ => {}
        }
    }
    let mut conditions = Vec::new();
    if !failed.is_empty() {
        let clusters = failed.join(", ");
        conditions.push(
            json!({"type": "Failed", "status": "True", "reason": "JobFailed",
            "message": format!("Job executed failed in member clusters: {clusters}")}),
        );
    }
    if complete == members.items.len() {
        conditions.push(
            json!({"type": "Completed", "status": "True", "reason": "Completed",
            "message": "Job completed"}),
        );
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    Some(status)
}

/// Retains the labels of the pod template, because the controller in the member adds labels to the template.
fn retain_template_labels(desired: &mut Value, observed: &Value) {
    let labels = observed.pointer("/spec/template/metadata/labels");
    let template = desired.pointer_mut("/spec/template");
    if let (Some(labels), Some(template)) = (labels, template)
        && template.is_object()
        && labels.is_object()
    {
        template["metadata"]["labels"] = labels.clone();
    }
}

fn aggregate_cron_job(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    let mut status = members.old();
    status.insert("active".to_owned(), members.joined("active"));
    let kind = members.values("type").last().cloned();
    status.insert("type".to_owned(), kind.unwrap_or_else(|| json!("")));
    let time = members.values("lastScheduleTime").last().cloned();
    status.insert("lastScheduleTime".to_owned(), time.unwrap_or(Value::Null));
    Some(status)
}

fn cron_job_dependencies(job: &Value) -> Result<Vec<DependentObjectReference>> {
    let template = ["broadcastJobTemplate", "jobTemplate"]
        .iter()
        .find_map(|field| job.pointer(&format!("/spec/template/{field}/spec/template")));
    dependencies(job, template)
}

fn sidecar_counters(counter: impl Fn(&str) -> i64) -> Fields {
    let fields = ["matchedPods", "updatedPods", "readyPods"];
    fields
        .into_iter()
        .map(|field| (field.to_owned(), json!(counter(field))))
        .collect()
}

/// Returns the ConfigMaps and Secrets that the injected containers and volumes reference.
fn sidecar_dependencies(set: &Value) -> Vec<DependentObjectReference> {
    let (mut config_maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    let list = |value: &'_ Value, pointer: &str| -> Vec<Value> {
        let list = value.pointer(pointer).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    for container in list(set, "/spec/containers") {
        for variable in list(&container, "/env") {
            config_maps.insert(text_at(&variable, "/valueFrom/configMapKeyRef/name").to_owned());
            secrets.insert(text_at(&variable, "/valueFrom/secretKeyRef/name").to_owned());
        }
        for source in list(&container, "/envFrom") {
            config_maps.insert(text_at(&source, "/configMapRef/name").to_owned());
            secrets.insert(text_at(&source, "/secretRef/name").to_owned());
        }
    }
    for volume in list(set, "/spec/volumes") {
        config_maps.insert(text_at(&volume, "/configMap/name").to_owned());
        secrets.insert(text_at(&volume, "/secret/secretName").to_owned());
        for source in list(&volume, "/projected/sources") {
            config_maps.insert(text_at(&source, "/configMap/name").to_owned());
            secrets.insert(text_at(&source, "/secret/name").to_owned());
        }
    }
    let values =
        |names: BTreeSet<String>| -> Vec<Value> { names.into_iter().map(Value::String).collect() };
    let (config_maps, secrets) = (values(config_maps), values(secrets));
    let mut all = named(set, "ConfigMap", config_maps.iter().map(Some));
    all.extend(named(set, "Secret", secrets.iter().map(Some)));
    all
}
