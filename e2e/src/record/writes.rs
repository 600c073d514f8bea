//! Recording of the writes of Karmada's scheduler: the annotations, clusters, status and events of recorded bindings.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_api::{Cluster, ResourceBinding};
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::data_file::{in_repository, read, write};
use super::normal_form::{message, replace_times};
use super::programs::{self, Programs};
use super::{RecordError, Recorded, Report};
use crate::{BareControlPlane, Program};

/// The time limit until each binding has the condition `Scheduled`.
const TIMEOUT: Duration = Duration::from_mins(3);
/// The time for later writes, such as the events of a retry.
const SETTLE_TIME: Duration = Duration::from_secs(15);

/// Creates the recorded clusters and bindings on a kube-apiserver, runs karmada-scheduler, and records its writes.
///
/// # Errors
/// If a program is missing or fails.
pub async fn record(programs: &Programs) -> Result<Report, RecordError> {
    let scheduler = programs.find("karmada-scheduler")?;
    let assets = programs::assets()?;
    let recorded = Recorded::today([
        ("karmada-scheduler", programs::version(&scheduler)?),
        ("kube-apiserver", programs::apiserver_version(&assets)?),
    ]);
    let file = in_repository("e2e/data/writes.json.gz");
    let mut recording: Value = serde_json::from_str(&read(&file)?)?;
    let clusters: Vec<Cluster> = serde_json::from_value(recording["clusters"].clone())?;
    let bindings: Vec<ResourceBinding> = serde_json::from_value(recording["bindings"].clone())?;

    let plane = BareControlPlane::start(&clusters).await;
    plane.bind_all(&bindings).await;
    let mut process = programs::start(&scheduler, &plane.kubeconfig(), plane.folder(), &[]);
    wait_until_scheduled(&plane, bindings.len(), &mut process).await?;
    tokio::time::sleep(SETTLE_TIME).await;
    let results = results(&plane).await?;
    drop(process);
    plane.stop().await;

    let mut old: BTreeMap<String, Value> = serde_json::from_value(recording["results"].take())?;
    old.values_mut().for_each(normalize);
    recording["results"] = json!(results);
    recording["recorded"] = json!(recorded);
    write(&file, &format!("{recording}\n"))?;
    Ok(Report::new(file, &old, &results))
}

async fn wait_until_scheduled(
    plane: &BareControlPlane,
    count: usize,
    scheduler: &mut Program,
) -> Result<(), RecordError> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let stored = plane.all_bindings().await;
        let with_condition = stored.iter().filter(|binding| {
            let mut conditions = binding.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|condition| condition.type_ == "Scheduled")
        });
        let placed = with_condition.count();
        if placed == count {
            return Ok(());
        }
        let failed = |message| RecordError::Program {
            program: "karmada-scheduler".to_owned(),
            message,
        };
        if scheduler.exit_status().is_some() || Instant::now() >= end {
            let log = scheduler.tail();
            return Err(failed(format!(
                "{placed} of {count} bindings are scheduled\n{log}"
            )));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Returns the results for all bindings in normal form, keyed by the names of the bindings.
async fn results(plane: &BareControlPlane) -> Result<BTreeMap<String, Value>, RecordError> {
    let events: Api<Event> = Api::all(plane.client.clone());
    let events = events.list(&ListParams::default()).await?.items;
    let mut results = BTreeMap::new();
    for binding in plane.all_bindings().await {
        let stored = serde_json::to_value(&binding)?;
        let mut result = json!({
            "annotations": binding.annotations(),
            "clusters": stored["spec"]["clusters"],
            "status": stored["status"],
            "events": events.iter().filter_map(|event| recorded_event(&binding, event)).collect::<Vec<_>>(),
        });
        normalize(&mut result);
        results.insert(binding.name_any(), result);
    }
    Ok(results)
}

/// Returns the recorded fields of an event about a binding or its template, and `None` for other events.
fn recorded_event(binding: &ResourceBinding, event: &Event) -> Option<Value> {
    let about = &event.involved_object;
    let is = |kind: &str, name: &str| {
        about.kind.as_deref() == Some(kind) && about.name.as_deref() == Some(name)
    };
    let resource = &binding.spec.resource;
    let on = if is("ResourceBinding", &binding.name_any()) {
        "binding"
    } else if is(&resource.kind, &resource.name) {
        "template"
    } else {
        return None;
    };
    let source = event.source.as_ref();
    Some(json!({
        "on": on,
        "type": event.type_,
        "reason": event.reason,
        "message": event.message,
        "source": source.and_then(|source| source.component.as_ref()),
        "namespace": event.metadata.namespace,
        "apiVersion": about.api_version,
    }))
}

/// Brings a result into normal form. The generation depends on the number of patches, and is removed.
fn normalize(result: &mut Value) {
    replace_times(result);
    if let Some(fields) = result.as_object_mut() {
        fields.remove("generation");
    }
    if let Some(conditions) = result["status"]["conditions"].as_array_mut() {
        for condition in conditions {
            if let Some(fields) = condition.as_object_mut() {
                fields.remove("observedGeneration");
            }
            replace_message(condition);
        }
    }
    if let Some(events) = result["events"].as_array_mut() {
        events.iter_mut().for_each(replace_message);
        events.sort_by_key(ToString::to_string);
        events.dedup();
    }
}

fn replace_message(object: &mut Value) {
    let text = object["message"].as_str().unwrap_or_default();
    object["message"] = json!(message(text));
}
