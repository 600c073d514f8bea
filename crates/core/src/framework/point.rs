//! The extension points, by name.

use std::fmt;

/// An extension point. Those around the decision are named here too, so that metrics and errors name all of
/// them alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// May the binding be scheduled yet?
    PreEnqueue,
    /// In which order are bindings scheduled?
    QueueSort,
    /// What is worked out once for each cycle.
    PreFilter,
    /// Which clusters can take the workload?
    Filter,
    /// None can: what has to go?
    PostFilter,
    /// What is worked out once for the clusters that passed.
    PreScore,
    /// Which of them are preferred?
    Score,
    /// The scores of one plugin are brought into one range.
    NormalizeScore,
    /// How many replicas can they take?
    Estimate,
    /// Which of them are used?
    Select,
    /// How many replicas does each get?
    Assign,
    /// Something is set aside for the result.
    Reserve,
    /// May the result be stored now?
    Permit,
    /// Before the result is stored.
    PreBind,
    /// The result is stored.
    Bind,
    /// After the result is stored.
    PostBind,
}

impl Point {
    /// The name, as metrics and errors have it.
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
