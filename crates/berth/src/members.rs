//! The simulated members of `berth up`: each is an API server of its own, with a store of its own, and with nodes
//! as large as the fleet says. They know nothing of the control plane; [`crate::join`] makes the two meet.

mod extra_apis;
mod nodes;
mod taken;

use std::net::{IpAddr, SocketAddr};

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use berth_apimachinery::api_error::api_error_message;
use berth_apiserver::{DataDirError, Server, ServerConfig, StartError};
use kube::api::{Api, PostParams};
use tokio::task::JoinSet;

use crate::kubeconfig::Access;
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
    /// What the fleet says is in it cannot be made.
    #[error("cannot make what the fleet says is in {member}: {reason}")]
    Content {
        /// The member.
        member: String,
        /// Why not.
        reason: String,
    },
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

/// Creates what is not there yet; what was kept stays as it is.
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
    async fn start(cluster: &Cluster, wish: SocketAddr, kept: &Place) -> Result<Self, MemberError> {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let unfurnished = |reason| MemberError::Content {
            member: name.clone(),
            reason,
        };
        let nodes = nodes::of(cluster).map_err(|error| unfurnished(error.to_string()))?;
        let taken = taken::of(cluster, &nodes).map_err(|error| unfurnished(error.to_string()))?;
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
        let client = server.client();
        let furnished = async {
            for definition in extra_apis::of(cluster) {
                let installed = server.install_crd(definition).await;
                installed.map_err(|error| error.to_string())?;
            }
            create(&Api::all(client.clone()), &nodes).await?;
            create(&Api::namespaced(client.clone(), "kube-system"), &taken).await
        };
        furnished.await.map_err(unfurnished)?;
        Ok(Self {
            name: name.clone(),
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
