//! The command `berth explain`. It explains why each cluster was or was not selected for a workload, and which changes
//! would lead to another decision.
//!
//! `berth_plan::explain` computes the report, and [`text`] formats it. The command writes nothing to the control plane.

mod error;
mod text;

use std::fmt::Write as _;
use std::path::PathBuf;

use berth_api::BindingKey;
use berth_plan::control_plane_lists::placement_resources;
use berth_plan::explain::{ExplainError, NameQuery, SchedulerRecord, Subject};
use berth_plan::scheduler_configuration::DecisionConfiguration;
use berth_plan::what_if::Estimators;
use berth_scheduler::estimator::EstimatorArgs;
use clap::{Args, ValueEnum};

pub use error::ExplainCommandError;

use crate::control_plane::ControlPlaneArgs;
use crate::engine_flags::EngineFlags;
use crate::member_name;
use crate::output;
use crate::scheduler_endpoint::SchedulerEndpointArgs;

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
pub async fn run(args: ExplainArgs) -> Result<(), ExplainCommandError> {
    let estimators = args.estimators.clone().options()?;
    let client = args.control_plane.client(&placement_resources()).await?;
    let query = args.query(client.default_namespace());
    let subject = Subject::find(&client, &query, args.cluster.as_deref()).await?;
    let estimators = estimators.map(|options| Estimators::new(client, &options));
    let record = args.record(subject.key()).await?;
    let configuration = args.configuration(&record)?;
    let report = subject.report(estimators.as_ref(), &configuration, record);
    let report = report.await?;
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

impl ExplainArgs {
    /// Returns the query for the name on the command line.
    fn query(&self, default_namespace: &str) -> NameQuery {
        let (kind, text) = match &self.name_after_kind {
            Some(name) => (Some(self.name.clone()), name),
            None => (self.kind.clone(), &self.name),
        };
        NameQuery::new(text, kind, self.namespace.clone(), default_namespace)
    }

    /// Reads the scheduler's record of a binding. Without a record, returns the reason.
    ///
    /// # Errors
    /// Fails if the scheduler of `--scheduler-url` does not return the record or the configuration.
    async fn record(&self, key: &BindingKey) -> Result<SchedulerRecord, ExplainCommandError> {
        let Some(endpoint) = self.scheduler.endpoint(&self.control_plane).await? else {
            return Ok(SchedulerRecord::absent(
                "no scheduler was asked; pass --scheduler-url URL for the decision that was made",
            ));
        };
        match SchedulerRecord::read(&endpoint, key).await {
            // The scheduler of `berth up` may have ended a moment ago, so the command continues without a record.
            Err(error) if self.scheduler.scheduler_url.is_none() => {
                Ok(SchedulerRecord::absent(error.to_string()))
            }
            read => Ok(read?),
        }
    }

    /// Returns the configuration for the computed decision: a file, that of the running scheduler, or the flags.
    fn configuration(
        &self,
        record: &SchedulerRecord,
    ) -> Result<DecisionConfiguration, ExplainCommandError> {
        if let Some(path) = &self.config {
            let of_file = self.engine.configuration_of_file(path);
            return Ok(of_file.map_err(ExplainError::from)?);
        }
        Ok(match &record.scheduler {
            Some((url, active)) => {
                let out_of_tree = self.engine.out_of_tree.clone();
                DecisionConfiguration::of_scheduler(url, active, out_of_tree)
            }
            None => self.engine.configuration(),
        })
    }
}
