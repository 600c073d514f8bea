//! The estimators of the simulated members. One server answers the requests about all members, and a Service for each
//! member leads to this server, so that karmada-scheduler and karmada-descheduler find it, too.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};

use berth_api::feature_gates::FeatureGates;
use berth_component_base::kube_client;
use berth_component_base::user_agent::Component;
use berth_estimator::SharedServer;
use berth_scheduler::estimator::{EstimatorOptions, WithoutService};
use berth_up::bootstrap;
use berth_up::members::Member;
use tokio_util::sync::CancellationToken;

use super::UpError;
use crate::estimator;

/// Returns the options of a client of the estimators of `berth up`. Members without a Service, such as clusters that
/// join later, have no estimator.
pub(crate) fn client_options() -> EstimatorOptions {
    EstimatorOptions {
        without_service: WithoutService::NoEstimator,
        ..EstimatorOptions::default()
    }
}

/// Starts to listen, and creates the Services. Returns the task that answers requests until the token is cancelled.
/// `client` is a client of the control plane.
///
/// # Errors
/// When the server cannot listen, or a Service cannot be created.
pub(super) async fn start(
    client: &kube::Client,
    members: &[Member],
    gates: FeatureGates,
    cancel: &CancellationToken,
) -> Result<impl Future<Output = ()> + Send + use<>, UpError> {
    // Every client that reaches the port can ask for the free capacity.
    let any_port = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let server = SharedServer::listen(any_port).await?;
    let EstimatorOptions { prefix, port, .. } = client_options();
    for member in members {
        let service = format!("{prefix}-{}", member.name());
        bootstrap::external_service(client, &service, port, server.address()).await?;
    }
    let clients = members.iter().map(|member| {
        let client = kube_client::named(member.server().client(), Component::Estimator);
        (member.name().to_owned(), client)
    });
    let clients: Vec<_> = clients.collect();
    let rules = estimator::rules(&gates);
    Ok(server.serve(clients, rules, cancel.clone()))
}
