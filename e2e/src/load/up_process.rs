//! The `berth up` process that load scenarios measure: a control plane with its members. The load generator starts its
//! own program again with the subcommand `up`.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_api::well_known::CONDITION_READY;
use berth_api::{Cluster, condition};
use berth_component_base::kube_client;
use berth_component_base::user_agent::Component;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

use super::{LoadError, process, watch};

/// Time limit until all members are ready.
const TIMEOUT: Duration = Duration::from_mins(5);
const STEP: Duration = Duration::from_millis(5);
/// Name of the control plane's context in the kubeconfig.
const CONTROL_PLANE: &str = "berth";
/// Kubernetes version in the status of a generated Cluster, until a controller writes the version of the member's
/// server.
const FLEET_VERSION: &str = "v1.36.0";

/// A running `berth up` process. The process is killed when this value is dropped.
pub(super) struct UpProcess {
    child: Child,
    folder: tempfile::TempDir,
    members: usize,
    started: Instant,
    /// Time from the start of the process until the kubeconfig exists. The control plane then accepts requests.
    pub(super) up_after: Duration,
    /// Time from the start of the process until the controllers have reported every Cluster as ready.
    pub(super) ready_after: Duration,
}

impl Drop for UpProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl UpProcess {
    /// Starts a control plane with this number of members, and waits until all members are ready.
    pub(super) async fn start(members: usize) -> Result<Self, LoadError> {
        let mut plane = Self::spawn(members, &[]).await?;
        let ready = plane.all_ready();
        match tokio::time::timeout(TIMEOUT, ready).await {
            Ok(ready) => ready?,
            Err(_) => plane.in_time("waiting until all members are ready")?,
        }
        plane.ready_after = plane.started.elapsed();
        Ok(plane)
    }

    /// Starts this number of members, for the programs of another control plane.
    pub(super) async fn members_only(members: usize) -> Result<Self, LoadError> {
        let without = "--without=scheduler,controllers,dashboard,estimators";
        let fleet = Self::spawn(members, &[without]).await?;
        for number in 1..=members {
            let member = fleet.member(number).await?;
            let nodes: Api<Node> = Api::all(member);
            while nodes.list(&ListParams::default()).await?.items.is_empty() {
                fleet.in_time("waiting until the members have nodes")?;
                tokio::time::sleep(STEP).await;
            }
        }
        Ok(fleet)
    }

    async fn spawn(members: usize, flags: &[&str]) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::Unexpected(format!("berth up: {error}"));
        let folder = tempfile::tempdir().map_err(failed)?;
        let kubeconfig = folder.path().join("kubeconfig");
        let started = Instant::now();
        let child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["up", "--port=0"])
            .arg(format!("--members={members}"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut plane = Self {
            child,
            folder,
            members,
            started,
            up_after: Duration::ZERO,
            ready_after: Duration::ZERO,
        };
        while !kubeconfig.exists() {
            if let Ok(Some(status)) = plane.child.try_wait() {
                return Err(LoadError::Unexpected(format!("berth up ended: {status}")));
            }
            plane.in_time("starting berth up")?;
            tokio::time::sleep(STEP).await;
        }
        plane.up_after = started.elapsed();
        Ok(plane)
    }

    /// Returns an error if the time limit is exceeded.
    fn in_time(&self, what: &str) -> Result<(), LoadError> {
        if self.started.elapsed() <= TIMEOUT {
            return Ok(());
        }
        Err(LoadError::Timeout {
            what: what.to_owned(),
            limit: TIMEOUT,
        })
    }

    async fn all_ready(&self) -> Result<(), LoadError> {
        let clusters: Api<Cluster> = Api::all(self.client().await?);
        let mut changes = watch(clusters);
        let mut ready = std::collections::BTreeSet::new();
        while ready.len() < self.members {
            match changes.next().await {
                Some(cluster) if is_ready(&cluster) => {
                    ready.insert(cluster.name_any());
                }
                Some(cluster) => {
                    ready.remove(&cluster.name_any());
                }
                None => {
                    return Err(LoadError::Unexpected(
                        "the watch of clusters ended".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns a client of the control plane with its own connections.
    pub(super) async fn client(&self) -> Result<Client, LoadError> {
        self.client_of(CONTROL_PLANE).await
    }

    /// Returns a client of a member, numbered from 1, with its own connections.
    pub(super) async fn member(&self, number: usize) -> Result<Client, LoadError> {
        self.client_of(&format!("member{number}")).await
    }

    async fn client_of(&self, context: &str) -> Result<Client, LoadError> {
        let target = kube_client::Target {
            kubeconfig: Some(self.kubeconfig()),
            context: Some(context.to_owned()),
            master: None,
        };
        Ok(kube_client::client(
            kube_client::config(&target).await?,
            Component::CommandLine,
        )?)
    }

    /// Returns the path of the kubeconfig with the contexts of all members.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns the processor time that the process has used so far.
    pub(super) fn processor_time(&self) -> Duration {
        process::processor_time(self.child.id())
    }

    /// Returns the resident memory of the process, in MiB.
    pub(super) fn resident_mib(&self) -> u64 {
        process::resident_kib(self.child.id()) / 1024
    }

    /// Returns the peak memory of the process, in MiB.
    pub(super) fn peak_mib(&self) -> u64 {
        process::peak_kib(self.child.id()) / 1024
    }
}

/// Reports whether the controllers have collected the status of a member and found it ready.
fn is_ready(cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    let version = status.and_then(|status| status.kubernetes_version.as_deref());
    has_ready_condition(cluster) && version != Some(FLEET_VERSION)
}

/// Reports whether a Cluster has the condition Ready.
pub(super) fn has_ready_condition(cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    let conditions = status.map(|status| &status.conditions[..]);
    condition::is_true(conditions.unwrap_or_default(), CONDITION_READY)
}
