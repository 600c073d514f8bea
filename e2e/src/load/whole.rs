//! The whole under measurement: this program again, as `berth up`, with its members.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_api::component::Component;
use berth_scheduler::connect;
use futures::StreamExt as _;
use kube::Client;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};

use super::{LoadError, process};

/// How long it may take until all members are ready.
const PATIENCE: Duration = Duration::from_mins(5);
const STEP: Duration = Duration::from_millis(5);
/// The context of the control plane in the kubeconfig.
const CONTROL_PLANE: &str = "berth";
/// The version that the fleet says members have, before anybody has asked them.
const FLEET_VERSION: &str = "v1.36.0";

/// The process; it is ended when this is dropped.
pub(super) struct Whole {
    child: Child,
    folder: tempfile::TempDir,
    members: usize,
    started: Instant,
    /// From its start until it had its kubeconfig, and so until it could be used.
    pub(super) up_after: Duration,
    /// From its start until every Cluster was ready, as its own controllers have found.
    pub(super) ready_after: Duration,
}

impl Drop for Whole {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Whole {
    /// Starts a control plane with so many members, and waits until all of them are ready.
    pub(super) async fn start(members: usize) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::Wrong(format!("berth up: {error}"));
        let folder = tempfile::tempdir().map_err(failed)?;
        let kubeconfig = folder.path().join("kubeconfig");
        let started = Instant::now();
        let child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["up", "--port=0"])
            .arg(format!("--members={members}"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut whole = Self {
            child,
            folder,
            members,
            started,
            up_after: Duration::ZERO,
            ready_after: Duration::ZERO,
        };
        while !kubeconfig.exists() {
            if let Ok(Some(status)) = whole.child.try_wait() {
                return Err(LoadError::Wrong(format!("berth up ended: {status}")));
            }
            whole.in_time("starting berth up")?;
            tokio::time::sleep(STEP).await;
        }
        whole.up_after = started.elapsed();
        let ready = whole.all_ready();
        match tokio::time::timeout(PATIENCE, ready).await {
            Ok(ready) => ready?,
            Err(_) => whole.in_time("waiting until all members are ready")?,
        }
        whole.ready_after = started.elapsed();
        Ok(whole)
    }

    fn in_time(&self, what: &str) -> Result<(), LoadError> {
        if self.started.elapsed() <= PATIENCE {
            return Ok(());
        }
        Err(LoadError::Late {
            what: what.to_owned(),
            limit: PATIENCE,
        })
    }

    async fn all_ready(&self) -> Result<(), LoadError> {
        let clusters: Api<Cluster> = Api::all(self.client().await?);
        let mut changes = watcher(clusters, watcher::Config::default())
            .default_backoff()
            .applied_objects()
            .boxed();
        let mut ready = std::collections::BTreeSet::new();
        while ready.len() < self.members {
            match changes.next().await {
                Some(Ok(cluster)) if is_ready(&cluster) => {
                    ready.insert(cluster.name_any());
                }
                Some(Ok(cluster)) => {
                    ready.remove(&cluster.name_any());
                }
                Some(Err(_)) => {}
                None => return Err(LoadError::Wrong("the watch of clusters ended".to_owned())),
            }
        }
        Ok(())
    }

    /// A client of the control plane, with connections of its own.
    pub(super) async fn client(&self) -> Result<Client, LoadError> {
        self.client_of(CONTROL_PLANE).await
    }

    /// A client of the member with this number, from 1, with connections of its own.
    pub(super) async fn member(&self, number: usize) -> Result<Client, LoadError> {
        self.client_of(&format!("member{number}")).await
    }

    async fn client_of(&self, context: &str) -> Result<Client, LoadError> {
        let target = connect::Target {
            kubeconfig: Some(self.kubeconfig()),
            context: Some(context.to_owned()),
            master: None,
        };
        Ok(connect::client(
            connect::config(&target).await?,
            Component::CommandLine,
        )?)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The processor time that it has used.
    pub(super) fn processor_time(&self) -> Duration {
        process::processor_time(self.child.id())
    }

    /// The memory that it holds now, in MiB.
    pub(super) fn resident_mib(&self) -> u64 {
        process::resident_kib(self.child.id()) / 1024
    }

    /// The most memory that it has held, in MiB.
    pub(super) fn peak_mib(&self) -> u64 {
        process::peak_kib(self.child.id()) / 1024
    }
}

/// Whether the controllers have asked a member, and found it ready. Before that the Cluster says what the fleet says.
fn is_ready(cluster: &Cluster) -> bool {
    let Some(status) = &cluster.status else {
        return false;
    };
    let mut conditions = status.conditions.iter();
    let ready =
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && status.kubernetes_version.as_deref() != Some(FLEET_VERSION)
}
