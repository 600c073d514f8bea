//! The API server process that the load scenario `server` measures. The load generator starts its own program again
//! with the subcommand `api-server`, which calls [`run_api_server`].

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_apiserver::{DataDir, Durability, Server, ServerConfig};
use berth_component_base::kube_client;
use berth_component_base::user_agent::Component;
use clap::Args;
use kube::Client;

use super::{LoadError, process};

/// Time limit for the start of the server.
const TIMEOUT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(1);

/// Storage of the server's objects.
#[derive(Args, Clone, Debug)]
pub struct Storage {
    /// Keep the objects in this folder instead of in memory only
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Wait for the disk before a write is acknowledged
    #[arg(long, requires = "data_dir")]
    pub fsync: bool,
}

impl Storage {
    /// Returns options for a server without a data folder.
    pub(super) fn none() -> Self {
        Self {
            data_dir: None,
            fsync: false,
        }
    }

    fn config(&self) -> Result<ServerConfig, LoadError> {
        let mut config = ServerConfig::default();
        if let Some(folder) = &self.data_dir {
            let durability = if self.fsync {
                Durability::PowerLoss
            } else {
                Durability::ProcessEnd
            };
            let opened = DataDir::open(folder, durability).and_then(|data| data.server("load"));
            let (objects, credentials) =
                opened.map_err(|error| LoadError::Unexpected(error.to_string()))?;
            config.storage = Box::new(objects);
            config.credentials = Some(credentials);
        }
        Ok(config)
    }

    /// Returns the command-line flags for these options.
    fn flags(&self) -> Vec<std::ffi::OsString> {
        let mut flags = Vec::new();
        if let Some(folder) = &self.data_dir {
            flags.extend(["--data-dir".into(), folder.into()]);
        }
        if self.fsync {
            flags.push("--fsync".into());
        }
        flags
    }
}

/// A running API server process. The process is killed when this value is dropped.
pub(super) struct ServerProcess {
    child: Child,
    folder: tempfile::TempDir,
    /// Time from the start of the process to the first response of `/readyz`.
    pub(super) ready_after: Duration,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts an API server, writes its kubeconfig when it is ready, and serves until the process is killed.
///
/// # Errors
/// If the server does not start.
pub async fn run_api_server(kubeconfig: &Path, storage: &Storage) -> Result<(), LoadError> {
    let wrong = |error: &dyn std::fmt::Display| LoadError::Unexpected(error.to_string());
    let server = Server::start(storage.config()?).await;
    let server = server.map_err(|error| wrong(&error))?;
    // The kubeconfig is written to another file, which is renamed when it is complete. A reader never finds a partial
    // file.
    let draft = kubeconfig.with_extension("draft");
    std::fs::write(&draft, server.kubeconfig("load"))
        .and_then(|()| std::fs::rename(&draft, kubeconfig))
        .map_err(|error| wrong(&error))?;
    std::future::pending().await
}

impl ServerProcess {
    /// Starts a server process, and waits until the server is ready.
    pub(super) async fn start(storage: &Storage) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::Unexpected(format!("the server: {error}"));
        let folder = tempfile::tempdir().map_err(failed)?;
        let kubeconfig = folder.path().join("kubeconfig");
        let began = Instant::now();
        let child = Command::new(std::env::current_exe().map_err(failed)?)
            .arg("api-server")
            .arg(&kubeconfig)
            .args(storage.flags())
            .stdin(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut server = Self {
            child,
            folder,
            ready_after: Duration::ZERO,
        };
        while !kubeconfig.exists() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(LoadError::Unexpected(format!("the server ended: {status}")));
            }
            if began.elapsed() > TIMEOUT {
                return Err(LoadError::Timeout {
                    what: "starting the server".to_owned(),
                    limit: TIMEOUT,
                });
            }
            tokio::time::sleep(STEP).await;
        }
        super::requests::get(&server.client().await?, "/readyz").await?;
        server.ready_after = began.elapsed();
        Ok(server)
    }

    /// Returns a client with its own connections.
    pub(super) async fn client(&self) -> Result<Client, LoadError> {
        let target = kube_client::Target {
            kubeconfig: Some(self.kubeconfig()),
            ..kube_client::Target::default()
        };
        Ok(kube_client::client(
            kube_client::config(&target).await?,
            Component::CommandLine,
        )?)
    }

    /// Returns the kubeconfig with the administrator's token.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns the processor time that the process has used so far.
    pub(super) fn processor_time(&self) -> Duration {
        process::processor_time(self.child.id())
    }

    /// Returns the resident memory of the process, in KiB.
    pub(super) fn resident_kib(&self) -> u64 {
        process::resident_kib(self.child.id())
    }
}
