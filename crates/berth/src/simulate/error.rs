//! What keeps a simulation from answering.

use std::fmt;

use berth_core::EngineError;
use berth_scheduler::connect::ConnectError;
use berth_scheduler::estimator::EstimatorOptionsError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// Manifests that cannot be used, every one of them.
    #[error("{}", lines(.0))]
    Manifests(Vec<Problem>),
    /// A flag names a cluster that does not exist.
    #[error("{flag} {cluster}: there is no such cluster; there {}", known(.clusters))]
    NoSuchCluster {
        /// The flag.
        flag: &'static str,
        /// The name.
        cluster: String,
        /// Those that exist.
        clusters: Vec<String>,
    },
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The control plane does not answer as it should.
    #[error("cannot read {what}: {reason}")]
    Read {
        /// What was asked for.
        what: String,
        /// What came instead.
        reason: String,
        /// Whether nothing of the kind is served.
        missing: bool,
    },
    /// The part that validates cannot start.
    #[error("cannot set up validation: {0}")]
    Sandbox(String),
    /// A flag about estimators has a value that cannot be used.
    #[error(transparent)]
    Estimators(#[from] EstimatorOptionsError),
    /// Estimators are to be asked, and nothing says where they are.
    #[error(
        "--enable-scheduler-estimator needs --against CONTEXT: a control plane knows where estimators are"
    )]
    EstimatorsOfNobody,
    /// The engine refuses its options.
    #[error("cannot start the engine: {0}")]
    Engine(#[from] EngineError),
    /// The answer cannot be written.
    #[error("cannot write the answer: {0}")]
    Output(#[from] std::io::Error),
    /// There is nothing to place workloads on.
    #[error(
        "there is no Cluster among the manifests; add a fleet, as in -f examples/fleet.yaml, or pass --against CONTEXT"
    )]
    NoFleet,
    /// Asked for by `--fail-on-unscheduled`.
    #[error("{}", failures(*.bindings, *.selections))]
    Unscheduled {
        /// Bindings that find no place.
        bindings: usize,
        /// Policies, or selectors of policies, that select nothing.
        selections: usize,
    },
    /// The user has enough.
    #[error("interrupted")]
    Interrupted,
}

impl SimulateError {
    /// Whether the command line is what has to change.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Estimators(_) | Self::EstimatorsOfNobody)
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
        1 => Some("1 policy selects nothing".to_owned()),
        several => Some(format!("{several} policies or selectors select nothing")),
    };
    let failures: Vec<String> = bindings.into_iter().chain(selections).collect();
    failures.join(", ")
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    // Whoever prints this puts `error: ` before the first line.
    lines.join("\nerror: ")
}

fn known(clusters: &[String]) -> String {
    match clusters {
        [] => "is none".to_owned(),
        [only] => format!("is {only}"),
        several => format!("are {}", several.join(", ")),
    }
}

/// Where a manifest was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or `standard input`.
    pub file: String,
    /// The document in it, counted from 1.
    pub document: usize,
    /// The item of the document, counted from 1, where that is a List.
    pub item: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)?;
        match self.item {
            Some(item) => write!(f, ", item {item}"),
            None => Ok(()),
        }
    }
}

/// A manifest, or a file, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is: a document, or a whole file.
    pub place: String,
    /// What is wrong, in one line.
    pub reason: String,
}

impl Problem {
    /// Something is wrong there.
    pub(crate) fn new(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self {
            place: place.to_string(),
            reason: one_line(&reason.to_string()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// The text with line ends and runs of blanks made one blank.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
