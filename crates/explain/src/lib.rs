//! Reports of scheduling decisions. A report states why a workload is on its clusters, why it is not on the other
//! clusters, and which changes would alter the decision.
//!
//! [`Report`] is the documented format. [`Report::new`] builds a report from a decision of the engine and its
//! explanation. [`explain`] also searches for the smallest changes that would alter the decision. The engine decides
//! again with each proposed change, to confirm its effect.
//!
//! This crate uses the engine and the API types. It must not use clients, async runtimes or clocks.

mod affinity_changes;
mod analysis;
mod change;
mod changed_case;
mod fix;
mod proposals;
mod reason;
mod report;
mod report_builder;
mod search;
mod summary;
mod warnings;

pub use analysis::explain;
pub use berth_diagnosis::{
    Eviction, MigratingCondition, Migration, MigrationState, PausedEvictions,
};
pub use change::{Change, TaintRef};
pub use changed_case::Case;
pub use fix::{Fix, Share};
pub use report::{
    API_VERSION, BindingSummary, ClusterReport, DecisionSource, EstimateReport, KIND, Minimum,
    PluginInput, Recorded, Report, ResourceSummary, ScoreReport, SourceKind, StageCount,
    StoredCondition, StrategyName, TermOutcome, TermReport, Verdict,
};
pub use search::Limits;
pub use warnings::warnings;

#[cfg(test)]
mod tests;
