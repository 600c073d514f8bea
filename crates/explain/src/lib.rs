//! Reports of scheduling decisions: why a workload is where it is, why it is not elsewhere, and what would change it.
//!
//! [`Report`] is the documented format. [`Report::new`] builds it from a decision of the engine and its explanation.
//! [`explain`] also searches the smallest changes that would alter the decision; each is checked with the engine.
//! The crate knows the engine and the API types, but no clients, no runtimes and no clock.

mod affinity_changes;
mod analysis;
mod change;
mod construction;
mod fix;
mod instruction;
mod proposals;
mod reason;
mod report;
mod search;
mod summary;
mod world;

pub use analysis::explain;
pub use change::{Change, TaintRef};
pub use fix::{Fix, Share};
pub use report::{
    API_VERSION, BindingSummary, ClusterReport, EstimateReport, KIND, Minimum, Origin, Recorded,
    Report, ResourceSummary, ScoreReport, Source, StageCount, StoredCondition, StrategyName,
    TermOutcome, TermReport, Verdict, VerdictReason,
};
pub use search::Limits;
pub use world::Case;

#[cfg(test)]
mod tests;
