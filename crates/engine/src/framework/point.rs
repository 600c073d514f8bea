//! The names of the extension points.

use std::fmt;

/// An extension point. The engine runs the points from PreFilter to Assign, except for PostFilter. The scheduler runs
/// all other points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// Decides whether a binding may enter the queue.
    PreEnqueue,
    /// Orders the bindings in the queue.
    QueueSort,
    /// Prepares data for filters, once per attempt.
    PreFilter,
    /// Rejects clusters that cannot run the workload.
    Filter,
    /// Frees capacity, for example by preemption, if no cluster passes the filters.
    PostFilter,
    /// Prepares data for scores, once per attempt.
    PreScore,
    /// Ranks the passing clusters.
    Score,
    /// Scales the scores of one plugin to a common range.
    NormalizeScore,
    /// Estimates the capacity of clusters.
    Estimate,
    /// Selects among the passing clusters.
    Select,
    /// Assigns replicas to the selected clusters.
    Assign,
    /// Reserves resources for the result.
    Reserve,
    /// Approves, delays or rejects the write of the result.
    Permit,
    /// Prepares the write of the result.
    PreBind,
    /// Writes the result to the binding.
    Bind,
    /// Runs after the result is written to the binding.
    PostBind,
}

impl Point {
    /// Returns the name of the point in metrics and errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::QueueSort => "QueueSort",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::NormalizeScore => "NormalizeScore",
            Self::Estimate => "Estimate",
            Self::Select => "Select",
            Self::Assign => "Assign",
            Self::Reserve => "Reserve",
            Self::Permit => "Permit",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
