//! Errors of simulations, and problems of single manifests.

use std::fmt;

use berth_component_base::kube_client::ConnectError;

use crate::scheduler_configuration::ConfigurationError;

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
    /// The control plane cannot be reached.
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
    /// The configuration of the scheduler cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The manifests contain no Cluster.
    #[error(
        "there is no Cluster among the manifests; add a fleet, as in -f examples/fleet.yaml, or pass --against CONTEXT"
    )]
    NoFleet,
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
