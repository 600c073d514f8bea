//! Reports of scheduling decisions: why a workload is where it is, why it is not elsewhere, and what would change it.
//!
//! [`Report`] is the documented format. [`Report::new`] builds it from a decision of the engine and its explanation.
//! The crate knows the engine and the API types, but no clients, no runtimes and no clock.

mod construction;
mod reason;
mod report;
mod summary;

pub use report::{
    API_VERSION, BindingSummary, ClusterReport, EstimateReport, KIND, Minimum, Recorded, Report,
    ResourceSummary, ScoreReport, Share, StageCount, StoredCondition, StrategyName, TermOutcome,
    TermReport, Verdict, VerdictReason,
};

#[cfg(test)]
mod tests;
