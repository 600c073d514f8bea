//! `berth down`: stops the `berth up` of a kubeconfig, and waits until it has stopped.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::control_plane::{self, Instance, LookupError};
use crate::instance::{self, InstanceError};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Flags of `berth down`.
#[derive(Args, Clone, Debug)]
pub struct DownArgs {
    /// The kubeconfig of the `berth up` [default: $KUBECONFIG, or ~/.berth/kubeconfig]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// How long it may take to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u64,
}

/// Why it did not stop.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// The kubeconfig is that of something else than a `berth up`.
    #[error(transparent)]
    NotUp(#[from] LookupError),
    /// The record of the `berth up` cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// It may not be told to stop.
    #[error("cannot stop process {process}: {source}")]
    Signal {
        /// The process.
        process: i32,
        /// Why not.
        source: std::io::Error,
    },
    /// It did not tell its process.
    #[error("the `berth up` that is starting has not told its process yet: try again")]
    Unknown,
    /// It still runs.
    #[error("process {process} has not stopped after {seconds} s; `kill -9 {process}` ends it")]
    StillRuns {
        /// The process.
        process: i32,
        /// How long was waited.
        seconds: u64,
    },
}

/// Stops it. Where the `berth up` of the kubeconfig has ended, there is nothing to do, and that is no error.
///
/// # Errors
/// When it cannot be told to, or does not do it in time.
pub async fn run(args: DownArgs) -> Result<(), DownError> {
    let mut out = std::io::stdout();
    let Instance { kubeconfig, record } = match control_plane::instance(args.kubeconfig) {
        Err(LookupError::NotUp(none)) if none.has_ended() => {
            let _ = writeln!(out, "{}", LookupError::NotUp(none));
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
    // Another one may begin as soon as this one has ended.
    while instance::find(&kubeconfig)?.is_some_and(|there| there.process == record.process) {
        if Instant::now() >= end {
            return Err(DownError::StillRuns {
                process: record.process,
                seconds: args.timeout,
            });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let what = if record.api_server.is_empty() {
        format!("process {}, which was starting", record.process)
    } else {
        record.api_server
    };
    let _ = writeln!(out, "stopped {what}");
    Ok(())
}
