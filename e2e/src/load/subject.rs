//! The scheduler process under measurement: this program again, as `berth scheduler`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{LoadError, process};

const STEP: Duration = Duration::from_millis(10);

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
        process::processor_time(self.child.id())
    }

    /// The most memory that it has held, in MiB.
    pub(super) fn peak_mib(&self) -> u64 {
        process::peak_kib(self.child.id()) / 1024
    }
}
