//! The API servers of `berth up`, and the simulation in its members.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use berth_api::Cluster;
use berth_apiserver::{Admission, Server, ServerConfig, StartError, StorageError};
use berth_component_base::kube_client;
use berth_component_base::program::progress::Progress;
use berth_component_base::user_agent::Component;
use berth_workloads::ImageRegistry;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all, select_all};
use kube::Client;
use regex::Regex;
use tokio_util::sync::CancellationToken;

use crate::admission::KarmadaAdmission;
use crate::cluster_proxy::ClusterProxy;
use crate::fault_injection;
use crate::kubeconfig::{self, Access, CONTEXT};
use crate::members::{self, Member, MemberError};
use crate::quota_admission::QuotaAdmission;
use crate::storage::Storage;

/// The enforcement of FederatedResourceQuotas by the API server of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaEnforcement {
    /// Bindings that exceed a quota are refused.
    On,
    /// Quotas have no effect on bindings.
    Off,
}

/// The API server of the control plane, and those of the simulated members.
#[derive(Debug)]
pub struct Servers {
    control_plane: Server,
    members: Vec<Member>,
}

impl Servers {
    /// Starts the API server of the control plane. It has Karmada's admission rules and the subresource `clusters/proxy`,
    /// but no kinds of Karmada.
    ///
    /// # Errors
    /// When the server cannot start.
    pub async fn start(
        listen: SocketAddr,
        quotas: QuotaEnforcement,
        config: ServerConfig,
    ) -> Result<Self, StartError> {
        let mut admission: Vec<Arc<dyn Admission>> = vec![Arc::new(KarmadaAdmission)];
        if quotas == QuotaEnforcement::On {
            admission.push(Arc::new(QuotaAdmission));
        }
        let control_plane = Server::start(ServerConfig {
            listen,
            admission,
            connects: vec![Arc::new(ClusterProxy)],
            ..config
        });
        Ok(Self {
            control_plane: control_plane.await?,
            members: Vec::new(),
        })
    }

    /// Starts the API servers of the simulated members of a fleet. [`members::start`] describes their ports.
    ///
    /// # Errors
    /// When a member cannot start. The other members are then stopped.
    pub async fn start_members(
        &mut self,
        fleet: &[Cluster],
        ip: IpAddr,
        port: u16,
        storage: &Storage,
        progress: &mut Progress,
    ) -> Result<(), MemberError> {
        self.members = members::start(fleet, ip, port, storage, progress).await?;
        Ok(())
    }

    /// Returns the API server of the control plane.
    pub fn control_plane(&self) -> &Server {
        &self.control_plane
    }

    /// Returns the simulated members, in the order of their Clusters in the fleet.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns a kubeconfig with a context for the control plane (the current context) and for each simulated member.
    pub fn kubeconfig(&self) -> String {
        let mut servers = vec![Access::to(&self.control_plane, CONTEXT)];
        servers.extend(self.members.iter().map(Member::access));
        kubeconfig::text(&servers)
    }

    /// Returns the tasks of the simulation: fault injection, and a workload simulator for each member. `client` is a
    /// client for the control plane, and the members cannot pull images whose names match `unpullable`. The tasks run
    /// until the token is cancelled.
    pub fn simulation(
        &self,
        client: &Client,
        unpullable: Option<&Regex>,
        cancel: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>> {
        let images = unpullable
            .cloned()
            .map_or_else(ImageRegistry::default, ImageRegistry::without);
        let switches = self
            .members
            .iter()
            .map(|member| (member.name().to_owned(), member.server().reachability()))
            .collect();
        let faults = fault_injection::run(client.clone(), switches, cancel.clone()).boxed();
        let workloads = self.members.iter().map(|member| {
            let client = kube_client::named(member.server().client(), Component::Simulator);
            berth_workloads::run(client, images.clone(), cancel.clone()).boxed()
        });
        std::iter::once(faults).chain(workloads).collect()
    }

    /// Waits until the storage of a server fails permanently, and returns the error.
    pub async fn storage_failure(&self) -> StorageError {
        let members = self.members.iter().map(Member::server);
        let servers = members.chain([&self.control_plane]);
        let failures = servers.map(|server| Box::pin(server.storage_failure()));
        let (failure, _, _) = select_all(failures).await;
        failure
    }

    /// Stops the servers.
    pub async fn stop(self) {
        let members = self.members.into_iter().map(Member::stop);
        tokio::join!(self.control_plane.shutdown(), join_all(members));
    }
}
