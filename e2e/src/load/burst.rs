//! The load scenario `burst`: throughput of a scheduler for bindings that exist before it starts.
//!
//! The throughput is compared with the throughput of a plain writer. The plain writer is a client that sends the same
//! two patches for each binding as the scheduler, but makes no decisions meanwhile.

use std::time::{Duration, Instant};

use berth_api::binding::BindingStatus;
use berth_api::go_json::placement_json;
use berth_api::well_known::APPLIED_PLACEMENT;
use berth_api::{BindingKey, Cluster, ResourceBinding};
use berth_engine::{Engine, EngineOptions, Fleet, Request};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::scheduler_process::SchedulerProcess;
use super::{LoadError, millis, process, rate, workload};
use crate::BareControlPlane;

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct Burst {
    /// Number of clusters
    #[arg(long, default_value_t = 100)]
    pub clusters: usize,
    /// Number of bindings
    #[arg(long, default_value_t = 2000)]
    pub bindings: usize,
    /// Number of bindings that the plain writer patches at the same time; the scheduler patches up to 64
    #[arg(long, default_value_t = 64)]
    pub in_flight: usize,
    /// Maximum requests per second of the scheduler (`--kube-api-qps`); 0 means no limit
    #[arg(long, default_value_t = 0.0)]
    pub qps: f32,
    /// Feature gates of the scheduler (`--feature-gates`)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub feature_gates: String,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails or takes too long.
pub async fn burst(burst: &Burst) -> Result<Value, LoadError> {
    let clusters = workload::clusters(burst.clusters)?;
    let bare = BareControlPlane::start(&clusters).await;
    let namespaces = ["default".to_owned()];
    let pending = workload::bindings("s", burst.bindings, &namespaces, "default-scheduler")?;
    // The plain writer runs before and after the scheduler, so that both are measured at about the same machine speed.
    let before = workload::bindings("v", burst.bindings, &namespaces, "unused")?;
    let after = workload::bindings("w", burst.bindings, &namespaces, "unused")?;
    for bindings in [&before, &after, &pending] {
        bare.bind_all(bindings).await;
    }
    let (before, after) = (plans(&clusters, &before)?, plans(&clusters, &after)?);
    let own = || process::processor_time(std::process::id());
    let mut writer = Written::default();
    writer.add(&bare, &before, burst.in_flight).await?;

    let flags = [
        "--leader-elect=false".to_owned(),
        format!("--kube-api-qps={}", burst.qps),
        format!("--feature-gates={}", burst.feature_gates),
        "--v=0".to_owned(),
    ];
    let mut scheduler = SchedulerProcess::start(&bare.kubeconfig(), &flags)?;
    let limit = Duration::from_mins(10);
    let first = scheduler.scheduled(1, limit).await?;
    let all_before = own() + scheduler.processor_time();
    let count = u64::try_from(burst.bindings).unwrap_or(u64::MAX);
    let last = scheduler.scheduled(count, limit).await?;
    let scheduler_and_server = (own() + scheduler.processor_time()).saturating_sub(all_before);
    let processor = scheduler.processor_time();
    let peak = scheduler.peak_mib();
    drop(scheduler);
    writer.add(&bare, &after, burst.in_flight).await?;
    let settled = bare
        .all_bindings()
        .await
        .iter()
        .filter(|binding| {
            let status = binding.status.as_ref();
            binding.spec.scheduler_name.as_deref() == Some("default-scheduler")
                && status.and_then(|s| s.scheduler_observed_generation)
                    == binding.metadata.generation
        })
        .count();
    if settled != burst.bindings {
        return Err(LoadError::Unexpected(format!(
            "only {settled} of {count} bindings are scheduled"
        )));
    }
    let from_first = rate(burst.bindings, last.saturating_sub(first));
    let plain_writer = rate(writer.bindings, writer.took);
    let bindings = u32::try_from(burst.bindings).unwrap_or(u32::MAX).max(1);
    bare.stop().await;
    Ok(json!({
        "scenario": "burst",
        "clusters": burst.clusters, "bindings": burst.bindings, "qps": burst.qps,
        "feature gates": burst.feature_gates,
        "plain writer, bindings/s": plain_writer,
        "scheduler from its start, bindings/s": rate(burst.bindings, last),
        "scheduler from its first scheduled binding, bindings/s": from_first,
        "scheduler relative to the plain writer": (from_first / plain_writer * 1000.0).round() / 1000.0,
        "scheduler start to first scheduled binding, ms": millis(first),
        "CPU per binding of plain writer and server, ms": millis(writer.processor / bindings / 2),
        "CPU per binding of scheduler and server from the first scheduled binding, ms":
            millis(scheduler_and_server / bindings),
        "CPU per binding of scheduler, ms": millis(processor / bindings),
        "peak memory, MiB": peak,
    }))
}

/// Totals over all runs of the plain writer.
#[derive(Debug, Default)]
struct Written {
    bindings: usize,
    took: Duration,
    /// Processor time of the plain writer and the embedded server together.
    processor: Duration,
}

impl Written {
    async fn add(
        &mut self,
        bare: &BareControlPlane,
        writes: &[Write],
        in_flight: usize,
    ) -> Result<(), LoadError> {
        let own = || process::processor_time(std::process::id());
        let client = bare.remote_client().await;
        let (began, own_before) = (Instant::now(), own());
        write(client, writes, in_flight).await?;
        self.took += began.elapsed();
        self.processor += own().saturating_sub(own_before);
        self.bindings += writes.len();
        Ok(())
    }
}

/// The two patches that a scheduler sends for a binding.
struct Write {
    name: String,
    result: Value,
    status: Value,
}

/// Schedules all bindings with the engine, and returns the patches with the decisions.
fn plans(clusters: &[Cluster], bindings: &[ResourceBinding]) -> Result<Vec<Write>, LoadError> {
    let mut fleet = Fleet::new();
    for cluster in clusters {
        fleet.apply(cluster);
    }
    let wrong = |error: &dyn std::fmt::Display| LoadError::Unexpected(error.to_string());
    let mut engine = Engine::new(EngineOptions::default()).map_err(|error| wrong(&error))?;
    let mut writes = Vec::new();
    for binding in bindings {
        let name = binding.name_any();
        let request = Request::new(
            &BindingKey::of(&binding.metadata),
            &binding.spec,
            &BindingStatus::default(),
        );
        let request = request.map_err(|error| wrong(&error))?;
        let outcome = engine.schedule(&fleet.snapshot(), &request);
        let placed = outcome.result.map_err(|error| wrong(&error))?;
        let targets: Vec<Value> = placed
            .targets
            .iter()
            .map(|target| json!({ "name": &*target.name, "replicas": target.replicas }))
            .collect();
        let placement = binding.spec.placement.clone().unwrap_or_default();
        let placement = placement_json(&placement).map_err(|error| wrong(&error))?;
        let now = "2026-01-01T00:00:00Z";
        writes.push(Write {
            name,
            result: json!({
                "metadata": { "annotations": { APPLIED_PLACEMENT: placement } },
                "spec": { "clusters": targets } }),
            status: json!({ "status": {
                "schedulerObservedGeneration": 2, "lastScheduledTime": now,
                "conditions": [{ "type": "Scheduled", "status": "True", "reason": "Success",
                    "message": "Binding has been scheduled successfully.",
                    "lastTransitionTime": now }] } }),
        });
    }
    Ok(writes)
}

async fn write(client: Client, writes: &[Write], in_flight: usize) -> Result<(), LoadError> {
    let api: Api<ResourceBinding> = Api::namespaced(client, "default");
    stream::iter(writes)
        .map(|write| {
            let api = &api;
            async move {
                let parameters = PatchParams::default();
                api.patch(&write.name, &parameters, &Patch::Merge(&write.result))
                    .await?;
                api.patch_status(&write.name, &parameters, &Patch::Merge(&write.status))
                    .await
            }
        })
        .buffer_unordered(in_flight)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(())
}
