//! `berth top`: tables of the free capacity of members, of the bindings that wait for a cluster, and of the bindings that
//! move.
//!
//! The command lists Clusters and bindings once, and only reads.

mod capacity;
mod moving;
mod waiting;

use std::fmt::Debug;

use berth_api::{Binding, Cluster, ClusterResourceBinding, ResourceBinding};
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::kube_client::ConnectError;
use berth_component_base::paged_list::list_all;
use berth_plan::control_plane_lists::placement_resources;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kube::Client;
use kube::api::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::capacity::{ClusterCapacity, SortBy};
use self::moving::MovingBinding;
use self::waiting::WaitingBinding;
use crate::control_plane::ControlPlaneArgs;
use crate::output;

/// Flags of `berth top`.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// Order of the clusters
    #[arg(long, value_name = "COLUMN", default_value = "fullest")]
    pub sort_by: SortBy,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,

    /// The control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Tables.
    Table,
    /// JSON.
    Json,
}

/// Reason for which `berth top` fails.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// No client for the control plane can be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A request to the control plane fails.
    #[error("cannot list {what}: {}", api_error_message(.source))]
    Read {
        /// Plural name of the kind.
        what: &'static str,
        /// Cause.
        source: Box<kube::Error>,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

/// The content of the output.
#[derive(Debug, Serialize)]
struct Report {
    clusters: Vec<ClusterCapacity>,
    waiting: Vec<WaitingBinding>,
    moving: Vec<MovingBinding>,
}

/// Prints the capacity of all members, the waiting bindings and the moving bindings.
///
/// # Errors
/// When the control plane cannot be read.
pub async fn run(args: TopArgs) -> Result<(), TopError> {
    let client = args.control_plane.client(&placement_resources()).await?;
    let clusters: Vec<Cluster> = list(&client, "clusters").await?;
    let namespaced: Vec<ResourceBinding> = list(&client, "resourcebindings").await?;
    let cluster_scoped: Vec<ClusterResourceBinding> =
        list(&client, "clusterresourcebindings").await?;
    let namespaced = namespaced.into_iter().map(Binding::from);
    let cluster_scoped = cluster_scoped.into_iter().map(Binding::from);
    let bindings: Vec<Binding> = namespaced.chain(cluster_scoped).collect();
    let specs = bindings.iter().map(|binding| &binding.spec);
    let report = Report {
        clusters: capacity::of_clusters(&clusters, specs, args.sort_by),
        waiting: waiting::waiting_bindings(&bindings),
        moving: moving::moving_bindings(&bindings),
    };
    let text = match args.output {
        Output::Json => {
            serde_json::to_string_pretty(&report).map_err(std::io::Error::other)? + "\n"
        }
        Output::Table => text(&report, Timestamp::now()),
    };
    output::print(&text)?;
    Ok(())
}

async fn list<K>(client: &Client, resource: &'static str) -> Result<Vec<K>, TopError>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let objects = list_all(&Api::<K>::all(client.clone())).await;
    objects.map_err(|error| TopError::Read {
        what: resource,
        source: Box::new(error),
    })
}

fn text(report: &Report, now: Timestamp) -> String {
    let mut text = if report.clusters.is_empty() {
        "no members: add a cluster with `berth join`\n".to_owned()
    } else {
        capacity::table(&report.clusters)
    };
    if !report.waiting.is_empty() {
        text.push('\n');
        text.push_str(&waiting::table(&report.waiting, now));
    }
    if !report.moving.is_empty() {
        text.push('\n');
        text.push_str(&moving::table(&report.moving, now));
    }
    text
}
