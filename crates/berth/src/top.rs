//! `berth top`: tables of the workloads that are not well, of the free capacity of members, of the queues, of the workloads
//! that wait for a cluster, and of the bindings that move.
//!
//! The command lists Clusters and bindings once, asks the running scheduler for its queues, and only reads.

mod capacity;
mod moving;
mod queues;
mod waiting;

use std::fmt::Write as _;

use berth_api::Binding;
use berth_component_base::kube_client::ConnectError;
use berth_diagnosis::{
    ClusterState, ClusterStates, Diagnosis, Health, HealthCounts, WorkloadRow, of_binding,
};
use berth_plan::control_plane_lists::placement_resources;
use berth_plan::scheduler_endpoint::SchedulerEndpointError;
use berth_scheduler::debug_api::QueueSummary;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;

use self::capacity::{ClusterCapacity, SortBy};
use self::moving::MovingBinding;
use self::waiting::WaitingBinding;
use crate::control_plane::ControlPlaneArgs;
use crate::output;
use crate::scheduler_endpoint::SchedulerEndpointArgs;
use crate::workloads::table::{Fixes, Layout, table};
use crate::workloads::{ListError, Workloads};

/// Maximum number of workloads in the first table.
const MAX_NOT_WELL: usize = 10;

/// Flags of `berth top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
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

    /// Flags that select the running scheduler, whose queues are shown.
    #[command(flatten)]
    pub scheduler: SchedulerEndpointArgs,
}

const EXAMPLES: &str = "\
Examples:
  berth top                  the worst workloads, the capacity of clusters, and what waits or moves
  berth top --sort-by cpu    the clusters with the least free CPU first
  berth top -o json          the same as JSON, with all workloads that are not well

The tables:
  NOT WELL   the ten worst workloads; `berth status -A` lists all, with the next actions
  NAME       the free capacity of each cluster; that of a cluster that is not ready cannot be used
  QUEUE      ClusterQueues, and namespaces whose workloads wait for their turn, from the running scheduler
  WAITING    workloads without a decision, or that fit into no cluster, the highest priority first
  MOVING     workloads of which old copies wait for new ones, or with an unfinished eviction";

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
    #[error(transparent)]
    List(#[from] ListError),
    /// The scheduler of `--scheduler-url` does not return its queues.
    #[error(transparent)]
    Scheduler(#[from] SchedulerEndpointError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

/// The content of the output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The numbers of all workloads by health.
    counts: HealthCounts,
    /// The workloads that are not well, the worst first.
    not_well: Vec<WorkloadRow>,
    clusters: Vec<ClusterCapacity>,
    /// The queues of the running scheduler.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<QueueSummary>,
    waiting: Vec<WaitingBinding>,
    moving: Vec<MovingBinding>,
}

/// Prints the workloads that are not well, the capacity of all members, the waiting bindings and the moving bindings.
///
/// # Errors
/// When the control plane cannot be read.
pub async fn run(args: TopArgs) -> Result<(), TopError> {
    let client = args.control_plane.client(&placement_resources()).await?;
    let workloads = Workloads::list(&client, None).await?;
    let now = Timestamp::now();
    let report = Report {
        queues: args.queues().await?,
        ..Report::of(&workloads, args.sort_by, now)
    };
    let text = match args.output {
        Output::Json => {
            serde_json::to_string_pretty(&report).map_err(std::io::Error::other)? + "\n"
        }
        Output::Table => text(&report, output::terminal_width(), now),
    };
    output::print(&text)?;
    Ok(())
}

impl TopArgs {
    /// Returns the queues of the running scheduler, or none if no scheduler is found.
    ///
    /// # Errors
    /// Fails if the scheduler of `--scheduler-url` does not return its queues.
    async fn queues(&self) -> Result<Vec<QueueSummary>, SchedulerEndpointError> {
        let Some(endpoint) = self.scheduler.endpoint(&self.control_plane).await? else {
            return Ok(Vec::new());
        };
        match endpoint.queues(None).await {
            Ok(list) => Ok(list.map(|list| list.queues).unwrap_or_default()),
            // The scheduler of `berth up` may have ended a moment ago.
            Err(_) if self.scheduler.scheduler_url.is_none() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl Report {
    fn of(workloads: &Workloads, sort_by: SortBy, now: Timestamp) -> Self {
        let (rows, counts) = workloads.rows(now);
        let states = workloads.cluster_states();
        let diagnoses = Diagnoses::new(&states, now);
        let not_well = rows.into_iter().filter(|row| row.health != Health::Well);
        let Workloads { clusters, bindings } = workloads;
        let specs = bindings.iter().map(|binding| &binding.spec);
        Self {
            counts,
            not_well: not_well.collect(),
            clusters: capacity::of_clusters(clusters, specs, sort_by),
            queues: Vec::new(),
            waiting: waiting::waiting_bindings(bindings, &diagnoses),
            moving: moving::moving_bindings(bindings, &diagnoses),
        }
    }
}

/// The diagnoses of bindings at one time.
#[derive(Clone, Copy, Debug)]
struct Diagnoses<'a> {
    clusters: &'a ClusterStates,
    now: Timestamp,
}

impl<'a> Diagnoses<'a> {
    const fn new(clusters: &'a ClusterStates, now: Timestamp) -> Self {
        Self { clusters, now }
    }

    fn state(&self, cluster: &str) -> ClusterState {
        let state = self.clusters.get(cluster).cloned();
        state.unwrap_or(ClusterState::Missing)
    }

    fn of(&self, binding: &Binding) -> Diagnosis {
        of_binding(binding, &|name| self.state(name), self.now)
    }

    fn row(&self, binding: &Binding) -> WorkloadRow {
        WorkloadRow::of(binding, &|name| self.state(name), self.now)
    }
}

fn text(report: &Report, width: Option<usize>, now: Timestamp) -> String {
    let mut text = format!("{}\n\n", report.counts);
    let count = report.not_well.len().min(MAX_NOT_WELL);
    let worst = report.not_well.get(..count).unwrap_or_default();
    if !worst.is_empty() {
        let layout = Layout {
            title: "NOT WELL",
            fixes: Fixes::Hidden,
            width,
        };
        text.push_str(&table(worst, layout, now));
        match report.not_well.len() - worst.len() {
            0 => {}
            more => {
                let _ = writeln!(text, "and {more} more: `berth status -A` lists all");
            }
        }
        text.push('\n');
    }
    if report.clusters.is_empty() {
        text.push_str("no members: add a cluster with `berth join`\n");
    } else {
        text.push_str(&capacity::table(&report.clusters));
    }
    let queues = queues::table(&report.queues);
    if !queues.is_empty() {
        text.push('\n');
        text.push_str(&queues);
    }
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
