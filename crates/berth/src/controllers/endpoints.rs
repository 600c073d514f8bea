//! The HTTP endpoints of `berth controllers` for health probes and metrics. A process that waits for the leadership
//! serves them too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_component_base::access_flags::{MetricsAccessError, MetricsAccessFlags};
use berth_component_base::bind_address::BindAddress;
use berth_component_base::endpoints::{Addresses, Endpoints, ListenError};
use berth_component_base::metrics::requests::Requests;
use berth_component_base::metrics::{build_info, leader_election, process};
use berth_component_base::user_agent::Component;
use berth_controllers::monitor::Monitor;
use clap::Args;
use kube::Client;
use tokio_util::sync::CancellationToken;

/// Flags of the endpoints, with the names and defaults of karmada-controller-manager.
#[derive(Args, Clone, Debug)]
pub(super) struct EndpointFlags {
    /// Address that serves /metrics; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    metrics_bind_address: BindAddress,

    /// Address that serves /healthz, /livez and /readyz; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":10357")]
    health_probe_bind_address: BindAddress,

    #[command(flatten)]
    metrics_access: MetricsAccessFlags,
}

/// An error that prevents the start of the endpoints.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The access check of the metrics cannot be set up.
    #[error(transparent)]
    Access(#[from] MetricsAccessError),
    /// The process cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

impl EndpointFlags {
    /// Serves the endpoints until the token is cancelled.
    ///
    /// # Errors
    /// Fails if the access check of the metrics cannot be set up, or if the process cannot listen on an address.
    pub(super) async fn serve(
        &self,
        state: &ProcessState,
        control_plane: &Client,
        cancel: &CancellationToken,
    ) -> Result<(), EndpointError> {
        let addresses = Addresses {
            probes: self.health_probe_bind_address,
            metrics: self.metrics_bind_address,
        };
        let access = self
            .metrics_access
            .access(Component::Controllers, control_plane, cancel)
            .await?;
        state.endpoints().serve(addresses, access, cancel).await?;
        Ok(())
    }
}

/// The state that the endpoints report. Clones are cheap and share the state.
#[derive(Clone, Debug)]
pub(super) struct ProcessState {
    monitor: Monitor,
    requests: Requests,
    leading: Arc<AtomicBool>,
    lease: Arc<str>,
}

impl ProcessState {
    /// Creates the state of a process that does not lead. `lease` is the name of the Lease in the metrics.
    pub(super) fn new(monitor: Monitor, requests: Requests, lease: String) -> Self {
        Self {
            monitor,
            requests,
            leading: Arc::default(),
            lease: lease.into(),
        }
    }

    /// Stores whether this process leads.
    pub(super) fn set_leading(&self, leading: bool) {
        self.leading.store(leading, Ordering::Release);
    }

    fn endpoints(&self) -> Endpoints {
        let (state, monitor) = (self.clone(), self.monitor.clone());
        Endpoints::default()
            .live(move || monitor.check_live())
            .ready(|| Ok(()))
            .metrics(move |registry| {
                let leading = state.leading.load(Ordering::Acquire);
                state.monitor.register(registry);
                leader_election::register(registry, &state.lease, leading);
                state.requests.register(registry);
                build_info::register(registry);
                process::register(registry);
            })
    }
}
