//! A comparison of the scheduler's writes with recorded writes of Karmada's scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::record::normal_form;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::assertions::events;

/// Objects of a Karmada control plane, and the writes of Karmada's scheduler to them.
#[derive(Deserialize)]
pub(crate) struct Recording {
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) bindings: Vec<ResourceBinding>,
    pub(crate) results: BTreeMap<String, RecordedBinding>,
}

/// A binding after Karmada's scheduler has handled it, and the events about it.
#[derive(Deserialize)]
pub(crate) struct RecordedBinding {
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) clusters: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) status: Value,
    events: Vec<RecordedEvent>,
}

/// A recorded event about a binding or its template.
#[derive(Deserialize)]
struct RecordedEvent {
    on: String,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
    source: String,
    namespace: String,
}

impl Recording {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/writes.json.gz");
        let mut text = String::new();
        GzDecoder::new(File::open(path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// The fields of an event that are compared, with a normalized message.
type EventKey = (String, String, String, String, String, String);

fn event_key(
    on: &str,
    kind: &str,
    reason: &str,
    message: &str,
    source: &str,
    namespace: &str,
) -> EventKey {
    let message = normalized(message);
    [on, kind, reason, &message, source, namespace]
        .map(str::to_owned)
        .into()
}

/// Returns a message in a form that can be compared. The clusters of a result are sorted, and the counted reasons of a
/// failure are removed.
fn normalized(message: &str) -> String {
    match message.split_once(" clusters are available: ") {
        Some((head, _)) => head.to_owned(),
        None => normal_form::message(message),
    }
}

fn recorded_event_keys(recorded: &RecordedBinding) -> BTreeSet<EventKey> {
    let events = recorded.events.iter();
    events
        .map(|e| {
            event_key(
                &e.on,
                &e.kind,
                &e.reason,
                &e.message,
                &e.source,
                &e.namespace,
            )
        })
        .collect()
}

/// Returns the keys of the events about a binding and about its template.
fn event_keys_of(binding: &ResourceBinding, events: &[Event]) -> BTreeSet<EventKey> {
    let name = binding.name_any();
    let resource = &binding.spec.resource;
    let mut keys = BTreeSet::new();
    for event in events {
        let about = &event.involved_object;
        let is = |kind: &str, name: &str| {
            about.kind.as_deref() == Some(kind) && about.name.as_deref() == Some(name)
        };
        let on = if is("ResourceBinding", &name) {
            "binding"
        } else if is(&resource.kind, &resource.name) {
            "template"
        } else {
            continue;
        };
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        keys.insert(event_key(
            on,
            &text(&event.type_),
            &text(&event.reason),
            &text(&event.message),
            &text(&event.source.as_ref().and_then(|s| s.component.clone())),
            &event.namespace().unwrap_or_default(),
        ));
    }
    keys
}

/// Returns the compared fields of a status, without times and generations, and with normalized messages.
fn normalized_status(status: &Value) -> Value {
    let conditions: Vec<Value> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| {
            let mut condition = condition.clone();
            if let Some(fields) = condition.as_object_mut() {
                fields.remove("lastTransitionTime");
                fields.remove("observedGeneration");
                let message = fields["message"].as_str().unwrap_or_default();
                fields["message"] = json!(normalized(message));
            }
            condition
        })
        .collect();
    json!({
        "conditions": conditions,
        "affinity": status.get("schedulerObservingAffinityName"),
        "has lastScheduledTime": status.get("lastScheduledTime").is_some(),
        "has observed generation": status.get("schedulerObservedGeneration").is_some(),
    })
}

fn by_name(clusters: &[Value]) -> Vec<Value> {
    let mut sorted = clusters.to_vec();
    sorted.sort_by_key(|cluster| cluster["name"].to_string());
    sorted
}

/// Returns the differences between a binding with its events and the recorded binding.
fn differences(
    binding: &ResourceBinding,
    recorded: &RecordedBinding,
    events: &[Event],
) -> Vec<String> {
    let name = binding.name_any();
    let stored = serde_json::to_value(binding).unwrap();
    let mut found = Vec::new();
    let mut compare = |what: &str, ours: Value, karmadas: Value| {
        if ours != karmadas {
            found.push(format!(
                "{name}: {what}\n    Karmada {karmadas}\n    ours    {ours}"
            ));
        }
    };
    compare(
        "annotations",
        json!(binding.annotations()),
        json!(recorded.annotations.clone().unwrap_or_default()),
    );
    let clusters = stored["spec"]["clusters"].as_array().cloned();
    compare(
        "clusters",
        json!(by_name(&clusters.unwrap_or_default())),
        json!(by_name(recorded.clusters.as_deref().unwrap_or_default())),
    );
    compare(
        "status",
        normalized_status(&stored["status"]),
        normalized_status(&recorded.status),
    );
    compare(
        "events",
        json!(event_keys_of(binding, events)),
        json!(recorded_event_keys(recorded)),
    );
    found
}

/// Returns the differences between all bindings and their recorded counterparts.
pub(crate) async fn all_differences(bare: &BareControlPlane, recording: &Recording) -> Vec<String> {
    let stored = bare.bindings("default").list(&ListParams::default()).await;
    let stored = stored.unwrap().items;
    let events = events(bare).await;
    stored
        .iter()
        .filter_map(|binding| Some((binding, recording.results.get(&binding.name_any())?)))
        .flat_map(|(binding, recorded)| differences(binding, recorded, &events))
        .collect()
}

/// The annotations, clusters, status and events of 90 bindings equal the recorded values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_equal_those_of_karmadas_scheduler() {
    let recording = Recording::read();
    assert_eq!(recording.bindings.len(), 90);
    let bare = BareControlPlane::start(&recording.clusters).await;
    bare.bind_all(&recording.bindings).await;
    // Karmada records all events.
    let options = Options {
        routine_events: true,
        ..Options::embedded()
    };
    let scheduler = RunningScheduler::start(options, bare.remote_client().await);
    // The scheduler may write events after the status. Therefore the comparison is repeated until there is no
    // difference.
    eventually("the writes of Karmada", async || {
        let found = all_differences(&bare, &recording).await;
        if found.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "{} differences:\n{}",
                found.len(),
                found.join("\n")
            ))
        }
    })
    .await;
    scheduler.stop().await.unwrap();
    bare.stop().await;
}
