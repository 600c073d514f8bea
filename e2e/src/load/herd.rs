//! Thousands of bindings that wait, a cluster that flaps, and how long a new binding takes meanwhile.

use std::time::{Duration, Instant};

use clap::Args;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::subject::Subject;
use super::{LoadError, millis, percentile, workload};
use crate::Bare;

/// A herd.
#[derive(Args, Clone, Debug)]
pub struct Herd {
    /// The number of bindings that wait for room.
    #[arg(long, default_value_t = 10_000)]
    pub waiting: usize,
    /// The number of new bindings, one after the other.
    #[arg(long, default_value_t = 500)]
    pub new: usize,
    /// How often the cluster changes, in milliseconds.
    #[arg(long, default_value_t = 100)]
    pub flap: u64,
}

/// Carries it out.
///
/// # Errors
/// When something does not end as it should.
pub async fn herd(herd: &Herd) -> Result<Value, LoadError> {
    let bare = Bare::start(&workload::clusters(10)?).await;
    let namespaces = ["default".to_owned()];
    let mut waiting = workload::bindings("herd", herd.waiting, &namespaces, "default-scheduler")?;
    for binding in &mut waiting {
        // More than there is anywhere.
        binding.spec.replicas = 1_000_000;
    }
    bare.bind_all(&waiting).await;
    drop(waiting);
    let flags = [
        "--leader-elect=false".to_owned(),
        "--kube-api-qps=0".to_owned(),
    ];
    let subject = Subject::start(&bare.kubeconfig(), &flags)?;
    let limit = Duration::from_mins(5);
    while subject.failed().await < u64::try_from(herd.waiting).unwrap_or(u64::MAX) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if subject.started.elapsed() > limit {
            let what = "the herd to be refused".to_owned();
            return Err(LoadError::Late { what, limit });
        }
    }
    let before = subject.failed().await;
    let latencies = tokio::select! {
        flapped = flap(&bare, Duration::from_millis(herd.flap)) => match flapped {
            Ok(()) => Vec::new(),
            Err(error) => return Err(error),
        },
        latencies = newcomers(&bare, herd.new) => latencies?,
    };
    let report = json!({
        "scenario": "herd",
        "waiting": herd.waiting, "flap, ms": herd.flap, "new": latencies.len(),
        "created to Scheduled p50, ms": millis(percentile(&latencies, 0.5)),
        "created to Scheduled p99, ms": millis(percentile(&latencies, 0.99)),
        "created to Scheduled max, ms": millis(percentile(&latencies, 1.0)),
        "tries of waiting bindings meanwhile": subject.failed().await - before,
        "peak memory, MiB": subject.peak_mib(),
    });
    drop(subject);
    bare.stop().await;
    Ok(report)
}

/// Changes what a cluster has free, for ever.
async fn flap(bare: &Bare, pause: Duration) -> Result<(), LoadError> {
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

/// Creates bindings one after the other, each when the one before is placed.
async fn newcomers(bare: &Bare, count: usize) -> Result<Vec<Duration>, LoadError> {
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
