//! The command `berth explain`. It explains why each cluster was or was not selected for a workload, and which changes
//! would lead to another decision.
//!
//! ```text
//! control_plane_lists ──> find ──> analysis ──> recorded_report ──> text or JSON
//! ```
//!
//! `analysis` computes the decision for the current clusters, with the rules and options of the scheduler. If the
//! running scheduler has recorded its decision, `recorded_report` merges both. The command writes nothing to the
//! control plane.

mod analysis;
pub(crate) mod control_plane_lists;
mod error;
mod find;
mod recorded_report;
mod text;

use std::fmt::Write as _;
use std::path::PathBuf;

use berth_scheduler::binding::BindingKey;
use berth_scheduler::debug_api::{ActiveConfiguration, DecisionDetails};
use berth_scheduler::estimator::EstimatorArgs;
use clap::{Args, ValueEnum};

pub(crate) use analysis::with_stored_result;
pub use error::ExplainError;

use crate::control_plane::{ControlPlaneArgs, placement_resources};
use crate::engine_flags::EngineFlags;
use crate::member_name;
use crate::output;
use crate::scheduler_configuration::DecisionConfiguration;
use crate::scheduler_endpoint::{SchedulerEndpoint, SchedulerEndpointArgs, SchedulerEndpointError};

/// Flags of `berth explain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Workload or binding: NAME, NAMESPACE/NAME, or KIND/NAME as in deployment/web; or its kind, as in deployment web
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: String,

    /// Name of the workload, if its kind precedes it
    #[arg(value_name = "NAME", conflicts_with = "kind")]
    pub name_after_kind: Option<String>,

    /// Kind of the workload, or ResourceBinding or ClusterResourceBinding
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,

    /// Explain one cluster in detail, and find changes that would place the workload there
    #[arg(long, value_name = "CLUSTER", value_parser = member_name::parse)]
    pub cluster: Option<String>,

    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Format,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// Configuration file of the scheduler, for decisions that the command computes [default: that of the running
    /// scheduler]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Flags that select the running scheduler.
    #[command(flatten)]
    pub scheduler: SchedulerEndpointArgs,

    /// Flags that affect scheduling decisions.
    #[command(flatten)]
    pub engine: EngineFlags,

    /// Flags of the estimators.
    #[command(flatten, next_help_heading = "Estimators, as for berth scheduler")]
    pub estimators: EstimatorArgs,
}

const EXAMPLES: &str = "\
Examples:
  berth explain deployment web                 explains why web is on its clusters and not on others
  berth explain shop/web --cluster member3     explains why web is not on member3, and what would place it there
  berth explain web-deployment -o json         prints the report as JSON, for scripts
  berth explain clusterrole/reader             explains a cluster-scoped resource
  berth explain web --scheduler-url http://127.0.0.1:8080
                                               explains the decision that this scheduler has recorded

Nothing is written: the command only gets and lists Clusters and bindings. If the running scheduler has recorded its
decision, the command explains the recorded decision, and also computes the decision for the present clusters. The
scheduler of `berth up` is found without flags. Exit codes: 0 if the binding is explained, placed or not; 1 if there
is no such binding or the control plane cannot be read; 2 for an invalid command line.";

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text with a row for each cluster.
    Table,
    /// The report as JSON, in the format explain.berth.io/v1.
    Json,
}

/// Explains a binding, and prints the report.
///
/// # Errors
/// Fails if there is no such binding or cluster, or if the control plane cannot be read.
pub async fn run(args: ExplainArgs) -> Result<(), ExplainError> {
    let estimators = args.estimators.clone().options()?;
    let client = args.control_plane.client(&placement_resources()).await?;
    let query = find::NameQuery::new(&args, client.default_namespace());
    let bindings = control_plane_lists::bindings(&client, query.namespace()).await?;
    let binding = match find::find(&query, &bindings) {
        Ok(binding) => binding.clone(),
        Err(find::FindError::Ambiguous(names)) => {
            return Err(ExplainError::Ambiguous {
                name: query.name().to_owned(),
                names,
            });
        }
        Err(find::FindError::NotFound) => {
            let all = control_plane_lists::bindings(&client, None).await?;
            return Err(query.not_found(&all));
        }
    };
    let clusters = control_plane_lists::clusters(&client).await?;
    if let Some(name) = &args.cluster
        && !clusters.contains_key(name)
    {
        return Err(ExplainError::no_cluster(name, clusters.keys()));
    }
    let estimators =
        estimators.map(|options| crate::what_if::Estimators::new(client.clone(), &options));
    let (record, active) = read_recorded_decision(&args, &binding.key).await?;
    let configuration = match (&args.config, &active) {
        (Some(path), _) => DecisionConfiguration::of_file(path, &args.engine)?,
        (None, Some((url, active))) => {
            DecisionConfiguration::of_scheduler(url, active, &args.engine)
        }
        (None, None) => DecisionConfiguration::of_flags(&args.engine),
    };
    let report = analysis::analyse(
        &args,
        &binding,
        &bindings,
        &clusters,
        estimators.as_ref(),
        &configuration,
    )
    .await?;
    let report = recorded_report::merge(report, &binding, args.cluster.as_deref(), record);
    let mut text = String::new();
    match args.output {
        Format::Json => {
            let json = serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?;
            let _ = writeln!(text, "{json}");
        }
        Format::Table => text = text::render(&report, args.cluster.as_deref()),
    }
    output::print(&text)?;
    Ok(())
}

/// Reads the scheduler's record of a binding, and the URL and the configuration of the scheduler. Without a record,
/// returns the reason.
///
/// # Errors
/// Fails if the scheduler of `--scheduler-url` does not return the record or the configuration.
async fn read_recorded_decision(
    args: &ExplainArgs,
    key: &BindingKey,
) -> Result<
    (
        Result<DecisionDetails, String>,
        Option<(String, ActiveConfiguration)>,
    ),
    SchedulerEndpointError,
> {
    let Some(endpoint) = args.scheduler.endpoint(&args.control_plane).await? else {
        let reason =
            "no scheduler was asked; pass --scheduler-url URL for the decision that was made";
        return Ok((Err(reason.to_owned()), None));
    };
    match read_record(&endpoint, key).await {
        Ok((record, active)) => {
            let url = endpoint.url().to_owned();
            let record =
                record.ok_or_else(|| format!("the scheduler at {url} has no record of it"));
            Ok((record, Some((url, active))))
        }
        // The scheduler of `berth up` may have ended a moment ago, so the command continues without a record.
        Err(error) if args.scheduler.scheduler_url.is_none() => Ok((Err(error.to_string()), None)),
        Err(error) => Err(error),
    }
}

async fn read_record(
    endpoint: &SchedulerEndpoint,
    key: &BindingKey,
) -> Result<(Option<DecisionDetails>, ActiveConfiguration), SchedulerEndpointError> {
    Ok((
        endpoint.decision(key).await?,
        endpoint.configuration().await?,
    ))
}
