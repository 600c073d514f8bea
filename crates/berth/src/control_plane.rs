//! The control plane that a command is about: where it is, and a client for it.

use std::path::PathBuf;
use std::time::Duration;

use berth_api::component::Component;
use berth_scheduler::connect::{self, ConnectError, Target};
use clap::Args;
use kube::Client;

use crate::kubeconfig;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the control plane is.
#[derive(Args, Clone, Debug, Default)]
pub struct ControlPlaneArgs {
    /// The kubeconfig of the control plane [default: $KUBECONFIG, or that of `berth up`, or ~/.kube/config]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the control plane in its kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub karmada_context: Option<String>,
}

impl ControlPlaneArgs {
    /// A client for it.
    ///
    /// # Errors
    /// When nothing says where it is, what says so cannot be used, or nobody answers there.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        let target = target(self.kubeconfig.clone(), self.karmada_context.clone());
        let mut config = connect::config(&target).await?;
        patient(&mut config);
        connect::reach(config, Component::CommandLine).await
    }
}

/// Where a control plane is, by the flags of a command, else by the environment, else by what `berth up` has written.
pub(crate) fn target(kubeconfig: Option<PathBuf>, context: Option<String>) -> Target {
    Target {
        kubeconfig: kubeconfig.or_else(of_berth_up),
        context,
        master: None,
    }
}

/// How a command that runs once asks a server: one that has too much to do, or begins to serve, is asked again.
pub(crate) fn patient(config: &mut kube::Config) {
    config.read_timeout = Some(PATIENCE);
    config.default_retry = true;
}

/// What `berth up` has written, unless the environment names something else.
fn of_berth_up() -> Option<PathBuf> {
    if std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
        return None;
    }
    kubeconfig::path(None).ok().filter(|path| path.exists())
}
