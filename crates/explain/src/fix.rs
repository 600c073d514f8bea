//! A change with its result, which the engine has checked.

use serde::{Deserialize, Serialize};

use crate::change::Change;

/// The replicas of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The cluster.
    pub name: String,
    /// The replicas; 0 for resources without replicas.
    pub replicas: i64,
}

/// Changes that together have the wanted result, checked with the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// The changes; none of them can be left out.
    pub changes: Vec<Change>,
    /// The changes as instructions.
    pub summary: String,
    /// The clusters with their replicas after the changes, by name.
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

    /// Returns the key that orders fixes by smallness.
    pub(crate) fn size(&self) -> (usize, Vec<(u8, i64)>, &[Change]) {
        let mut efforts: Vec<(u8, i64)> = self.changes.iter().map(Change::effort).collect();
        efforts.sort_unstable_by(|a, b| b.cmp(a));
        (self.changes.len(), efforts, &self.changes)
    }
}
