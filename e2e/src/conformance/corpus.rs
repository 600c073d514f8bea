//! Reader of a corpus: a file of scenarios and a file of the expected decisions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use berth_api::{Cluster, ResourceBinding};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Clusters and a binding to schedule.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    /// Unique id.
    pub id: String,
    /// Name of a group of similar scenarios. Reports count the scenarios of each group.
    #[serde(default)]
    pub family: String,
    /// The member clusters.
    pub clusters: Vec<Cluster>,
    /// The binding to schedule.
    pub binding: ResourceBinding,
    /// True if the result includes selected clusters that get no replicas.
    #[serde(default, rename = "emptyPropagation")]
    pub empty_workload_propagation: bool,
}

/// Karmada's decision about a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    /// Id of the scenario.
    pub id: String,
    /// The selected clusters, sorted by name.
    #[serde(default)]
    pub clusters: Vec<ExpectedTarget>,
    /// The clusters that Karmada would select with a stable sort. Karmada sorts clusters with an unstable sort, so the
    /// engine may select these clusters or `clusters`.
    pub clusters_stable: Option<Vec<ExpectedTarget>>,
    /// Name of the selected affinity term.
    #[serde(default)]
    pub affinity: Option<String>,
    /// Kind of failure, or `None` if Karmada schedules the binding.
    #[serde(default)]
    pub failure: Option<String>,
    /// Message of failures other than `FitError`.
    #[serde(default)]
    pub message: Option<String>,
    /// Accepted reasons for the rejection of each cluster, keyed by cluster name.
    #[serde(default)]
    pub reasons: BTreeMap<String, Vec<String>>,
}

/// A selected cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct ExpectedTarget {
    /// Name of the cluster.
    pub name: String,
    /// Replicas assigned to the cluster.
    #[serde(default)]
    pub replicas: i32,
}

/// Scenarios with the expected decisions about them.
#[derive(Debug)]
pub struct Corpus {
    /// Scenarios and expected decisions, in the order of the scenario file.
    pub cases: Vec<(Scenario, Expected)>,
}

/// Error of reading a corpus.
#[derive(Debug)]
pub enum CorpusError {
    /// A file cannot be read.
    Read(PathBuf, io::Error),
    /// A line of a file cannot be parsed.
    Line(PathBuf, usize, serde_json::Error),
    /// The id of a scenario without an expected decision, or of an expected decision without a scenario.
    Unpaired(String),
}

impl std::fmt::Display for CorpusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "failed to read {}: {error}", path.display()),
            Self::Line(path, line, error) => {
                write!(
                    f,
                    "failed to read line {line} of {}: {error}",
                    path.display()
                )
            }
            Self::Unpaired(id) => write!(f, "scenario {id} is missing in one of the two files"),
        }
    }
}

impl std::error::Error for CorpusError {}

impl Corpus {
    /// Reads a file of scenarios and a file of the expected decisions.
    ///
    /// # Errors
    /// If a file cannot be read, a line cannot be parsed, or the two files have different ids.
    pub fn read(scenarios: &Path, expected: &Path) -> Result<Self, CorpusError> {
        let scenarios: Vec<Scenario> = read_lines(scenarios)?;
        let expected: Vec<Expected> = read_lines(expected)?;
        let mut by_id: BTreeMap<String, Expected> = expected
            .into_iter()
            .map(|expected| (expected.id.clone(), expected))
            .collect();
        let mut cases = Vec::with_capacity(scenarios.len());
        for scenario in scenarios {
            let expected = by_id
                .remove(&scenario.id)
                .ok_or_else(|| CorpusError::Unpaired(scenario.id.clone()))?;
            cases.push((scenario, expected));
        }
        match by_id.into_keys().next() {
            Some(id) => Err(CorpusError::Unpaired(id)),
            None => Ok(Self { cases }),
        }
    }
}

/// The start of a first line with the versions and the date of a recording.
const RECORDED: &str = r#"{"recorded":"#;

/// Reads a file with one JSON document per line, optionally compressed with gzip. Omits a first line about the recording.
///
/// # Errors
/// If the file cannot be read or a line cannot be parsed.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CorpusError> {
    let unreadable = |error| CorpusError::Read(path.to_owned(), error);
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let compressed = file
        .fill_buf()
        .map_err(unreadable)?
        .starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read> = if compressed {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut documents = Vec::new();
    for (number, line) in BufReader::new(reader).lines().enumerate() {
        let line = line.map_err(unreadable)?;
        let is_header = number == 0 && line.starts_with(RECORDED);
        if !is_header && !line.trim().is_empty() {
            let document = serde_json::from_str(&line)
                .map_err(|error| CorpusError::Line(path.to_owned(), number + 1, error))?;
            documents.push(document);
        }
    }
    Ok(documents)
}
