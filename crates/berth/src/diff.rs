//! The command `berth diff`. It shows how the objects of a workload differ: in the members, from the template, and
//! between the clusters.
//!
//! `berth_plan::diff` computes the report, and [`text`] formats it. The command writes nothing.

mod text;

use std::fmt::Write as _;

use berth_component_base::kube_client::ConnectError;
use berth_plan::control_plane_lists::placement_resources;
use berth_plan::diff::{DiffError, DiffVerdict, diff};
use clap::{Args, ValueEnum};

use self::text::Style;
use crate::control_plane::ControlPlaneArgs;
use crate::member_name;
use crate::output;
use crate::workload_args::WorkloadArgs;

/// Flags of `berth diff`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// The workload.
    #[command(flatten)]
    pub workload: WorkloadArgs,

    /// Compare the copy in one cluster only
    #[arg(long, value_name = "CLUSTER", value_parser = member_name::parse)]
    pub cluster: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Format,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

const EXAMPLES: &str = "\
Examples:
  berth diff deployment/web                    compares the copies of web in all its clusters
  berth diff shop/web --cluster member3        compares the copy in member3
  berth diff clusterrole/reader -o json        prints the report as JSON, for scripts
  berth diff web && echo in sync               runs a command if no copy differs

For each cluster, the command shows two comparisons, with a line for each field and value:
  wanted -> member    what another client has changed in the member. Defaults of the member's server, and fields that
                      members own, are no difference
  template -> wanted  the cluster's share of the replicas, and what override policies change
Then it lists the fields whose wanted values differ between the clusters. `wanted` is the manifest in the Work of the
cluster. Values of Secrets are masked.

Nothing is written: the member computes the update in a dry run, for which you need the right to update the object. The
command reaches members through `clusters/proxy` of the control plane. If the control plane does not serve it, the
command uses the endpoint of the Cluster and the token of its Secret.

Exit codes: 0 if no copy differs from the wanted object; 1 if a copy differs or is missing; 2 if a member cannot be
read, there is no such workload, the control plane cannot be read, or the command line is invalid.";

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text, in colours if the output is a terminal and `NO_COLOR` is not set.
    Text,
    /// The report as JSON, in the format diff.berth.io/v1.
    Json,
}

/// An error of `berth diff`.
#[derive(Debug, thiserror::Error)]
pub enum DiffCommandError {
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The objects cannot be compared.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

/// Compares the objects of a workload, and prints the report. Returns the result of the comparison.
///
/// # Errors
/// Fails if there is no such workload or cluster, or if the control plane cannot be read.
pub async fn run(args: DiffArgs) -> Result<DiffVerdict, DiffCommandError> {
    let client = args.control_plane.client(&placement_resources()).await?;
    let query = args.workload.query(client.default_namespace());
    let forwarding = args.control_plane.client_without_retries().await?;
    let report = diff(&client, &forwarding, &query, args.cluster.as_deref()).await?;
    let mut text = String::new();
    match args.output {
        Format::Json => {
            let json = serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?;
            let _ = writeln!(text, "{json}");
        }
        Format::Text => text = text::render(&report, Style::of_stdout()),
    }
    output::print(&text)?;
    Ok(report.verdict())
}
