//! The load scenario `members`: time until many members are ready, and the processor time and memory of `berth up`
//! while the members are idle.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::up_process::UpProcess;
use super::{LoadError, at_most, seconds};

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct Members {
    /// Number of members
    #[arg(long, default_value_t = 100)]
    pub members: usize,
    /// Seconds to wait after all members are ready
    #[arg(long, default_value_t = 20)]
    pub settle: u64,
    /// Seconds to measure
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails or takes too long.
pub async fn members(load: &Members) -> Result<Value, LoadError> {
    let plane = UpProcess::start(load.members).await?;
    tokio::time::sleep(Duration::from_secs(load.settle)).await;
    let (processor, began) = (plane.processor_time(), Instant::now());
    tokio::time::sleep(Duration::from_secs(load.seconds)).await;
    let used = plane.processor_time().saturating_sub(processor);
    let share = used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let memory = plane.resident_mib() as f64;
    Ok(json!({
        "scenario": "members",
        "members": load.members,
        "start to kubeconfig, s": seconds(plane.up_after),
        "start to all members found ready, s": seconds(plane.ready_after),
        "processor time when idle, % of a core": at_most((share * 10.0).round() / 10.0, 5.0),
        "memory when idle, MiB": at_most(memory, 1024.0),
        "peak memory, MiB": plane.peak_mib(),
    }))
}
