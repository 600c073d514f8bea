//! The command `berth explain`. It tells whether a workload is well, where it is stuck on its way from the template to the
//! members, and why. It also explains why each cluster was or was not selected, and which changes would lead to another
//! decision.
//!
//! `berth_plan::diagnose` and `berth_plan::explain` compute the result, and [`diagnosis_text`] and [`text`] format it. The
//! command writes nothing to the control plane.

mod diagnosis_text;
mod error;
mod queue_text;
mod text;

use std::fmt::Write as _;
use std::path::PathBuf;

use berth_api::BindingKey;
use berth_diagnosis::{Diagnosis, Reason};
use berth_explain::{API_VERSION, Fix, Report};
use berth_plan::control_plane_lists::placement_resources;
use berth_plan::diagnose::{self, WorkloadDiagnosis};
use berth_plan::explain::{ExplainError, SchedulerRecord, Subject};
use berth_plan::scheduler_configuration::DecisionConfiguration;
use berth_plan::what_if::Estimators;
use berth_scheduler::estimator::{EstimatorArgs, EstimatorOptions};
use clap::{Args, ValueEnum};
use serde::Serialize;

pub use error::ExplainCommandError;

use crate::control_plane::ControlPlaneArgs;
use crate::engine_flags::EngineFlags;
use crate::member_name;
use crate::output;
use crate::scheduler_endpoint::SchedulerEndpointArgs;
use crate::up::estimators_of_up;
use crate::workload_args::WorkloadArgs;

/// Flags of `berth explain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// The workload.
    #[command(flatten)]
    pub workload: WorkloadArgs,

    /// Explain one cluster in detail, and find changes that would place the workload there
    #[arg(long, value_name = "CLUSTER", value_parser = member_name::parse)]
    pub cluster: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Format,

    /// Exit with 3 if the workload is degraded, stuck or broken
    #[arg(long)]
    pub exit_code: bool,

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
  berth explain deployment web                 tells whether web is well, and explains why it is on its clusters
  berth explain shop/web --cluster member3     explains why web is not on member3, and what would place it there
  berth explain web-deployment -o json         prints the report as JSON, for scripts
  berth explain clusterrole/reader             explains a cluster-scoped resource
  berth explain web --scheduler-url http://127.0.0.1:8080
                                               explains the decision that this scheduler has recorded

The first line is the verdict: well, waiting, degraded, stuck or broken, with the cause; the second is the next action.
Nothing is written: the command gets and lists the template, policies, Clusters, bindings and Works, and, where replicas
are missing, the pods and events in up to 5 members (through clusters/proxy, or with the member's credentials). It says what
it was not allowed to see. If the running scheduler has recorded its decision, the command explains the recorded decision,
and also computes the decision for the present clusters. The scheduler of `berth up` is found without flags. Exit codes: 0
if the workload is explained; with --exit-code, 3 if it is degraded, stuck or broken; 1 if there is no such workload or the
control plane cannot be read; 2 for an invalid command line.";

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text with a row for each cluster.
    Table,
    /// The report as JSON, in the format explain.berth.io/v1.
    Json,
}

/// The output for a workload about which no scheduler has to decide.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DiagnosisReport<'a> {
    api_version: &'a str,
    kind: &'a str,
    workload: &'a str,
    diagnosis: &'a Diagnosis,
}

/// The result of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explained {
    /// The workload is well or only waits, or the exit code must not tell.
    Well,
    /// A user has to look at the workload, and the exit code must tell.
    NotWell,
}

impl Explained {
    /// Returns the exit code.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::NotWell => 3,
        }
    }
}

/// Explains a workload, and prints its state and the report about its placement.
///
/// # Errors
/// Fails if there is no such workload or cluster, or if the control plane cannot be read.
pub async fn run(args: ExplainArgs) -> Result<Explained, ExplainCommandError> {
    let flags = args.estimators.clone().options()?;
    let client = args.control_plane.client(&placement_resources()).await?;
    let query = args.workload.query(client.default_namespace());
    let subject = match Subject::find(&client, &query, args.cluster.as_deref()).await {
        Ok(subject) => subject,
        Err(error @ ExplainError::NotFound { .. }) => {
            // Without a binding, the cause is at the stations before it.
            let found = diagnose::without_binding(&client, &query).await?;
            let found = found.ok_or(error)?;
            return args.print(&found, None, None, "");
        }
        Err(error) => return Err(error.into()),
    };
    let record = args.record(subject.key()).await?;
    let configuration = args.configuration(&record)?;
    let options = flags.or_else(|| args.estimators_of_up(&record));
    let estimators = options.map(|options| Estimators::new(client.clone(), &options));
    let report = subject.report(estimators.as_ref(), &configuration, record);
    let mut decision_note = None;
    let report = match report.await {
        Ok(report) => Some(report),
        // The scheduler does not decide about dependencies.
        Err(ExplainError::Request(_)) if subject.is_dependency() => None,
        Err(error @ ExplainError::NoProfile { .. }) => {
            decision_note = Some(error.to_string());
            None
        }
        Err(error) => return Err(error.into()),
    };
    let mut found = diagnose::of_subject(&client, &subject).await;
    let fix = report
        .as_ref()
        .and_then(|report| alternatives(&report.fixes));
    found.diagnosis = found.diagnosis.with_fix_for(Reason::Unschedulable, fix);
    let queue = args.queue(&subject).await;
    args.print(&found, report, decision_note, &queue)
}

/// Returns the smallest change that places a workload, and the smallest of another kind, because a taint may be intended.
fn alternatives(fixes: &[Fix]) -> Option<String> {
    let verb = |fix: &Fix| fix.summary.split(' ').next().map(str::to_owned);
    let first = fixes.first()?;
    let other = fixes.iter().find(|fix| verb(fix) != verb(first));
    Some(match other {
        Some(other) => format!("{}; or {}", first.summary, other.summary),
        None => first.summary.clone(),
    })
}

impl ExplainArgs {
    /// Prints the diagnosis of a workload, and the report about the decision if there is one.
    fn print(
        &self,
        found: &WorkloadDiagnosis,
        report: Option<Report>,
        decision_note: Option<String>,
        queue: &str,
    ) -> Result<Explained, ExplainCommandError> {
        let (workload, diagnosis) = (&found.workload, &found.diagnosis);
        let text = match self.output {
            Format::Json => {
                let json = match report {
                    Some(report) => serde_json::to_string_pretty(&Report {
                        diagnosis: Some(diagnosis.clone()),
                        ..report
                    }),
                    None => serde_json::to_string_pretty(&DiagnosisReport {
                        api_version: API_VERSION,
                        kind: "Diagnosis",
                        workload,
                        diagnosis,
                    }),
                };
                json.map_err(std::io::Error::other)? + "\n"
            }
            Format::Table => {
                let mut text = diagnosis_text::render(workload, diagnosis);
                text.push_str(queue);
                if let Some(note) = decision_note {
                    let _ = writeln!(text, "\nThe decision is not explained: {note}");
                }
                if let Some(report) = report {
                    text.push('\n');
                    text.push_str(&text::render(&report, self.cluster.as_deref()));
                }
                text
            }
        };
        output::print(&text)?;
        Ok(if self.exit_code && diagnosis.health.needs_attention() {
            Explained::NotWell
        } else {
            Explained::Well
        })
    }

    /// Returns the lines about the queue of a workload, or an empty text if the running scheduler does not report them.
    async fn queue(&self, subject: &Subject) -> String {
        let endpoint = self.scheduler.endpoint(&self.control_plane).await;
        let Ok(Some(endpoint)) = endpoint else {
            return String::new();
        };
        match endpoint.queues(Some(subject.key())).await {
            Ok(Some(list)) => queue_text::render(&list, subject.refusal()),
            // The queue is only a hint, and the record of the decision has reported an unreachable scheduler.
            Ok(None) | Err(_) => String::new(),
        }
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

    /// Returns the options for the estimators of `berth up`, if its scheduler queries them. Their addresses are valid on
    /// this machine. The addresses of other estimators may be valid in the cluster of the scheduler only, so that the
    /// user must pass flags for them.
    fn estimators_of_up(&self, record: &SchedulerRecord) -> Option<EstimatorOptions> {
        let (_, active) = record.scheduler.as_ref()?;
        let belongs_to_up = self.scheduler.scheduler_url.is_none();
        (belongs_to_up && active.enable_scheduler_estimator).then(estimators_of_up)
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
