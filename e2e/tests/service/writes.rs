//! What Karmada's scheduler wrote for a fleet of bindings, and whether ours writes the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::{Bare, Running, eventually};
use berth_scheduler::Options;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::watching::events;

/// What was measured on a real control plane.
#[derive(Deserialize)]
pub(crate) struct Measured {
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) bindings: Vec<ResourceBinding>,
    pub(crate) results: BTreeMap<String, Left>,
}

/// What Karmada left of a binding.
#[derive(Deserialize)]
pub(crate) struct Left {
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) clusters: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) status: Value,
    events: Vec<Told>,
}

/// An event of the measurement.
#[derive(Deserialize)]
struct Told {
    on: String,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
    source: String,
    namespace: String,
}

impl Measured {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/writes.json.gz");
        let mut text = String::new();
        GzDecoder::new(File::open(path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// A line of an event that is equal when the events are: the order of a result list is free, and so is
/// which of several reasons a message counts.
type Line = (String, String, String, String, String, String);

fn line(on: &str, kind: &str, reason: &str, message: &str, source: &str, namespace: &str) -> Line {
    let message = comparable(message);
    [on, kind, reason, &message, source, namespace]
        .map(str::to_owned)
        .into()
}

/// The message with its list sorted; of a message that counts reasons, what comes before them.
fn comparable(message: &str) -> String {
    if let Some((head, _)) = message.split_once(" clusters are available: ") {
        return head.to_owned();
    }
    let Some((head, list)) = message
        .strip_suffix('}')
        .and_then(|text| text.split_once("Result: {"))
    else {
        return message.to_owned();
    };
    let mut entries: Vec<&str> = list.split(", ").collect();
    entries.sort_unstable();
    format!("{head}Result: {{{}}}", entries.join(", "))
}

fn wanted_lines(left: &Left) -> BTreeSet<Line> {
    let told = left.events.iter();
    told.map(|e| {
        line(
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

/// The events about a binding and about its template.
fn lines_about(binding: &ResourceBinding, events: &[Event]) -> BTreeSet<Line> {
    let name = binding.name_any();
    let resource = &binding.spec.resource;
    let mut lines = BTreeSet::new();
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
        lines.insert(line(
            on,
            &text(&event.type_),
            &text(&event.reason),
            &text(&event.message),
            &text(&event.source.as_ref().and_then(|s| s.component.clone())),
            &event.namespace().unwrap_or_default(),
        ));
    }
    lines
}

/// A status without times and generations, and with messages that can be compared.
fn comparable_status(status: &Value) -> Value {
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
                fields["message"] = json!(comparable(message));
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

/// Everything that is not as Karmada left it, one line each.
fn differences(binding: &ResourceBinding, left: &Left, events: &[Event]) -> Vec<String> {
    let name = binding.name_any();
    let stored = serde_json::to_value(binding).unwrap();
    let mut found = Vec::new();
    let mut hold = |what: &str, ours: Value, karmadas: Value| {
        if ours != karmadas {
            found.push(format!(
                "{name}: {what}\n    Karmada {karmadas}\n    ours    {ours}"
            ));
        }
    };
    hold(
        "annotations",
        json!(binding.annotations()),
        json!(left.annotations.clone().unwrap_or_default()),
    );
    let clusters = stored["spec"]["clusters"].as_array().cloned();
    hold(
        "clusters",
        json!(by_name(&clusters.unwrap_or_default())),
        json!(by_name(left.clusters.as_deref().unwrap_or_default())),
    );
    hold(
        "status",
        comparable_status(&stored["status"]),
        comparable_status(&left.status),
    );
    hold(
        "events",
        json!(lines_about(binding, events)),
        json!(wanted_lines(left)),
    );
    found
}

/// All differences of the fleet.
pub(crate) async fn all_differences(bare: &Bare, measured: &Measured) -> Vec<String> {
    let stored = bare.bindings("default").list(&ListParams::default()).await;
    let stored = stored.unwrap().items;
    let events = events(bare).await;
    stored
        .iter()
        .filter_map(|binding| Some((binding, measured.results.get(&binding.name_any())?)))
        .flat_map(|(binding, left)| differences(binding, left, &events))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karmada_and_we_write_the_same() {
    let measured = Measured::read();
    assert_eq!(measured.bindings.len(), 90);
    let bare = Bare::start(&measured.clusters).await;
    bare.bind_all(&measured.bindings).await;
    let scheduler = Running::start(Options::embedded(), bare.remote_client().await);
    // Events may come later than the status: all of it is compared until all of it is there.
    eventually("all that Karmada wrote", async || {
        let found = all_differences(&bare, &measured).await;
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
