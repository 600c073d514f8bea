//! The controllers that work on bindings beside detector, propagation and failover, as `berth up` and
//! `berth controllers` run them.

use berth_controllers::dependencies::{self, DependenciesError};
use berth_controllers::workload_rebalancer::{self, RebalancerError};
use berth_scheduler::gates::ControllerGates;
use kube::Client;
use tokio_util::sync::CancellationToken;

/// What they are called where people look at what runs.
pub const NAME: &str = "binding controllers";

/// Why they ended.
#[derive(Debug, thiserror::Error)]
pub enum BindingControllersError {
    /// What a resource names does not follow it any more.
    #[error(transparent)]
    Dependencies(#[from] DependenciesError),
    /// WorkloadRebalancers have no effect any more.
    #[error(transparent)]
    Rebalancer(#[from] RebalancerError),
}

/// Runs those that the gates allow until the token is cancelled.
///
/// # Errors
/// When one of them fails.
pub async fn run(
    client: Client,
    gates: ControllerGates,
    cancel: CancellationToken,
) -> Result<(), BindingControllersError> {
    let following = async {
        if gates.propagate_deps {
            dependencies::run(client.clone(), cancel.clone()).await?;
        }
        Ok::<_, BindingControllersError>(())
    };
    let rebalancing = async { Ok(workload_rebalancer::run(client.clone(), cancel.clone()).await?) };
    tokio::try_join!(following, rebalancing)?;
    Ok(())
}
