//! Errors of `berth simulate`, and problems of single manifests.

use std::fmt;

use berth_component_base::kube_client::ConnectError;
use berth_scheduler::estimator::EstimatorOptionsError;

use crate::scheduler_configuration::ConfigurationError;
use crate::scheduler_endpoint::SchedulerEndpointError;

/// An error that ends a simulation without a result.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// Problems of the manifests that cannot be used.
    #[error("{}", lines(.0))]
    Manifests(Vec<Problem>),
    /// A flag names a cluster that does not exist.
    #[error("{flag} {cluster}: there is no such cluster; there {}", known(.clusters))]
    NoSuchCluster {
        /// Name of the flag.
        flag: &'static str,
        /// Name of the cluster.
        cluster: String,
        /// Names of the existing clusters.
        clusters: Vec<String>,
    },
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A request to the control plane failed.
    #[error("cannot read {what}: {reason}")]
    Read {
        /// Requested resource.
        what: String,
        /// Cause.
        reason: String,
        /// True if the control plane does not serve the kind.
        missing: bool,
    },
    /// The API server that validates manifests does not start.
    #[error("cannot set up validation: {0}")]
    Sandbox(String),
    /// A flag of the estimators is invalid.
    #[error(transparent)]
    Estimators(#[from] EstimatorOptionsError),
    /// The flags enable estimators without `--against`. The addresses of the estimators are read from a control plane.
    #[error(
        "--enable-scheduler-estimator needs --against CONTEXT: the addresses of estimators are read from a control plane"
    )]
    EstimatorsWithoutControlPlane,
    /// The configuration of the scheduler cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The running scheduler cannot be queried.
    #[error(transparent)]
    Scheduler(#[from] SchedulerEndpointError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
    /// The manifests contain no Cluster.
    #[error(
        "there is no Cluster among the manifests; add a fleet, as in -f examples/fleet.yaml, or pass --against CONTEXT"
    )]
    NoFleet,
    /// The flag `--fail-on-unscheduled` is set, and a binding cannot be placed or a policy selects nothing.
    #[error("{}", failures(*.bindings, *.selections))]
    Unscheduled {
        /// Number of bindings that cannot be placed.
        bindings: usize,
        /// Number of policies or selectors that select nothing.
        selections: usize,
    },
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

impl SimulateError {
    /// Reports whether the user must correct the command line.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Estimators(_) | Self::EstimatorsWithoutControlPlane | Self::Configuration(_) => {
                true
            }
            Self::Scheduler(error) => error.is_usage(),
            _ => false,
        }
    }
}

fn failures(bindings: usize, selections: usize) -> String {
    let bindings = match bindings {
        0 => None,
        1 => Some("1 binding finds no place".to_owned()),
        several => Some(format!("{several} bindings find no place")),
    };
    let selections = match selections {
        0 => None,
        1 => Some("1 policy or selector selects nothing".to_owned()),
        several => Some(format!("{several} policies or selectors select nothing")),
    };
    let failures: Vec<String> = bindings.into_iter().chain(selections).collect();
    failures.join(", ")
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    // The caller adds `error: ` to the first line.
    lines.join("\nerror: ")
}

fn known(clusters: &[String]) -> String {
    match clusters {
        [] => "is none".to_owned(),
        [only] => format!("is {only}"),
        several => format!("are {}", several.join(", ")),
    }
}

/// The position of a manifest in its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// Path of the file, or `standard input`.
    pub file: String,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Number of the item in a List, from 1.
    pub item: Option<usize>,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)?;
        match self.item {
            Some(item) => write!(f, ", item {item}"),
            None => Ok(()),
        }
    }
}

/// A manifest or file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Position of the manifest, or path of the file.
    pub location: String,
    /// Description of the error, on one line.
    pub reason: String,
}

impl Problem {
    /// Creates a problem at a location.
    pub(crate) fn new(location: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self {
            location: location.to_string(),
            reason: one_line(&reason.to_string()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.reason)
    }
}

/// Replaces line ends and runs of blanks by one blank.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
