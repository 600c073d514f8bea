//! `berth status`: shows which workloads of a control plane are not well, or the control plane that `berth up` runs.

mod instance;
mod without_policy;
mod workload_list;

use std::io;

use berth_component_base::kube_client::ConnectError;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::control_plane::{ControlPlaneArgs, InstanceArgs, LookupError};
use crate::output;
use crate::workloads::ListError;

/// Flags of `berth status`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    /// Namespace whose workloads are listed
    #[arg(value_name = "NAMESPACE", group = "scope", value_parser = namespace)]
    pub namespace: Option<String>,

    /// Namespace whose workloads are listed, as NAMESPACE
    #[arg(short, long = "namespace", value_name = "NAMESPACE", group = "scope", value_parser = namespace)]
    pub namespace_flag: Option<String>,

    /// List the workloads of all namespaces, and cluster-scoped ones
    #[arg(short = 'A', long, group = "scope")]
    pub all_namespaces: bool,

    /// Also list the workloads that are well
    #[arg(long, requires = "scope")]
    pub all: bool,

    /// Exit with 3 if a workload is broken, stuck or degraded, or if no policy selects it
    #[arg(long, requires = "scope")]
    pub exit_code: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

const EXAMPLES: &str = "\
Examples:
  berth status                    the control plane of `berth up`: servers, members and addresses
  berth status -A                 the workloads that are not well, with cause and next action
  berth status shop --all         all workloads of the namespace shop
  berth status shop --exit-code   for scripts: fails while a workload of shop needs attention
  berth status -A -o json         the same as a WorkloadList of status.berth.io/v1

Health of a workload:
  broken     nothing of it works
  stuck      a step cannot be done until you act, such as a placement or an application
  degraded   a part of its replicas or copies does not work
  waiting    a step is under way, or suspended; replicas may start for two minutes
  well       everything that is wanted is applied and works

READY counts only replicas in clusters that are ready. CLUSTERS is the number of clusters in
which the workload works, and of all its clusters. AGE is the time since which it is so. A
resource that only follows the workloads that need it is marked as a dependency.

The list contains the resources that a policy has claimed. Workloads that no policy selects stay
in the control plane, and are named below the list, if you may list them.

Exit codes:
  0   the status is printed
  1   the control plane cannot be read, or the namespace does not exist
  3   with --exit-code: a workload is broken, stuck or degraded, or no policy selects it";

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for humans.
    Text,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Output {
    /// Returns a value as YAML, or else as JSON.
    fn serialize(self, value: &impl Serialize) -> io::Result<String> {
        if self == Self::Yaml {
            return serde_saphyr::to_string(value).map_err(io::Error::other);
        }
        let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        Ok(text + "\n")
    }
}

/// Reason why the status cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// No running `berth up` can be found.
    #[error(transparent)]
    NotUp(#[from] LookupError),
    /// The control plane of `berth up` is still starting.
    #[error("a `berth up` is starting (process {0})")]
    Starting(i32),
    /// No client for the control plane can be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The process is running, and its API server does not return the list of members.
    #[error("process {process} runs, but its members cannot be listed from {url}: {reason}")]
    Unresponsive {
        /// Process id.
        process: i32,
        /// URL of the API server.
        url: String,
        /// Cause.
        reason: String,
    },
    /// The control plane refuses a list.
    #[error(transparent)]
    List(#[from] ListError),
    /// The namespace does not exist.
    #[error("there is no namespace {0}; `berth status -A` lists the workloads of all namespaces")]
    NoNamespace(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// The exit code that the status asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusResult {
    /// The status is printed.
    Printed,
    /// The flag `--exit-code` is set, and a workload needs attention.
    NeedsAttention,
}

/// Prints the status.
///
/// # Errors
/// When no control plane is running, or the control plane does not respond.
pub async fn run(args: StatusArgs) -> Result<StatusResult, StatusError> {
    let namespace = args.namespace.as_ref().or(args.namespace_flag.as_ref());
    if namespace.is_none() && !args.all_namespaces {
        let selected = InstanceArgs {
            kubeconfig: args.control_plane.kubeconfig,
            context: args.control_plane.karmada_context,
        };
        output::print(&instance::status(&selected, args.output).await?)?;
        return Ok(StatusResult::Printed);
    }
    let listed = workload_list::read(&args, namespace.map(String::as_str)).await?;
    output::print(&listed.text(args.output)?)?;
    Ok(if args.exit_code && listed.needs_attention() {
        StatusResult::NeedsAttention
    } else {
        StatusResult::Printed
    })
}

/// Parses the name of a namespace.
fn namespace(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.contains('/') {
        return Err(format!(
            "it must be a namespace; `berth explain {text}` describes one workload"
        ));
    }
    if text.is_empty() || !text.chars().all(is_name) {
        return Err("it must be the name of a namespace".to_owned());
    }
    Ok(text.to_owned())
}
