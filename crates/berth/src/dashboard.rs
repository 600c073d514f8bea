//! The command `berth dashboard`, which serves a web page about a control plane.
//!
//! The crate `berth-dashboard` serves the page.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_component_base::kube_client::ConnectError;
use berth_dashboard::{Clients, Dashboard, DashboardError};
use berth_plan::control_plane_lists::placement_resources;
use berth_plan::scheduler_configuration::{ConfigurationError, DecisionConfiguration};
use berth_plan::scheduler_endpoint::{SchedulerEndpoint, SchedulerEndpointError};
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::control_plane::ControlPlaneArgs;
use crate::engine_flags::EngineFlags;
use crate::output;
use crate::scheduler_endpoint::SchedulerEndpointArgs;

/// Flags of `berth dashboard`.
#[derive(Args, Clone, Debug)]
pub struct DashboardArgs {
    /// Port of the page, on the loopback address; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,

    /// Configuration file of the scheduler, for the decisions that the page computes [default: that of the running
    /// scheduler]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// Flags that select the running scheduler, whose records of decisions the page shows.
    #[command(flatten)]
    pub scheduler: SchedulerEndpointArgs,

    /// Flags that affect scheduling decisions.
    #[command(flatten)]
    pub engine: EngineFlags,
}

/// An error of `berth dashboard`.
#[derive(Debug, thiserror::Error)]
pub enum DashboardCommandError {
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The running scheduler cannot be used.
    #[error(transparent)]
    Scheduler(#[from] SchedulerEndpointError),
    /// The page cannot be served.
    #[error(transparent)]
    Serve(#[from] DashboardError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

impl DashboardArgs {
    /// Returns the configuration for computed decisions: a file, that of the running scheduler, or the flags.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or the scheduler of `--scheduler-url` does not return its configuration.
    async fn configuration(
        &self,
        scheduler: Option<&SchedulerEndpoint>,
    ) -> Result<DecisionConfiguration, DashboardCommandError> {
        if let Some(path) = &self.config {
            return Ok(self.engine.configuration_of_file(path)?);
        }
        let Some(endpoint) = scheduler else {
            return Ok(self.engine.configuration());
        };
        match endpoint.configuration().await {
            Ok(active) => Ok(DecisionConfiguration::of_scheduler(
                endpoint.url(),
                &active,
                self.engine.out_of_tree.clone(),
            )),
            Err(error) if self.scheduler.scheduler_url.is_some() => Err(error.into()),
            // The scheduler of `berth up` may have ended a moment ago.
            Err(_) => Ok(self.engine.configuration()),
        }
    }
}

/// Serves the page until the token is cancelled.
///
/// # Errors
/// Fails if the configuration is invalid, the control plane does not respond, or the page cannot be served.
pub async fn run(
    args: DashboardArgs,
    cancel: CancellationToken,
) -> Result<(), DashboardCommandError> {
    let scheduler = args.scheduler.endpoint(&args.control_plane).await?;
    let configuration = args.configuration(scheduler.as_ref()).await?;
    // An invalid configuration ends the command here. Otherwise the first page that computes a decision would fail.
    configuration.check()?;
    let client = args.control_plane.client(&placement_resources()).await?;
    let clients = Clients {
        control_plane: client,
        forwarding: args.control_plane.client_without_retries().await?,
    };
    let dashboard = listen(args.port, clients, configuration, scheduler).await?;
    output::print(&format!(
        "dashboard: {}\n\nPress Ctrl-C to stop. The page is read-only; everyone with the URL can read it.\n",
        dashboard.url()
    ))?;
    Ok(dashboard.serve(cancel).await?)
}

/// Creates the server of the page, on the loopback address.
///
/// # Errors
/// Fails if the process cannot listen on the port.
pub(crate) async fn listen(
    port: u16,
    clients: Clients,
    configuration: DecisionConfiguration,
    scheduler: Option<SchedulerEndpoint>,
) -> Result<Dashboard, DashboardError> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    Dashboard::listen(address, clients, configuration, scheduler).await
}
