//! Simulated members of `berth up`. Each member has its own API server and storage, and contains the nodes and pods
//! that its Cluster manifest describes.
//!
//! This module does not connect to the control plane. `berth` registers the members.

mod extra_apis;
mod nodes;
mod placeholder_pods;

use std::net::{IpAddr, SocketAddr};

use berth_api::Cluster;
use berth_apimachinery::api_error::api_error_message;
use berth_apiserver::{DataDirError, Server, ServerConfig, StartError};
use berth_component_base::program::progress::Progress;
use berth_plan::simulate::is_simulated;
use kube::api::{Api, PostParams};
use tokio::task::JoinSet;

use crate::kubeconfig::Access;
use crate::storage::Storage;

/// An error of starting a member.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The API server does not start.
    #[error("cannot start the API server of {member}: {source}")]
    Server {
        /// Name of the member.
        member: String,
        /// Cause.
        source: StartError,
    },
    /// The stored data cannot be used.
    #[error("cannot start the API server of {member}: {source}")]
    Storage {
        /// Name of the member.
        member: String,
        /// Cause.
        source: DataDirError,
    },
    /// An object that the manifest describes cannot be created.
    #[error("cannot create nodes and pods of {member}: {reason}")]
    Content {
        /// Name of the member.
        member: String,
        /// Cause.
        reason: String,
    },
    /// The task that starts the member panicked.
    #[error("a member did not start")]
    Panicked,
}

/// A simulated member that runs in this process.
#[derive(Debug)]
pub struct Member {
    name: String,
    server: Server,
    nodes: usize,
}

/// Starts the simulated members of a fleet, and returns them in the order of the fleet.
///
/// The simulated member with the index N, counted from 0, listens on `port + N + 1`. It listens on any free port if
/// that port is in use or `port` is 0.
///
/// # Errors
/// Fails if a member cannot start. The other members are then stopped.
pub(crate) async fn start(
    fleet: &[Cluster],
    ip: IpAddr,
    port: u16,
    storage: &Storage,
    progress: &mut Progress,
) -> Result<Vec<Member>, MemberError> {
    let mut starting = JoinSet::new();
    let simulated = fleet.iter().filter(|cluster| is_simulated(cluster));
    for (index, cluster) in simulated.enumerate() {
        let offset = u16::try_from(index + 1).ok();
        let preferred = match (port, offset) {
            (1.., Some(offset)) => port.checked_add(offset).unwrap_or(0),
            _ => 0,
        };
        let (cluster, storage) = (cluster.clone(), storage.clone());
        starting.spawn(async move {
            let member = Member::start(&cluster, SocketAddr::new(ip, preferred), &storage).await;
            (index, member)
        });
    }
    let (mut members, total) = (Vec::new(), starting.len());
    while let Some(started) = starting.join_next().await {
        let (index, member) = started.map_err(|_| MemberError::Panicked)?;
        members.push((index, member?));
        progress.report(format_args!("started {} of {total} members", members.len()));
    }
    members.sort_by_key(|(index, _)| *index);
    Ok(members.into_iter().map(|(_, member)| member).collect())
}

/// Creates the missing objects. Existing objects are not changed.
async fn create<K>(api: &Api<K>, objects: &[K]) -> Result<(), String>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    for object in objects {
        match api.create(&PostParams::default(), object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => return Err(api_error_message(&error)),
        }
    }
    Ok(())
}

impl Member {
    async fn start(
        cluster: &Cluster,
        preferred: SocketAddr,
        storage: &Storage,
    ) -> Result<Self, MemberError> {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let content_error = |reason| MemberError::Content {
            member: name.clone(),
            reason,
        };
        let nodes = nodes::of(cluster).map_err(|error| content_error(error.to_string()))?;
        let pods = placeholder_pods::of(cluster, &nodes)
            .map_err(|error| content_error(error.to_string()))?;
        let start_at = async |listen| {
            let config = storage
                .server(&format!("members/{name}"))
                .map_err(|source| MemberError::Storage {
                    member: name.clone(),
                    source,
                })?;
            let started = Server::start(ServerConfig { listen, ..config }).await;
            started.map_err(|source| MemberError::Server {
                member: name.clone(),
                source,
            })
        };
        let server = match start_at(preferred).await {
            // The preferred port is in use, so any free port is used.
            Err(MemberError::Server {
                source: StartError::Bind { .. },
                ..
            }) if preferred.port() != 0 => start_at(SocketAddr::new(preferred.ip(), 0)).await,
            started => started,
        }?;
        let client = server.client();
        let filled = async {
            for definition in extra_apis::of(cluster) {
                let installed = server.install_crd(definition).await;
                installed.map_err(|error| error.to_string())?;
            }
            create(&Api::all(client.clone()), &nodes).await?;
            create(&Api::namespaced(client.clone(), "kube-system"), &pods).await
        };
        filled.await.map_err(content_error)?;
        Ok(Self {
            name: name.clone(),
            server,
            nodes: nodes.len(),
        })
    }

    /// Returns the name of the member. Its context in the kubeconfig has the same name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the API server of the member.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the number of nodes of the member.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the administrator's access to the member.
    pub fn access(&self) -> Access {
        Access::to(&self.server, &self.name)
    }

    /// Stops the API server.
    pub async fn stop(self) {
        self.server.shutdown().await;
    }
}
