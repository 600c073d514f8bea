//! The control plane that a command is about. All commands find it by one rule: `--kubeconfig`, else `$KUBECONFIG`, else
//! what `berth up` has written, else what kubectl would use. A command that needs the `berth up` itself finds it by its
//! kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::component::Component;
use berth_scheduler::connect::{self, ConnectError, Target};
use clap::Args;
use kube::Client;

use crate::instance::{self, InstanceError, Record};
use crate::kubeconfig::{self, KubeconfigError};

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
        kubeconfig: kubeconfig_of(kubeconfig),
        context,
        master: None,
    }
}

/// Returns the kubeconfig of a command; without one, [`connect::config`] reads `$KUBECONFIG` and what kubectl would use.
pub(crate) fn kubeconfig_of(flag: Option<PathBuf>) -> Option<PathBuf> {
    flag.or_else(|| {
        let unnamed = connect::kubeconfig_of_environment().is_none();
        let path = kubeconfig::path(None).ok().filter(|path| path.exists());
        path.filter(|_| unnamed)
    })
}

/// Why there is no `berth up` that a command could be about.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// There is no home folder to look in.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The record of the `berth up` cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// None runs with the kubeconfig.
    #[error("no `berth up` runs with the kubeconfig {}{}", .0.named.display(), .0.advice())]
    NotUp(Box<NotUp>),
}

/// A kubeconfig without a `berth up`.
#[derive(Debug)]
pub struct NotUp {
    /// As the command line or the environment names it.
    named: PathBuf,
    is_of_environment: bool,
    /// The kubeconfig of the `berth up` that runs without being meant.
    other: Option<PathBuf>,
}

impl NotUp {
    /// Whether a `berth up` has written the kubeconfig, or none is there: then there is nothing to stop.
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
                format!("{source}; the one that is up has {other}: pass --kubeconfig {other}")
            }
            None => format!("{source}; start one with `berth up`"),
        }
    }
}

/// The `berth up` that a command is about, and its kubeconfig.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) record: Record,
}

/// Finds the `berth up` that belongs to the kubeconfig of a command.
///
/// # Errors
/// When none runs with it.
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

/// Finds the `berth up` of a file, also where the file is a link to its kubeconfig.
fn running(kubeconfig: &Path) -> Result<Option<Record>, InstanceError> {
    let found = instance::find(kubeconfig)?;
    match std::fs::canonicalize(kubeconfig) {
        Ok(path) if found.is_none() => instance::find(&path),
        _ => Ok(found),
    }
}

/// How a command that runs once asks a server: one that has too much to do, or begins to serve, is asked again.
pub(crate) fn patient(config: &mut kube::Config) {
    config.read_timeout = Some(PATIENCE);
    config.default_retry = true;
}
