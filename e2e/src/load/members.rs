//! Many members that nobody asks anything of: how soon they are ready, and what they cost.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::whole::Whole;
use super::{LoadError, at_most, seconds};

/// Idle members.
#[derive(Args, Clone, Debug)]
pub struct Members {
    /// The number of members.
    #[arg(long, default_value_t = 100)]
    pub members: usize,
    /// How long to wait, when all are ready, before it counts.
    #[arg(long, default_value_t = 20)]
    pub settle: u64,
    /// How long to look at what they cost.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
}

/// Carries it out.
///
/// # Errors
/// When something does not end as it should.
pub async fn members(load: &Members) -> Result<Value, LoadError> {
    let whole = Whole::start(load.members).await?;
    tokio::time::sleep(Duration::from_secs(load.settle)).await;
    let (processor, began) = (whole.processor_time(), Instant::now());
    tokio::time::sleep(Duration::from_secs(load.seconds)).await;
    let used = whole.processor_time().saturating_sub(processor);
    let share = used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let memory = whole.resident_mib() as f64;
    Ok(json!({
        "scenario": "members",
        "members": load.members,
        "start to kubeconfig, s": seconds(whole.up_after),
        "start to all members found ready, s": seconds(whole.ready_after),
        "processor time when idle, % of a core": at_most((share * 10.0).round() / 10.0, 5.0),
        "memory when idle, MiB": at_most(memory, 1024.0),
        "peak memory, MiB": whole.peak_mib(),
    }))
}
