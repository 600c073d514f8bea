//! Reading a corpus.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use berth_api::{Cluster, ResourceBinding};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Clusters and a binding to decide about.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    /// Names the scenario.
    pub id: String,
    /// What it is about.
    #[serde(default)]
    pub family: String,
    /// The fleet.
    pub clusters: Vec<Cluster>,
    /// The binding.
    pub binding: ResourceBinding,
    /// Whether clusters without replicas are part of the result.
    #[serde(default)]
    pub empty_propagation: bool,
}

/// What Karmada decided.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    /// The scenario.
    pub id: String,
    /// The result, by name.
    #[serde(default)]
    pub clusters: Vec<ExpectedTarget>,
    /// What the result is when Karmada's one unstable sort is stable; either will do.
    pub clusters_stable: Option<Vec<ExpectedTarget>>,
    /// The term that won.
    #[serde(default)]
    pub affinity: Option<String>,
    /// The kind of failure.
    #[serde(default)]
    pub failure: Option<String>,
    /// The text of failures other than `FitError`.
    #[serde(default)]
    pub message: Option<String>,
    /// For each cluster the reasons of which one has to be given.
    #[serde(default)]
    pub reasons: BTreeMap<String, Vec<String>>,
}

/// A cluster of a result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct ExpectedTarget {
    /// Its name.
    pub name: String,
    /// Its replicas.
    #[serde(default)]
    pub replicas: i32,
}

/// Scenarios with what is expected of them.
#[derive(Debug)]
pub struct Corpus {
    /// The pairs, in the order of the files.
    pub cases: Vec<(Scenario, Expected)>,
}

/// Why a corpus cannot be read.
#[derive(Debug)]
pub enum CorpusError {
    /// A file cannot be read.
    Read(PathBuf, io::Error),
    /// A line is not what it should be.
    Line(PathBuf, usize, serde_json::Error),
    /// The files do not belong together.
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
            Self::Unpaired(id) => write!(
                f,
                "scenario {id} has no expectation, or an expectation no scenario"
            ),
        }
    }
}

impl std::error::Error for CorpusError {}

impl Corpus {
    /// Reads a pair of files.
    ///
    /// # Errors
    /// When a file cannot be read, or the files do not belong together.
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

/// Reads a file with one JSON document a line, compressed or not.
///
/// # Errors
/// When the file cannot be read, or a line is not such a document.
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
        if !line.trim().is_empty() {
            let document = serde_json::from_str(&line)
                .map_err(|error| CorpusError::Line(path.to_owned(), number + 1, error))?;
            documents.push(document);
        }
    }
    Ok(documents)
}
