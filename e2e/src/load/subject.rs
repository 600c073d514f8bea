//! The scheduler process under measurement: this program again, as `berth scheduler`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::LoadError;

const STEP: Duration = Duration::from_millis(10);
/// The unit of processor time in /proc, fixed on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// The process; it is ended when this is dropped.
pub(super) struct Subject {
    child: Child,
    port: u16,
    /// When it was started.
    pub(super) started: Instant,
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Subject {
    /// Starts a scheduler.
    pub(super) fn start(kubeconfig: &Path, flags: &[String]) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::Subject(error.to_string());
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

    /// Waits until it has scheduled so many bindings, and returns how long after its start that was.
    pub(super) async fn scheduled(
        &mut self,
        count: u64,
        limit: Duration,
    ) -> Result<Duration, LoadError> {
        loop {
            if self.count().await >= count {
                return Ok(self.started.elapsed());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(LoadError::Subject(status.to_string()));
            }
            if self.started.elapsed() > limit {
                return Err(LoadError::Late {
                    what: format!("scheduling {count} bindings"),
                    limit,
                });
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// How many bindings it has scheduled.
    pub(super) async fn count(&self) -> u64 {
        self.attempts("scheduled").await
    }

    /// How many attempts have failed.
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
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// The processor time that it has used.
    pub(super) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        // The fields 14 and 15 of the file are user and system time.
        let ticks: u64 = fields
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
    }

    /// The most memory that it has held, in MiB.
    pub(super) fn peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
            .map_or(0, |kib: u64| kib / 1024)
    }
}
