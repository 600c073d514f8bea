//! The load scenario `steady`: latency of bindings that are created at a steady rate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::ResourceBinding;
use clap::Args;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::scheduler_process::SchedulerProcess;
use super::{LoadError, millis, percentile, watch, workload};
use crate::BareControlPlane;

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct Steady {
    /// Number of clusters
    #[arg(long, default_value_t = 100)]
    pub clusters: usize,
    /// Bindings created per second
    #[arg(long, default_value_t = 50)]
    pub rate: u32,
    /// Seconds to run
    #[arg(long, default_value_t = 20)]
    pub seconds: u32,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails or takes too long.
pub async fn steady(steady: &Steady) -> Result<Value, LoadError> {
    let bare = BareControlPlane::start(&workload::clusters(steady.clusters)?).await;
    let count = usize::try_from(steady.rate * steady.seconds).unwrap_or(usize::MAX);
    let namespaces = ["default".to_owned()];
    let bindings = workload::bindings("s", count, &namespaces, "default-scheduler")?;
    let warm_up = workload::bindings("warm", 1, &namespaces, "default-scheduler")?;
    bare.bind_all(&warm_up).await;
    let flags = [
        "--leader-elect=false".to_owned(),
        "--kube-api-qps=0".to_owned(),
    ];
    let mut scheduler = SchedulerProcess::start(&bare.kubeconfig(), &flags)?;
    scheduler.scheduled(1, Duration::from_mins(1)).await?;

    let seen: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let watching = tokio::spawn(record(Api::all(bare.client.clone()), seen.clone()));
    let api = bare.bindings("default");
    let mut created = Vec::with_capacity(count);
    let mut clock = tokio::time::interval(Duration::from_secs(1) / steady.rate);
    for binding in &bindings {
        clock.tick().await;
        created.push((binding.name_any(), Instant::now()));
        api.create(&PostParams::default(), binding).await?;
    }
    let all = u64::try_from(count).unwrap_or(u64::MAX);
    let limit = Duration::from_mins(5);
    scheduler.scheduled(all.saturating_add(1), limit).await?;
    let mut latencies = Vec::with_capacity(count);
    while latencies.len() < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        latencies = created
            .iter()
            .filter_map(|(name, at)| Some(seen.get(name)?.saturating_duration_since(*at)))
            .collect();
        if scheduler.started.elapsed() > limit {
            break;
        }
    }
    watching.abort();
    latencies.sort_unstable();
    let report = json!({
        "scenario": "steady",
        "clusters": steady.clusters, "bindings": latencies.len(), "rate": steady.rate,
        "created to Scheduled p50, ms": millis(percentile(&latencies, 0.5)),
        "created to Scheduled p99, ms": millis(percentile(&latencies, 0.99)),
        "created to Scheduled max, ms": millis(percentile(&latencies, 1.0)),
        "peak memory, MiB": scheduler.peak_mib(),
    });
    drop(scheduler);
    bare.stop().await;
    Ok(report)
}

/// Records the time at which a watch first reports each binding as scheduled.
async fn record(api: Api<ResourceBinding>, seen: Arc<Mutex<HashMap<String, Instant>>>) {
    let mut changes = watch(api);
    while let Some(binding) = changes.next().await {
        let is_scheduled = binding.status.as_ref().is_some_and(|status| {
            let conditions = &status.conditions;
            conditions
                .iter()
                .any(|c| c.type_ == "Scheduled" && c.status == "True")
        });
        if is_scheduled {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entry(binding.name_any()).or_insert_with(Instant::now);
        }
    }
}
