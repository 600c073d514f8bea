//! The command `berth down`. It stops the `berth up` that runs with a kubeconfig, and waits for the end of its process.

use std::io::Write as _;
use std::time::{Duration, Instant};

use berth_up::instance::{self, InstanceError};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::control_plane::{self, Instance, InstanceArgs, LookupError};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Flags of `berth down`.
#[derive(Args, Clone, Debug)]
pub struct DownArgs {
    /// Flags that select the `berth up`.
    #[command(flatten)]
    pub instance: InstanceArgs,

    /// Maximum time to wait for the end of the process
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u64,
}

/// An error of `berth down`.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// No `berth up` runs with the selected kubeconfig.
    #[error(transparent)]
    NotUp(#[from] LookupError),
    /// The file that describes the `berth up` cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The signal to the process fails.
    #[error("cannot stop process {process}: {source}")]
    Signal {
        /// Process id.
        process: i32,
        /// Cause.
        source: std::io::Error,
    },
    /// The `berth up` is starting and has not yet written its process id.
    #[error("the `berth up` is starting and has not recorded its process yet: try again")]
    Unknown,
    /// The process still runs when the time is over.
    #[error("process {process} has not stopped after {seconds} s; `kill -9 {process}` ends it")]
    StillRuns {
        /// Process id.
        process: i32,
        /// Waiting time, in seconds.
        seconds: u64,
    },
}

/// Stops the `berth up` that runs with the kubeconfig. Succeeds if this `berth up` has already ended.
///
/// # Errors
/// Fails if the process cannot be signalled, or does not end in time.
pub async fn run(args: DownArgs) -> Result<(), DownError> {
    let mut out = std::io::stdout();
    let Instance { kubeconfig, record } = match control_plane::instance(&args.instance) {
        Err(LookupError::NotUp(not_up)) if not_up.has_ended() => {
            let _ = writeln!(out, "{}", LookupError::NotUp(not_up));
            return Ok(());
        }
        found => found?,
    };
    let pid = Pid::from_raw(record.process).ok_or(DownError::Unknown)?;
    kill_process(pid, Signal::TERM).map_err(|source| DownError::Signal {
        process: record.process,
        source: source.into(),
    })?;
    let end = Instant::now() + Duration::from_secs(args.timeout);
    // The process ids are compared, because a new `berth up` may start with the same kubeconfig at once.
    while instance::find(&kubeconfig)?.is_some_and(|running| running.process == record.process) {
        if Instant::now() >= end {
            return Err(DownError::StillRuns {
                process: record.process,
                seconds: args.timeout,
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let stopped = if record.api_server.is_empty() {
        format!("process {}, which was starting", record.process)
    } else {
        record.api_server
    };
    let _ = writeln!(out, "stopped {stopped}");
    Ok(())
}
