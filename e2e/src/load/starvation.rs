//! The load scenario `starvation`: latency of new bindings while thousands of other bindings wait for capacity, and the
//! capacity of one cluster changes repeatedly.

use std::time::{Duration, Instant};

use clap::Args;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scheduler_process::SchedulerProcess;
use super::{LoadError, millis, percentile, workload};
use crate::BareControlPlane;

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct Starvation {
    /// Number of bindings that wait for capacity
    #[arg(long, default_value_t = 10_000)]
    pub waiting: usize,
    /// Number of new bindings, created one after the other
    #[arg(long, default_value_t = 500)]
    pub new: usize,
    /// Interval between changes of the cluster's capacity, in milliseconds
    #[arg(long, default_value_t = 100)]
    pub flap: u64,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails or takes too long.
pub async fn starvation(load: &Starvation) -> Result<Value, LoadError> {
    let bare = BareControlPlane::start(&workload::clusters(10)?).await;
    let namespaces = ["default".to_owned()];
    let mut waiting =
        workload::bindings("waiting", load.waiting, &namespaces, "default-scheduler")?;
    for binding in &mut waiting {
        // No cluster fits: all clusters together have less capacity.
        binding.spec.replicas = 1_000_000;
    }
    bare.bind_all(&waiting).await;
    drop(waiting);
    let flags = [
        "--leader-elect=false".to_owned(),
        "--kube-api-qps=0".to_owned(),
    ];
    let scheduler = SchedulerProcess::start(&bare.kubeconfig(), &flags)?;
    let limit = Duration::from_mins(5);
    while scheduler.failed().await < u64::try_from(load.waiting).unwrap_or(u64::MAX) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if scheduler.started.elapsed() > limit {
            let what = "the first attempts to schedule the waiting bindings".to_owned();
            return Err(LoadError::Timeout { what, limit });
        }
    }
    let before = scheduler.failed().await;
    let latencies = tokio::select! {
        flapped = flap(&bare, Duration::from_millis(load.flap)) => match flapped {
            Ok(()) => Vec::new(),
            Err(error) => return Err(error),
        },
        latencies = create_new(&bare, load.new) => latencies?,
    };
    let report = json!({
        "scenario": "starvation",
        "waiting": load.waiting, "flap, ms": load.flap, "new": latencies.len(),
        "created to Scheduled p50, ms": millis(percentile(&latencies, 0.5)),
        "created to Scheduled p99, ms": millis(percentile(&latencies, 0.99)),
        "created to Scheduled max, ms": millis(percentile(&latencies, 1.0)),
        "attempts to schedule waiting bindings meanwhile": scheduler.failed().await - before,
        "peak memory, MiB": scheduler.peak_mib(),
    });
    drop(scheduler);
    bare.stop().await;
    Ok(report)
}

/// Changes the capacity of a cluster repeatedly until a request fails.
async fn flap(bare: &BareControlPlane, pause: Duration) -> Result<(), LoadError> {
    let clusters = bare.clusters();
    for round in 0_u32.. {
        let cpus = if round % 2 == 0 { "90" } else { "110" };
        let patch = Patch::Merge(json!({ "status": {
            "resourceSummary": { "allocatable": { "cpu": cpus } } } }));
        clusters
            .patch_status("member-0", &PatchParams::default(), &patch)
            .await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// Creates each binding after the previous binding is scheduled. Returns the times from creation to scheduling, in
/// ascending order.
async fn create_new(bare: &BareControlPlane, count: usize) -> Result<Vec<Duration>, LoadError> {
    let namespaces = ["default".to_owned()];
    let api = bare.bindings("default");
    let mut latencies = Vec::with_capacity(count);
    for binding in workload::bindings("new", count, &namespaces, "default-scheduler")? {
        let name = binding.name_any();
        let began = Instant::now();
        api.create(&PostParams::default(), &binding).await?;
        loop {
            let stored = api.get(&name).await?;
            if stored
                .status
                .is_some_and(|s| s.last_scheduled_time.is_some())
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    Ok(latencies)
}
