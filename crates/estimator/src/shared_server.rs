//! Estimators of several members behind one listener, for a process that already has a client of each member.

use std::net::SocketAddr;

use berth_component_base::endpoints::ListenError;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::estimate::Rules;
use crate::metrics::RequestMetrics;
use crate::server;
use crate::service::EstimatorService;
use crate::watches::Member;

/// A gRPC server in plain text that answers requests about several members. It has no endpoints of probes and metrics.
#[derive(Debug)]
pub struct SharedServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl SharedServer {
    /// Listens on an address. Port 0 selects a free port.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub async fn listen(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
        })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until the token is cancelled. `members` contains the names and clients of the members. A request
    /// waits for the first lists of its member. Deployments and ReplicaSets are watched from the first request about
    /// unschedulable replicas on.
    pub async fn serve(
        self,
        members: impl IntoIterator<Item = (String, Client)>,
        rules: Rules,
        cancel: CancellationToken,
    ) {
        let followed = members
            .into_iter()
            .map(|(name, client)| (name, Member::follow_on_demand(&client, rules, &cancel)));
        let service = EstimatorService {
            members: followed.collect(),
            rules,
            metrics: RequestMetrics::for_all_methods(),
        };
        server::serve(self.listener, None, service, cancel).await;
    }
}
