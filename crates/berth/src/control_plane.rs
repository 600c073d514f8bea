//! Lookup of the control plane that a command works on.
//!
//! All commands use the same order: `--kubeconfig`, `$KUBECONFIG`, the kubeconfig of `berth up`, the default of
//! kubectl. Commands that need the running `berth up` find it by its kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::component::Component;
use berth_scheduler::connect::{self, ConnectError, Target};
use clap::Args;
use kube::Client;

use crate::instance::{self, InstanceError, Record};
use crate::kubeconfig::{self, KubeconfigError};

/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Flags that select the control plane.
#[derive(Args, Clone, Debug, Default)]
pub struct ControlPlaneArgs {
    /// Kubeconfig of the control plane [default: $KUBECONFIG, or that of `berth up`, or ~/.kube/config]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the control plane in its kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub karmada_context: Option<String>,
}

impl ControlPlaneArgs {
    /// Returns a client for the control plane.
    ///
    /// # Errors
    /// When no kubeconfig is found, it cannot be used, or the server does not respond.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        let target = target(self.kubeconfig.clone(), self.karmada_context.clone());
        let mut config = connect::config(&target).await?;
        retry_requests(&mut config);
        connect::reach(config, Component::CommandLine).await
    }
}

/// Returns the connection target from the flags of a command, the environment, or the kubeconfig of `berth up`.
pub(crate) fn target(kubeconfig: Option<PathBuf>, context: Option<String>) -> Target {
    Target {
        kubeconfig: kubeconfig_of(kubeconfig),
        context,
        master: None,
    }
}

/// Returns the kubeconfig of a command. If it is none, [`connect::config`] reads `$KUBECONFIG` and kubectl's default.
pub(crate) fn kubeconfig_of(flag: Option<PathBuf>) -> Option<PathBuf> {
    flag.or_else(|| {
        let is_unset = connect::kubeconfig_of_environment().is_none();
        let path = kubeconfig::path(None).ok().filter(|path| path.exists());
        path.filter(|_| is_unset)
    })
}

/// Reason why no running `berth up` is found.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// There is no home folder.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The record of the `berth up` cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// No `berth up` runs with the kubeconfig.
    #[error("no `berth up` runs with the kubeconfig {}{}", .0.named.display(), .0.advice())]
    NotUp(Box<NotUp>),
}

/// A kubeconfig without a `berth up`.
#[derive(Debug)]
pub struct NotUp {
    /// Path from the command line or the environment.
    named: PathBuf,
    is_of_environment: bool,
    /// Kubeconfig of another running `berth up`.
    other: Option<PathBuf>,
}

impl NotUp {
    /// Reports whether a `berth up` wrote the kubeconfig, or there is none: in both cases nothing is left to stop.
    pub(crate) fn has_ended(&self) -> bool {
        !self.named.exists() || kubeconfig::is_ours(&self.named)
    }

    fn advice(&self) -> String {
        let source = if self.is_of_environment {
            ", which KUBECONFIG names"
        } else {
            ""
        };
        match &self.other {
            Some(other) => {
                let other = other.display();
                format!("{source}; a `berth up` runs with {other}: pass --kubeconfig {other}")
            }
            None => format!("{source}; start one with `berth up`"),
        }
    }
}

/// A running `berth up` and its kubeconfig.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) record: Record,
}

/// Finds the `berth up` that belongs to the kubeconfig of a command.
///
/// # Errors
/// When no `berth up` runs with it.
pub(crate) fn instance(flag: Option<PathBuf>) -> Result<Instance, LookupError> {
    let of_environment = connect::kubeconfig_of_environment();
    let is_of_environment = flag.is_none() && of_environment.is_some();
    let named = match flag.or(of_environment) {
        Some(named) => named,
        None => kubeconfig::path(None)?,
    };
    let paths: Vec<PathBuf> = if is_of_environment {
        std::env::split_paths(&named).collect()
    } else {
        vec![named.clone()]
    };
    for path in paths {
        if let Some(record) = running(&path)? {
            return Ok(Instance {
                kubeconfig: path,
                record,
            });
        }
    }
    let default = kubeconfig::path(None).ok();
    let other = default.filter(|path| running(path).is_ok_and(|record| record.is_some()));
    Err(LookupError::NotUp(Box::new(NotUp {
        named,
        is_of_environment,
        other,
    })))
}

/// Finds the `berth up` of a kubeconfig, following symbolic links.
fn running(kubeconfig: &Path) -> Result<Option<Record>, InstanceError> {
    let found = instance::find(kubeconfig)?;
    match std::fs::canonicalize(kubeconfig) {
        Ok(path) if found.is_none() => instance::find(&path),
        _ => Ok(found),
    }
}

/// Configures the client of a command that runs once: it retries while the server is overloaded or starting.
pub(crate) fn retry_requests(config: &mut kube::Config) {
    config.read_timeout = Some(RESPONSE_TIMEOUT);
    config.default_retry = true;
}
