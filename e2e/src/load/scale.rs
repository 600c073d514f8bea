//! The load scenario `scale`: throughput of a scheduler with thousands of clusters and tens of thousands of bindings.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::scheduler_process::SchedulerProcess;
use super::{LoadError, millis, rate, workload};
use crate::BareControlPlane;

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct Scale {
    /// Number of clusters
    #[arg(long, default_value_t = 5000)]
    pub clusters: usize,
    /// Number of bindings
    #[arg(long, default_value_t = 50_000)]
    pub bindings: usize,
    /// Maximum seconds to measure after the first binding is scheduled
    #[arg(long, default_value_t = 120)]
    pub seconds: u64,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails or takes too long.
pub async fn scale(scale: &Scale) -> Result<Value, LoadError> {
    let began = Instant::now();
    let bare = BareControlPlane::start(&workload::clusters(scale.clusters)?).await;
    let namespaces: Vec<String> = (0..50).map(|index| format!("team-{index}")).collect();
    bare.add_namespaces(&namespaces).await;
    let bindings = workload::bindings("s", scale.bindings, &namespaces, "default-scheduler")?;
    bare.bind_all(&bindings).await;
    drop(bindings);
    let prepared = began.elapsed();

    let flags = [
        "--leader-elect=false".to_owned(),
        "--kube-api-qps=0".to_owned(),
    ];
    let mut scheduler = SchedulerProcess::start(&bare.kubeconfig(), &flags)?;
    let first = scheduler.scheduled(1, Duration::from_mins(5)).await?;
    let drained_by = first + Duration::from_secs(scale.seconds);
    let all = u64::try_from(scale.bindings).unwrap_or(u64::MAX);
    // If bindings are still queued at the time limit, the report contains the rate up to the time limit.
    let last = match scheduler.scheduled(all, drained_by).await {
        Ok(last) => last,
        Err(LoadError::Timeout { .. }) => scheduler.started.elapsed(),
        Err(error) => return Err(error),
    };
    let count = usize::try_from(scheduler.count().await).unwrap_or_default();
    let report = json!({
        "scenario": "scale",
        "clusters": scale.clusters, "bindings": scale.bindings,
        "preparation, s": prepared.as_secs(),
        "scheduler start to first scheduled binding, ms": millis(first),
        "scheduled": count,
        "scheduler from its first scheduled binding, bindings/s": rate(count, last.saturating_sub(first)),
        "CPU per binding, ms":
            millis(scheduler.processor_time() / u32::try_from(count.max(1)).unwrap_or(1)),
        "peak memory, MiB": scheduler.peak_mib(),
    });
    drop(scheduler);
    bare.stop().await;
    Ok(report)
}
