//! The way to the members of a control plane: through `clusters/proxy`, with the rights of the user, or else at the endpoint
//! of the Cluster with the token of its Secret.

use berth_api::Cluster;
use berth_controllers::member_client::{self, MemberClientError, proxied};
use kube::Client;

/// The access to the members of a control plane.
pub(crate) struct MemberAccess {
    control_plane: Client,
    /// The client for requests to `clusters/proxy`. `None` if the control plane does not serve it.
    forwarding: Option<Client>,
}

/// The reason why there is no client for a member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemberAccessError {
    /// The Cluster or its Secret is incomplete or cannot be read.
    #[error(transparent)]
    Client(#[from] MemberClientError),
    /// There is no such Cluster.
    #[error("its Cluster does not exist")]
    NoCluster,
}

impl MemberAccess {
    /// Finds out whether the control plane serves `clusters/proxy`. `forwarding` is the client for requests to it. Without
    /// an answer, the members are reached directly.
    pub(crate) async fn find(control_plane: &Client, forwarding: &Client) -> Self {
        let is_served = proxied::is_served(control_plane).await.unwrap_or(false);
        Self {
            control_plane: control_plane.clone(),
            forwarding: is_served.then(|| forwarding.clone()),
        }
    }

    /// Returns a client for a member.
    ///
    /// # Errors
    /// When the control plane does not serve the proxy, and the Cluster or its Secret is missing or malformed.
    pub(crate) async fn client(
        &self,
        name: &str,
        cluster: Option<&Cluster>,
    ) -> Result<Client, MemberAccessError> {
        if let Some(forwarding) = &self.forwarding {
            return Ok(proxied::client(forwarding, name));
        }
        let cluster = cluster.ok_or(MemberAccessError::NoCluster)?;
        Ok(member_client::connect(&self.control_plane, cluster).await?)
    }
}
