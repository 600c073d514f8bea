//! The health of a workload in one word.

use serde::{Deserialize, Serialize};

/// The health of a workload, from the best to the worst.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Everything that is wanted is applied and works.
    #[default]
    Well,
    /// A step is under way, or a user has suspended it. No action is needed.
    Waiting,
    /// A part of the replicas or copies does not work.
    Degraded,
    /// A step cannot be done, until a user acts.
    Stuck,
    /// Nothing of the workload works.
    Broken,
}

impl Health {
    /// All values, the worst first.
    pub const WORST_FIRST: [Self; 5] = [
        Self::Broken,
        Self::Stuck,
        Self::Degraded,
        Self::Waiting,
        Self::Well,
    ];

    /// Returns the word for a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Waiting => "waiting",
            Self::Degraded => "degraded",
            Self::Stuck => "stuck",
            Self::Broken => "broken",
        }
    }

    /// Reports whether a person has to look at the workload.
    pub const fn needs_attention(self) -> bool {
        matches!(self, Self::Degraded | Self::Stuck | Self::Broken)
    }
}

impl std::fmt::Display for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
