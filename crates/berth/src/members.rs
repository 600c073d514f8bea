//! The simulated members of `berth up`: each is an API server of its own, with a store of its own, and with nodes
//! as large as the fleet says. They know nothing of the control plane; [`crate::join`] makes the two meet.

mod nodes;

use std::net::{IpAddr, SocketAddr};

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use berth_apiserver::{DataDirError, Server, ServerConfig, StartError};
use kube::api::{Api, PostParams};
use tokio::task::JoinSet;

use crate::kubeconfig::{Access, CONTEXT};
use crate::up::keeping::Place;

/// Why a member does not run.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// Its API server cannot start.
    #[error("cannot start the API server of {member}: {source}")]
    Server {
        /// The member.
        member: String,
        /// Why not.
        source: StartError,
    },
    /// What it kept cannot be used.
    #[error("cannot start the API server of {member}: {source}")]
    Kept {
        /// The member.
        member: String,
        /// Why not.
        source: DataDirError,
    },
    /// Its capacity cannot be divided among nodes.
    #[error("cannot make the nodes of {member}: {reason}")]
    Nodes {
        /// The member.
        member: String,
        /// Why not.
        reason: String,
    },
    /// Its context could not be told from that of the control plane.
    #[error("a member cannot have the name {CONTEXT}: that is the context of the control plane")]
    Name,
    /// The start broke off.
    #[error("a member did not start")]
    BrokenOff,
}

/// A member that runs in this process.
#[derive(Debug)]
pub struct Member {
    name: String,
    server: Server,
    nodes: usize,
}

/// Whether a cluster of the fleet is to be simulated: it is, unless it says where its own API is, or that an
/// agent in it does the work.
pub fn is_simulated(cluster: &Cluster) -> bool {
    cluster.spec.sync_mode == SyncMode::Push && cluster.spec.api_endpoint.is_none()
}

/// Starts the simulated members of a fleet, in its order. The member at place N listens on the port N + 1 after
/// `port` where that is free, and on any other one where it is not, or where `port` is 0.
///
/// # Errors
/// When one of them cannot start; the others are stopped then.
pub(crate) async fn start(
    fleet: &[Cluster],
    ip: IpAddr,
    port: u16,
    kept: &Place,
) -> Result<Vec<Member>, MemberError> {
    let mut starting = JoinSet::new();
    let simulated = fleet.iter().filter(|cluster| is_simulated(cluster));
    for (place, cluster) in simulated.enumerate() {
        let own = u16::try_from(place + 1).ok();
        let wish = match (port, own) {
            (1.., Some(own)) => port.checked_add(own).unwrap_or(0),
            _ => 0,
        };
        let (cluster, kept) = (cluster.clone(), kept.clone());
        starting.spawn(async move {
            let member = Member::start(&cluster, SocketAddr::new(ip, wish), &kept).await;
            (place, member)
        });
    }
    let mut members = Vec::new();
    while let Some(started) = starting.join_next().await {
        let (place, member) = started.map_err(|_| MemberError::BrokenOff)?;
        members.push((place, member?));
    }
    members.sort_by_key(|(place, _)| *place);
    Ok(members.into_iter().map(|(_, member)| member).collect())
}

impl Member {
    async fn start(cluster: &Cluster, wish: SocketAddr, kept: &Place) -> Result<Self, MemberError> {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if name == CONTEXT {
            return Err(MemberError::Name);
        }
        let nodes = nodes::of(cluster).map_err(|error| MemberError::Nodes {
            member: name.clone(),
            reason: error.to_string(),
        })?;
        let on = async |listen| {
            let config =
                kept.server(&format!("members/{name}"))
                    .map_err(|source| MemberError::Kept {
                        member: name.clone(),
                        source,
                    })?;
            let started = Server::start(ServerConfig { listen, ..config }).await;
            started.map_err(|source| MemberError::Server {
                member: name.clone(),
                source,
            })
        };
        let server = match on(wish).await {
            // A wish, not a demand.
            Err(MemberError::Server {
                source: StartError::Bind { .. },
                ..
            }) if wish.port() != 0 => on(SocketAddr::new(wish.ip(), 0)).await,
            started => started,
        }?;
        let api = Api::all(server.client());
        for node in &nodes {
            match api.create(&PostParams::default(), node).await {
                Ok(_) => {}
                // It was kept, and stays as it is.
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
                Err(error) => {
                    return Err(MemberError::Nodes {
                        member: name,
                        reason: error.to_string(),
                    });
                }
            }
        }
        Ok(Self {
            name,
            server,
            nodes: nodes.len(),
        })
    }

    /// Its name, which is also that of its context in the kubeconfig.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its API server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The number of its nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// What a person needs to look into it.
    pub fn access(&self) -> Access {
        Access::to(&self.server, &self.name)
    }

    /// Ends its server.
    pub async fn stop(self) {
        self.server.shutdown().await;
    }
}
