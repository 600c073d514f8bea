//! One decision of a log, with all its inputs.

use std::path::PathBuf;

use super::{EntryError, LoggedFleet};
use crate::decision_log::format::{Case, Configuration, Decision, Entry};
use crate::decision_log::reader::{ReadError, Reader};

/// The decision to extract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// `NAMESPACE/NAME`, or `NAME` of a ClusterResourceBinding.
    pub binding: String,
    /// The number of the decision about the binding, from 1; `None` for the last one.
    pub number: Option<u64>,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (binding, number) = match text.split_once('@') {
            None => (text, None),
            Some((binding, number)) => match number.parse() {
                Ok(number) if number > 0 => (binding, Some(number)),
                _ => {
                    return Err(format!(
                        "{number:?} is not the number of a decision, from 1"
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

/// A decision that cannot be extracted.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An entry contradicts the log.
    #[error("{}: {source}", .path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Box<EntryError>,
    },
    /// The log has no such decision.
    #[error(
        "the log contains {found} decisions about {binding}, named as NAMESPACE/NAME of the ResourceBinding"
    )]
    NotFound {
        /// The binding.
        binding: String,
        /// The number of decisions about it.
        found: u64,
    },
}

/// Returns a decision of the files with all its inputs.
///
/// # Errors
/// When a file is malformed, or there is no such decision.
pub fn extract(files: &[PathBuf], wanted: &Wanted) -> Result<Case, ExtractError> {
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
                    if decision.binding.0.key.to_string() != wanted.binding {
                        continue;
                    }
                    found += 1;
                    let Some(configuration) = &configuration else {
                        return Err(failed(EntryError::NoConfiguration));
                    };
                    let case = case(*decision, &fleet, configuration, found);
                    if wanted.number == Some(found) {
                        return Ok(case);
                    }
                    last = Some(case);
                }
                change => fleet.apply(change).map_err(failed)?,
            }
        }
    }
    let last = last.filter(|_| wanted.number.is_none());
    last.ok_or_else(|| ExtractError::NotFound {
        binding: wanted.binding.clone(),
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
        empty_propagation: configuration.empty_workload_propagation,
        configuration: configuration.clone(),
        decision: Decision {
            assumed: fleet.assumed.clone(),
            ..decision
        },
    }
}
