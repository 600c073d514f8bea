//! A fleet of thousands of clusters and tens of thousands of bindings.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::subject::Subject;
use super::{LoadError, millis, rate, workload};
use crate::Bare;

/// A large control plane.
#[derive(Args, Clone, Debug)]
pub struct Scale {
    /// The number of clusters.
    #[arg(long, default_value_t = 5000)]
    pub clusters: usize,
    /// The number of bindings.
    #[arg(long, default_value_t = 50_000)]
    pub bindings: usize,
    /// For how long, at most, the queue is watched draining.
    #[arg(long, default_value_t = 120)]
    pub seconds: u64,
}

/// Carries it out.
///
/// # Errors
/// When something does not end as it should.
pub async fn scale(scale: &Scale) -> Result<Value, LoadError> {
    let began = Instant::now();
    let bare = Bare::start(&workload::clusters(scale.clusters)?).await;
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
    let mut subject = Subject::start(&bare.kubeconfig(), &flags)?;
    let first = subject.scheduled(1, Duration::from_mins(5)).await?;
    let drained_by = first + Duration::from_secs(scale.seconds);
    let all = u64::try_from(scale.bindings).unwrap_or(u64::MAX);
    // What is not drained in time is no failure: the rate tells.
    let last = match subject.scheduled(all, drained_by).await {
        Ok(last) => last,
        Err(LoadError::Late { .. }) => subject.started.elapsed(),
        Err(error) => return Err(error),
    };
    let count = usize::try_from(subject.count().await).unwrap_or_default();
    let report = json!({
        "scenario": "scale",
        "clusters": scale.clusters, "bindings": scale.bindings,
        "preparation, s": prepared.as_secs(),
        "start to first, ms": millis(first),
        "scheduled": count,
        "drain, bindings/s": rate(count, last.saturating_sub(first)),
        "CPU per binding, ms":
            millis(subject.processor_time() / u32::try_from(count.max(1)).unwrap_or(1)),
        "peak memory, MiB": subject.peak_mib(),
    });
    drop(subject);
    bare.stop().await;
    Ok(report)
}
