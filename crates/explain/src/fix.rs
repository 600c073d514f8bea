//! A fix: changes that place a workload, with the result of the decision that the engine makes after these changes.

use serde::{Deserialize, Serialize};

use crate::change::Change;

/// A cluster and its number of replicas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The name of the cluster.
    pub name: String,
    /// The number of replicas, 0 for a resource without replicas.
    pub replicas: i64,
}

/// Changes that together place the workload. The engine has confirmed the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// The changes. All of them are necessary.
    pub changes: Vec<Change>,
    /// The changes as an instruction to the user.
    pub summary: String,
    /// The clusters with their replicas after the changes, sorted by name.
    pub result: Vec<Share>,
}

impl Fix {
    pub(crate) fn new(changes: Vec<Change>, result: Vec<Share>) -> Self {
        let texts: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Self {
            summary: texts.join(", and "),
            changes,
            result,
        }
    }

    /// Returns the key by which fixes are sorted, the smallest fix first.
    pub(crate) fn size(&self) -> (usize, Vec<(u8, i64)>, &[Change]) {
        let mut efforts: Vec<(u8, i64)> = self.changes.iter().map(Change::effort).collect();
        efforts.sort_unstable_by(|a, b| b.cmp(a));
        (self.changes.len(), efforts, &self.changes)
    }
}
