//! Recorder of evidence about Karmada: runs Karmada's programs on the inputs in the data files of the tests, and writes
//! the results into these files.
//!
//! Each module records one kind of evidence. A recording is in a normal form: times, ids and random orders are replaced,
//! so that recording again with the same version of Karmada changes only the version and the date in the file.
//!
//! | Module | Karmada's part | File |
//! |---|---|---|
//! | [`writes`] | karmada-scheduler | `e2e/data/writes.json.gz` |
//! | [`detector`] | karmada-webhook, karmada-controller-manager | `e2e/data/detector.json.gz` |
//! | [`objects`] | karmada-scheduler, karmada-controller-manager | `e2e/data/karmada_interop` |
//! | [`decisions`] | a program around Karmada's scheduling algorithm | `e2e/data/conformance/expected.jsonl.gz` |
//! | [`interpreter`] | karmadactl, the folder of customizations | `crates/interpreter/tests/data/third_party` |
//! | [`definitions`] | the folder of CustomResourceDefinitions | `e2e/data/definitions.txt` |

mod data_file;
pub mod decisions;
pub mod definitions;
pub mod detector;
pub mod interpreter;
pub mod normal_form;
pub mod objects;
mod programs;
pub mod webhook;
pub mod writes;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use programs::{Definitions, Programs};

/// The version of each recorded program, and the day of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Versions, keyed by the name of the program or folder.
    pub versions: BTreeMap<String, String>,
    /// Day in UTC, such as `2026-01-31`.
    pub date: String,
}

impl Recorded {
    /// Returns a record of these versions and today's date.
    pub fn today<const COUNT: usize>(versions: [(&str, String); COUNT]) -> Self {
        Self {
            versions: versions
                .map(|(name, version)| (name.to_owned(), version))
                .into(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        }
    }
}

/// A written file, and the entries in it that differ from the previous recording.
#[derive(Debug)]
pub struct Report {
    file: PathBuf,
    entries: usize,
    changed: Vec<String>,
}

impl Report {
    /// Compares two recordings, both in normal form and keyed by the names of the entries.
    fn new(file: PathBuf, old: &BTreeMap<String, Value>, new: &BTreeMap<String, Value>) -> Self {
        let names = old.keys().chain(new.keys());
        let mut changed: Vec<String> = names
            .filter(|name| old.get(*name) != new.get(*name))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        Self {
            file,
            entries: new.len(),
            changed,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, changed) = (self.file.display(), self.changed.len());
        write!(
            f,
            "wrote {file}: {changed} of {} entries changed",
            self.entries
        )?;
        self.changed
            .iter()
            .try_for_each(|name| write!(f, "\n  {name}"))
    }
}

/// Error of a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A program or a folder that the recording needs.
    #[error("{what} is missing; {remedy}")]
    Missing {
        /// The program with its path, or the folder.
        what: String,
        /// Instruction for the user.
        remedy: &'static str,
    },
    /// A file that cannot be read or written.
    #[error("{}: {message}", .file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Cause.
        message: String,
    },
    /// A program that failed, or whose output has another format.
    #[error("{program}: {message}")]
    Program {
        /// Path of the program.
        program: String,
        /// Cause.
        message: String,
    },
    /// A request that the API server refused.
    #[error("API server: {0}")]
    Api(String),
    /// Data of another shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for RecordError {
    fn from(error: kube::Error) -> Self {
        Self::Api(error.to_string())
    }
}
