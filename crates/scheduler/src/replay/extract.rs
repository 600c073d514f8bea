//! The extraction of one decision, with all its inputs, from a decision log.

use std::path::PathBuf;

use super::{EntryError, LoggedFleet};
use crate::decision_log::format::{Case, Configuration, Decision, Entry};
use crate::decision_log::reader::{ReadError, Reader};

/// A reference to the decision to extract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionSelector {
    /// `NAMESPACE/NAME` of a ResourceBinding, or `NAME` of a ClusterResourceBinding.
    pub binding: String,
    /// The position of the decision among the decisions about the binding, starting at 1. `None` selects the last
    /// decision.
    pub number: Option<u64>,
}

impl std::str::FromStr for DecisionSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (binding, number) = match text.split_once('@') {
            None => (text, None),
            Some((binding, number)) => match number.parse() {
                Ok(number) if number > 0 => (binding, Some(number)),
                _ => {
                    return Err(format!(
                        "{number:?} is not the number of a decision: numbers start at 1"
                    ));
                }
            },
        };
        if binding.is_empty() {
            return Err("must have the form NAMESPACE/NAME or NAMESPACE/NAME@N".to_owned());
        }
        Ok(Self {
            binding: binding.to_owned(),
            number,
        })
    }
}

/// An error of extracting a decision.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An entry of the log is invalid.
    #[error("{}: {source}", .path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Box<EntryError>,
    },
    /// The log does not contain the requested decision.
    #[error(
        "the log contains only {found} decisions about {binding}; check the name NAMESPACE/NAME and the number"
    )]
    NotFound {
        /// The binding.
        binding: String,
        /// The number of decisions about the binding.
        found: u64,
    },
}

/// Returns the selected decision from the log files, with all its inputs.
///
/// # Errors
/// When a file is malformed, or when the files do not contain the decision.
pub fn extract(files: &[PathBuf], selector: &DecisionSelector) -> Result<Case, ExtractError> {
    let (mut found, mut last) = (0, None);
    for path in files {
        let failed = |source| ExtractError::Entry {
            path: path.clone(),
            source: Box::new(source),
        };
        let mut reader = Reader::open(path)?;
        let mut fleet = LoggedFleet::default();
        let mut configuration: Option<Configuration> = None;
        while let Some(entry) = reader.next_entry()? {
            match entry {
                Entry::Configuration(current) => configuration = Some(*current),
                Entry::Decision(decision) => {
                    fleet.assume(&decision);
                    if decision.binding.0.key.to_string() != selector.binding {
                        continue;
                    }
                    found += 1;
                    let Some(configuration) = &configuration else {
                        return Err(failed(EntryError::NoConfiguration));
                    };
                    let case = case(*decision, &fleet, configuration, found);
                    if selector.number == Some(found) {
                        return Ok(case);
                    }
                    last = Some(case);
                }
                change => fleet.apply(change).map_err(failed)?,
            }
        }
    }
    let last = last.filter(|_| selector.number.is_none());
    last.ok_or_else(|| ExtractError::NotFound {
        binding: selector.binding.clone(),
        found,
    })
}

fn case(
    decision: Decision,
    fleet: &LoggedFleet,
    configuration: &Configuration,
    number: u64,
) -> Case {
    Case {
        id: format!("{}@{number}", decision.binding.0.key),
        clusters: fleet.objects().cloned().collect(),
        cluster_scores: fleet.scores().cloned().collect(),
        empty_workload_propagation: configuration.empty_workload_propagation,
        configuration: configuration.clone(),
        decision: Decision {
            assumed: fleet.assumed.clone(),
            ..decision
        },
    }
}
