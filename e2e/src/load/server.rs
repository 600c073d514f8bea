//! The load scenario `server`: writes, lists, watches and memory of an API server without other components, compared
//! with targets.

use std::time::{Duration, Instant};

use clap::Args;
use kube::Client;
use serde_json::{Map, Value, json};

use super::requests::{self, PlannedRequest};
use super::server_process::{ServerProcess, Storage};
use super::{LoadError, at_most, fan_out, millis, percentile, rate, workload};

/// Namespace of the ConfigMaps of 4 KiB.
const LARGE: &str = "large";
/// Namespace of the ConfigMaps of 1 KiB.
const SMALL: &str = "small";
/// Namespace of the ResourceBindings.
const BINDINGS: &str = "bindings";
/// Number of times that each list is read. The report contains the median time.
const LISTS: usize = 5;
/// Number of list requests whose responses the client does not read.
const UNREAD_LISTS: usize = 50;

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct ServerLoad {
    /// Number of clients that write at the same time, each with its own connection
    #[arg(long, default_value_t = 32)]
    pub clients: usize,
    /// Number of objects of each kind
    #[arg(long, default_value_t = 10_000)]
    pub objects: usize,
    /// Number of clients that watch
    #[arg(long, default_value_t = 100)]
    pub watches: usize,
    /// Updates per second while the clients watch
    #[arg(long, default_value_t = 500)]
    pub updates: u32,
    /// Seconds to watch
    #[arg(long, default_value_t = 10)]
    pub seconds: u32,
    /// Storage of the server's objects.
    #[command(flatten)]
    pub storage: Storage,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails or takes too long.
pub async fn server(load: &ServerLoad) -> Result<Value, LoadError> {
    let server = ServerProcess::start(&load.storage).await?;
    // The targets are for a server that keeps objects in memory only. A server with a data folder may take twice as
    // long.
    let target = |per_second: f64| match load.storage.data_dir {
        Some(_) => Some(per_second / 2.0),
        None => Some(per_second),
    };
    let mut report = Map::new();
    report.insert("scenario".into(), json!("server"));
    let mut note = |name: &str, value: Value| drop(report.insert(name.to_owned(), value));
    note("kept in a folder", json!(load.storage.data_dir.is_some()));
    note("waits for the disk", json!(load.storage.fsync));
    note("ready, ms", at_most(millis(server.ready_after), 300.0));
    note("empty, MiB", at_most(mib(server.resident_kib()), 60.0));
    let client = server.client().await?;
    berth_up::bootstrap::prepare(&client, &[])
        .await
        .map_err(|error| LoadError::Unexpected(error.to_string()))?;
    for name in [LARGE, SMALL, BINDINGS] {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let wanted = PlannedRequest::create("/api/v1/namespaces", &namespace);
        requests::read_body(requests::send(&client, &wanted).await?).await?;
    }
    let before = server.resident_kib();
    note("with Karmada's definitions, MiB", json!(mib(before)));
    let mut clients = Vec::new();
    for _ in 0..load.clients {
        clients.push(server.client().await?);
    }
    for client in &clients {
        requests::get(client, "/readyz").await?;
    }

    let writes = [
        (
            "ConfigMap of 4 KiB, creates",
            creates(LARGE, 4096, load.objects),
            target(5000.0),
        ),
        (
            "ConfigMap of 4 KiB, merge patches",
            patches(LARGE, load.objects),
            target(4000.0),
        ),
        (
            "ConfigMap of 1 KiB, creates",
            creates(SMALL, 1024, load.objects),
            None,
        ),
        ("ResourceBinding, creates", bindings(load.objects)?, None),
        (
            "ResourceBinding, merge patches",
            binding_patches(load.objects),
            None,
        ),
    ];
    for (name, all, target) in writes {
        let figures = timed(&server, &clients, all, target).await?;
        note(name, figures);
    }

    let mut json_bytes = 0;
    let paths = [
        ("list of ConfigMaps of 4 KiB", configmaps(LARGE)),
        ("list of ConfigMaps of 1 KiB", configmaps(SMALL)),
        ("list of ResourceBindings", binding_path()),
    ];
    for (name, path) in paths {
        let (size, median) = timed_lists(&client, &path).await?;
        json_bytes += size;
        note(
            name,
            json!({ "objects": load.objects, "MiB": mib(size / 1024),
                    "median, ms": at_most(millis(median), 250.0) }),
        );
    }
    let resident = server.resident_kib();
    note(
        "memory with all objects",
        memory(resident, before, json_bytes),
    );

    note("watches", watches(&server, load, &clients).await?);
    let resident = server.resident_kib();
    note(
        "memory after the watches",
        memory(resident, before, json_bytes),
    );
    note("unread lists", unread(&server).await?);
    Ok(Value::Object(report))
}

/// Requests a long list over many connections without reading the responses, and reports the additional memory of the
/// server.
async fn unread(server: &ServerProcess) -> Result<Value, LoadError> {
    let before = server.resident_kib();
    let mut responses = Vec::with_capacity(UNREAD_LISTS);
    for _ in 0..UNREAD_LISTS {
        let client = server.client().await?;
        let response = requests::send(&client, &PlannedRequest::get(&configmaps(LARGE))).await?;
        responses.push((client, response));
    }
    let more = server.resident_kib().saturating_sub(before);
    Ok(json!({ "lists": responses.len(), "MiB more": mib(more) }))
}

/// Reports the resident memory of the server, and the ratio of this memory to the size of the JSON of all objects.
fn memory(resident: u64, before: u64, json_bytes: u64) -> Value {
    let times = |kib: u64| tenths(ratio(kib * 1024, json_bytes));
    json!({
        "JSON, MiB": mib(json_bytes / 1024), "resident, MiB": mib(resident),
        "times the JSON": at_most(times(resident), 4.0),
        "times the JSON, without the empty server": times(resident.saturating_sub(before)),
    })
}

/// Sends writes, and reports their rate and the server's processor time for each write.
async fn timed(
    server: &ServerProcess,
    clients: &[Client],
    all: Vec<PlannedRequest>,
    target: Option<f64>,
) -> Result<Value, LoadError> {
    let count = all.len();
    let processor = server.processor_time();
    let began = Instant::now();
    requests::send_all(clients, all).await?;
    let took = began.elapsed();
    let processor = server.processor_time().saturating_sub(processor);
    let each = processor / u32::try_from(count).unwrap_or(u32::MAX);
    let per_second = rate(count, took);
    Ok(json!({
        "per second": match target {
            Some(target) => at_least(per_second, target),
            None => json!(per_second),
        },
        "server's processor time each, µs": each.as_micros(),
    }))
}

async fn timed_lists(client: &Client, path: &str) -> Result<(u64, Duration), LoadError> {
    let mut times = Vec::with_capacity(LISTS);
    let mut size = 0;
    for _ in 0..LISTS {
        let began = Instant::now();
        size = requests::get(client, path).await?.len();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok((
        u64::try_from(size).unwrap_or(u64::MAX),
        percentile(&times, 0.5),
    ))
}

async fn watches(
    server: &ServerProcess,
    load: &ServerLoad,
    writers: &[Client],
) -> Result<Value, LoadError> {
    let mut watching = Vec::with_capacity(load.watches);
    for _ in 0..load.watches {
        watching.push(server.client().await?);
    }
    let updates = usize::try_from(load.updates * load.seconds).unwrap_or(usize::MAX);
    let names: Vec<String> = (0..load.objects.min(100)).map(object_name).collect();
    let processor = server.processor_time();
    let began = Instant::now();
    let path = configmaps(SMALL);
    let seen = fan_out::fan_out(&watching, writers, &path, &names, load.updates, updates).await?;
    let took = began.elapsed();
    let processor = server.processor_time().saturating_sub(processor);
    let expected = load.watches * updates;
    if seen.lines != expected {
        return Err(LoadError::Unexpected(format!(
            "the watches received {} of {expected} events",
            seen.lines
        )));
    }
    Ok(json!({
        "watches": load.watches, "updates": updates, "updates/s": rate(updates, took),
        "events seen": seen.lines, "events read": seen.latencies.len(),
        "write sent to event read p50, ms": millis(percentile(&seen.latencies, 0.5)),
        "write sent to event read p99, ms": at_most(millis(percentile(&seen.latencies, 0.99)), 50.0),
        "server's processor time, part of one core":
            tenths(processor.as_secs_f64() / took.as_secs_f64() * 10.0) / 10.0,
    }))
}

fn configmaps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn binding_path() -> String {
    format!("/apis/work.karmada.io/v1alpha2/namespaces/{BINDINGS}/resourcebindings")
}

fn object_name(index: usize) -> String {
    format!("object-{index:06}")
}

fn creates(namespace: &str, size: usize, count: usize) -> Vec<PlannedRequest> {
    let path = configmaps(namespace);
    let text = "0123456789abcdef".repeat(size / 16);
    let object = |index| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": object_name(index), "labels": { "app": "load" } },
                "data": { "text": text } })
    };
    (0..count)
        .map(|index| PlannedRequest::create(&path, &object(index)))
        .collect()
}

fn patches(namespace: &str, count: usize) -> Vec<PlannedRequest> {
    let path = configmaps(namespace);
    let change = |index: usize| json!({ "data": { "changed": index.to_string() } });
    (0..count)
        .map(|index| {
            PlannedRequest::merge(format!("{path}/{}", object_name(index)), &change(index))
        })
        .collect()
}

fn bindings(count: usize) -> Result<Vec<PlannedRequest>, LoadError> {
    let path = binding_path();
    let namespaces = [BINDINGS.to_owned()];
    let bindings = workload::bindings("b", count, &namespaces, "unused")?;
    let mut all = Vec::with_capacity(count);
    for (index, mut binding) in bindings.into_iter().enumerate() {
        binding.metadata.name = Some(object_name(index));
        let object = serde_json::to_value(&binding);
        let object = object.map_err(|error| LoadError::Unexpected(error.to_string()))?;
        all.push(PlannedRequest::create(&path, &object));
    }
    Ok(all)
}

fn binding_patches(count: usize) -> Vec<PlannedRequest> {
    let path = binding_path();
    let change = json!({ "spec": { "clusters": [
        { "name": "member-1", "replicas": 2 }, { "name": "member-2", "replicas": 1 } ] } });
    (0..count)
        .map(|index| PlannedRequest::merge(format!("{path}/{}", object_name(index)), &change))
        .collect()
}

fn at_least(measured: f64, target: f64) -> Value {
    json!({ "measured": measured, "at least": target, "met": measured >= target })
}

fn mib(kib: u64) -> f64 {
    tenths(ratio(kib, 1024))
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
