//! The replay of a decision log. It makes the recorded decisions again, with the recorded configuration or with another
//! configuration, and compares the results.
//!
//! - `fleet` tracks the clusters of a log, `decider` makes the decisions, and `report` compares the results.
//! - `extract` returns one decision with all its inputs. Such a self-contained decision is called a case.

mod decider;
mod extract;
mod fleet;
mod report;

use std::path::{Path, PathBuf};

use berth_api::feature_gates::EngineGates;
use berth_engine::{RequestError, ResourceRequestError};

pub use self::decider::NewConfiguration;
use self::decider::{Decided, Decider};
pub use self::extract::{DecisionSelector, ExtractError, extract};
use self::fleet::LoggedFleet;
use self::report::ReportBuilder;
pub use self::report::{API_VERSION, Change, Counts, Difference, KIND, ReplayReport};
use crate::config::ConfigError;
use crate::decision_log::format::{Case, Entry};
use crate::decision_log::reader::{ReadError, Reader};
use crate::framework::{Registry, RegistryError};

/// Options of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// A configuration file that replaces the recorded profiles.
    pub configuration: Option<NewConfiguration>,
    /// Feature gates that replace the recorded feature gates.
    pub feature_gates: Option<EngineGates>,
    /// The maximum number of differences that the report describes.
    pub differences: usize,
    /// Out-of-tree plugins.
    pub out_of_tree: Registry,
}

/// An error of a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The configuration is invalid.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// A plugin cannot be registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// An entry of the log is invalid.
    #[error("{}: {source}", .path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Box<EntryError>,
    },
}

/// An error in one entry of a log.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// A cluster is malformed.
    #[error("cluster {name}: {source}")]
    Cluster {
        /// The cluster.
        name: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// A ClusterScore is malformed.
    #[error("ClusterScore {name}: {source}")]
    ClusterScore {
        /// The object.
        name: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// An entry patches a cluster that no earlier entry contains.
    #[error("a change of cluster {0}, which the log does not contain")]
    UnknownCluster(String),
    /// A decision precedes the first configuration of the log.
    #[error("a decision without a configuration before it: pass the complete file")]
    NoConfiguration,
    /// A binding is malformed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An assumed workload is malformed.
    #[error(transparent)]
    Assumed(#[from] ResourceRequestError),
}

/// Makes all decisions of the log files again, and reports the differences from the recorded results.
///
/// # Errors
/// When a file is malformed, or a configuration is invalid.
pub fn replay(files: &[PathBuf], options: &ReplayOptions) -> Result<ReplayReport, ReplayError> {
    let mut decider = Decider::new(options);
    let mut report = ReportBuilder::new(options.differences);
    for path in files {
        let mut reader = Reader::open(path)?;
        decider.start_file();
        while let Some(entry) = reader.next_entry()? {
            handle(entry, path, &mut decider, &mut report)?;
        }
        if reader.is_truncated() {
            report.truncated(path);
        }
    }
    Ok(report.finish(decider.notes()))
}

fn handle(
    entry: Entry,
    path: &Path,
    decider: &mut Decider,
    report: &mut ReportBuilder,
) -> Result<(), ReplayError> {
    let failed = |source| ReplayError::Entry {
        path: path.to_owned(),
        source: Box::new(source),
    };
    match entry {
        Entry::Header(_) => {}
        Entry::Configuration(configuration) => decider.configure(*configuration)?,
        Entry::Gap(gap) => report.gap(gap.dropped),
        Entry::Decision(decision) => {
            let repeated = decider.decide(&decision, report.can_add_difference());
            report.compare(&decision, repeated.map_err(failed)?);
        }
        Entry::Case(case) => {
            let Case {
                clusters,
                cluster_scores,
                configuration,
                decision,
                ..
            } = *case;
            decider.start_file();
            decider.configure(configuration)?;
            for cluster in clusters {
                decider.fleet().add(cluster).map_err(failed)?;
            }
            for score in cluster_scores {
                decider.fleet().add_score(score).map_err(failed)?;
            }
            let repeated = decider.decide(&decision, report.can_add_difference());
            report.compare(&decision, repeated.map_err(failed)?);
            decider.start_file();
        }
        change => decider.fleet().apply(change).map_err(failed)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
