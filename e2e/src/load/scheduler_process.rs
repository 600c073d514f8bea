//! The scheduler process that load scenarios measure. The load generator starts its own program again with the
//! subcommand `scheduler`, which is the same as `berth scheduler`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{LoadError, process};

/// Shortest interval between reads of the metrics.
const STEP: Duration = Duration::from_millis(10);
/// Longest interval between reads of the metrics.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// A running scheduler process. The process is killed when this value is dropped.
pub(super) struct SchedulerProcess {
    child: Child,
    port: u16,
    /// Time at which the process was started.
    pub(super) started: Instant,
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl SchedulerProcess {
    /// Starts a scheduler process with this kubeconfig and further flags.
    pub(super) fn start(kubeconfig: &Path, flags: &[String]) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::Scheduler(error.to_string());
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(failed)?
            .port();
        let started = Instant::now();
        let child = Command::new(std::env::current_exe().map_err(failed)?)
            .arg("scheduler")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--metrics-bind-address=0")
            .arg(format!("--health-probe-bind-address=127.0.0.1:{port}"))
            .args(flags)
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Self {
            child,
            port,
            started,
        })
    }

    /// Waits until the scheduler has scheduled this number of bindings, and returns the time since the start of the
    /// process. The time limit also counts from the start of the process.
    pub(super) async fn scheduled(
        &mut self,
        count: u64,
        limit: Duration,
    ) -> Result<Duration, LoadError> {
        let began = Instant::now();
        let mut at_first = None;
        loop {
            let done = self.count().await;
            if done >= count {
                return Ok(self.started.elapsed());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(LoadError::Scheduler(status.to_string()));
            }
            if self.started.elapsed() > limit {
                return Err(LoadError::Timeout {
                    what: format!("scheduling {count} bindings"),
                    limit,
                });
            }
            let done_before = *at_first.get_or_insert(done);
            tokio::time::sleep(step(began.elapsed(), done - done_before, count - done)).await;
        }
    }

    /// Returns the number of scheduled bindings.
    pub(super) async fn count(&self) -> u64 {
        self.attempts("scheduled").await
    }

    /// Returns the number of failed attempts to schedule a binding.
    pub(super) async fn failed(&self) -> u64 {
        self.attempts("error").await
    }

    async fn attempts(&self, result: &str) -> u64 {
        let text = self.metrics().await.unwrap_or_default();
        let label = format!("result=\"{result}\"");
        text.lines()
            .filter(|line| line.starts_with("karmada_scheduler_schedule_attempts_total{"))
            .filter(|line| line.contains(&label))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
            .sum()
    }

    async fn metrics(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        Ok(response)
    }

    /// Returns the processor time that the process has used so far.
    pub(super) fn processor_time(&self) -> Duration {
        process::processor_time(self.child.id())
    }

    /// Returns the peak memory of the process, in MiB.
    pub(super) fn peak_mib(&self) -> u64 {
        process::peak_kib(self.child.id()) / 1024
    }
}

/// Returns the time until the next read of the metrics: half of the estimated remaining time, or a twentieth of the
/// elapsed time if there was no progress yet. Each read costs processor time of the scheduler, which is measured.
/// Reads are therefore frequent only at the beginning and towards the end.
fn step(elapsed: Duration, done: u64, left: u64) -> Duration {
    let wait = if done == 0 {
        elapsed / 20
    } else {
        let half = elapsed.as_nanos() * u128::from(left) / u128::from(done) / 2;
        Duration::from_nanos(u64::try_from(half).unwrap_or(u64::MAX))
    };
    wait.clamp(STEP, LONGEST_STEP)
}
