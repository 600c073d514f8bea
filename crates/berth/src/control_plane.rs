//! Selection of the control plane to which a command connects.
//!
//! All commands try the same sources in this order: `--kubeconfig`, `$KUBECONFIG`, the kubeconfig that `berth up`
//! wrote, and kubectl's default. Some commands need a running `berth up`, and find its process by the path of its
//! kubeconfig.

use std::path::{Path, PathBuf};

use berth_component_base::kube_client::{self, ConnectError, Target, retry_requests};
use berth_component_base::user_agent::Component;
use berth_up::instance::{self, InstanceError, Record};
use berth_up::kubeconfig::{self, KubeconfigError};
use clap::Args;
use kube::Client;
use kube::api::ApiResource;

/// Flags that select the control plane.
#[derive(Args, Clone, Debug, Default)]
pub struct ControlPlaneArgs {
    /// Kubeconfig of the control plane [default: $KUBECONFIG, or that of `berth up`, or ~/.kube/config]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the control plane in its kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", visible_alias = "context")]
    pub karmada_context: Option<String>,
}

/// Flags that select a running `berth up`.
#[derive(Args, Clone, Debug, Default)]
pub struct InstanceArgs {
    /// Kubeconfig that `berth up` has written [default: $KUBECONFIG, or ~/.berth/kubeconfig]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of `berth up` in its kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ControlPlaneArgs {
    /// Creates a client for a control plane that serves these resources.
    ///
    /// # Errors
    /// Fails if no kubeconfig is found, if the kubeconfig is invalid, or if the server does not respond or does not
    /// serve the resources.
    pub async fn client(&self, resources: &[ApiResource]) -> Result<Client, ConnectError> {
        let target = target(self.kubeconfig.clone(), self.karmada_context.clone());
        let mut config = kube_client::config(&target).await?;
        retry_requests(&mut config);
        kube_client::reach_serving(config, Component::CommandLine, resources).await
    }

    /// Creates a client that sends each request once, also if the server responds that it is overloaded. The subresource
    /// `clusters/proxy` responds so about a member that it cannot reach.
    ///
    /// # Errors
    /// Fails if no kubeconfig is found, or if the kubeconfig is invalid.
    pub(crate) async fn client_without_retries(&self) -> Result<Client, ConnectError> {
        let target = target(self.kubeconfig.clone(), self.karmada_context.clone());
        let mut config = kube_client::config(&target).await?;
        config.default_retry = false;
        kube_client::client(config, Component::CommandLine)
    }
}

/// Returns the control plane to connect to. `kubeconfig` and `context` are values of flags.
pub(crate) fn target(kubeconfig: Option<PathBuf>, context: Option<String>) -> Target {
    Target {
        kubeconfig: kubeconfig_of(kubeconfig),
        context,
        master: None,
    }
}

/// Returns the kubeconfig that a flag names. If there is no flag and `$KUBECONFIG` is unset, returns the kubeconfig of
/// `berth up`. If the result is `None`, [`kube_client::config`] reads `$KUBECONFIG` or kubectl's default.
pub(crate) fn kubeconfig_of(flag: Option<PathBuf>) -> Option<PathBuf> {
    flag.or_else(|| {
        let is_unset = kube_client::kubeconfig_of_environment().is_none();
        let path = kubeconfig::path(None).ok().filter(|path| path.exists());
        path.filter(|_| is_unset)
    })
}

/// An error of the search for a running `berth up`.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The path of the kubeconfig is unknown, because the user has no home folder.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The file that describes the `berth up` cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The kubeconfig of the `berth up` has no context with this name.
    #[error(
        "the kubeconfig {} has no context {context}: its contexts are {}", .kubeconfig.display(), .contexts.join(", ")
    )]
    Context {
        /// The context, from the command line.
        context: String,
        /// Path of the kubeconfig.
        kubeconfig: PathBuf,
        /// Contexts of the kubeconfig.
        contexts: Vec<String>,
    },
    /// No `berth up` runs with the selected kubeconfig.
    #[error("no `berth up` runs with the kubeconfig {}{}", .0.named.display(), .0.advice())]
    NotUp(Box<NotUp>),
}

/// A kubeconfig with which no `berth up` runs.
#[derive(Debug)]
pub struct NotUp {
    /// Path of the kubeconfig, from the command line, the environment or the default.
    named: PathBuf,
    /// True if `$KUBECONFIG` contains the path.
    is_of_environment: bool,
    /// Default kubeconfig, if a `berth up` runs with it.
    other: Option<PathBuf>,
}

impl NotUp {
    /// Reports whether no control plane is left to stop: the kubeconfig does not exist, or an ended `berth up` wrote
    /// it.
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

/// Finds the `berth up` whose kubeconfig a command uses.
///
/// # Errors
/// Fails if no `berth up` runs with this kubeconfig, or if the kubeconfig lacks the context.
pub(crate) fn instance(args: &InstanceArgs) -> Result<Instance, LookupError> {
    let found = find_instance(args.kubeconfig.clone())?;
    if let Some(context) = args.context.clone() {
        let kubeconfig = found.kubeconfig.clone();
        let contexts = kube_client::contexts(&target(Some(kubeconfig.clone()), None)).names;
        if !contexts.contains(&context) {
            return Err(LookupError::Context {
                context,
                kubeconfig,
                contexts,
            });
        }
    }
    Ok(found)
}

/// Finds the `berth up` that uses the kubeconfig of a flag.
pub(crate) fn find_instance(flag: Option<PathBuf>) -> Result<Instance, LookupError> {
    let of_environment = kube_client::kubeconfig_of_environment();
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

/// Finds the `berth up` that wrote a kubeconfig. The path may be a symbolic link.
fn running(kubeconfig: &Path) -> Result<Option<Record>, InstanceError> {
    let found = instance::find(kubeconfig)?;
    match std::fs::canonicalize(kubeconfig) {
        Ok(path) if found.is_none() => instance::find(&path),
        _ => Ok(found),
    }
}
