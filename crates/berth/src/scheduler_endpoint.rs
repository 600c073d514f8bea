//! The flags that select a running scheduler.

use std::net::SocketAddr;
use std::path::PathBuf;

use berth_plan::scheduler_endpoint::{SchedulerEndpoint, SchedulerEndpointError};
use clap::Args;
use kube::config::{AuthInfo, Cluster};

use crate::control_plane::{self, ControlPlaneArgs};

/// Flags that select a running scheduler.
#[derive(Args, Clone, Debug, Default)]
pub struct SchedulerEndpointArgs {
    /// URL of the scheduler's --metrics-bind-address, such as http://127.0.0.1:8080 [default: the scheduler of `berth
    /// up`]
    #[arg(long, value_name = "URL")]
    pub scheduler_url: Option<String>,

    /// File with the bearer token for --scheduler-url, which needs TLS or the loopback address
    #[arg(long, value_name = "FILE", requires = "scheduler_url")]
    pub scheduler_token_file: Option<PathBuf>,

    /// Certificate authority of --scheduler-url, PEM [default: the authorities of the system]
    #[arg(long, value_name = "FILE", requires = "scheduler_url")]
    pub scheduler_ca_file: Option<PathBuf>,

    /// Accept any certificate of --scheduler-url
    #[arg(long, requires = "scheduler_url", conflicts_with = "scheduler_ca_file")]
    pub insecure_skip_scheduler_verify: bool,
}

impl SchedulerEndpointArgs {
    /// Returns the scheduler that the flags name, or else the scheduler of the `berth up` that runs the control plane.
    /// Returns `None` if there is no such scheduler, or if `--karmada-context` is set without `--scheduler-url`.
    ///
    /// # Errors
    /// Fails if a flag is invalid.
    pub(crate) async fn endpoint(
        &self,
        control_plane: &ControlPlaneArgs,
    ) -> Result<Option<SchedulerEndpoint>, SchedulerEndpointError> {
        if let Some(endpoint) = self.explicit().await? {
            return Ok(Some(endpoint));
        }
        if control_plane.karmada_context.is_some() {
            return Ok(None);
        }
        let instance = control_plane::find_instance(control_plane.kubeconfig.clone()).ok();
        let url = instance.map(|instance| instance.record.scheduler);
        match url.filter(|url| !url.is_empty()) {
            Some(url) => Self::default().connect(&url).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the scheduler of this process, which listens on a loopback address. Returns `None` if no client can be
    /// created.
    pub(crate) async fn at(address: SocketAddr) -> Option<SchedulerEndpoint> {
        let connected = Self::default().connect(&format!("http://{address}")).await;
        connected.ok()
    }

    /// Returns the scheduler that the flags name, or `None` if they name no scheduler.
    ///
    /// # Errors
    /// Fails if a flag is invalid.
    pub(crate) async fn explicit(
        &self,
    ) -> Result<Option<SchedulerEndpoint>, SchedulerEndpointError> {
        match &self.scheduler_url {
            Some(url) => self.connect(url).await.map(Some),
            None => Ok(None),
        }
    }

    async fn connect(&self, url: &str) -> Result<SchedulerEndpoint, SchedulerEndpointError> {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let tls = Cluster {
            certificate_authority: text(&self.scheduler_ca_file),
            insecure_skip_tls_verify: self.insecure_skip_scheduler_verify.then_some(true),
            ..Cluster::default()
        };
        let credentials = AuthInfo {
            token_file: text(&self.scheduler_token_file),
            ..AuthInfo::default()
        };
        SchedulerEndpoint::connect(url, tls, credentials).await
    }
}
