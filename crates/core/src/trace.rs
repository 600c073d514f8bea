//! How stages tell what they do, at no cost when nobody listens.

use crate::candidate::{Candidate, Share};
use crate::error::ScheduleError;
use crate::filter::Reason;
use crate::fleet::Snapshot;
use crate::probe::Step;

/// Listens to a decision. The engine is compiled once for each listener, so that the silent one costs
/// nothing.
pub(crate) trait Trace {
    /// Whether anybody listens; what only explains is not worked out otherwise.
    const LISTENS: bool;

    /// An affinity term is tried; None without terms.
    fn term(&mut self, _snapshot: &Snapshot, _term: Option<&str>) {}
    /// A stage begins, and ends the one before it.
    fn enters(&mut self, _step: Step) {}
    /// The last stage that began is over.
    fn leaves(&mut self) {}
    /// A cluster does not pass.
    fn refused(&mut self, _ordinal: usize, _plugin: &str, _reason: &Reason) {}
    /// What a plugin added to the score of each candidate.
    fn scored(&mut self, _plugin: &str, _candidates: &[Candidate], _added: &[i64]) {}
    /// What an estimator answered for each candidate.
    fn estimated(&mut self, _estimator: &str, _clusters: &[usize], _estimates: &[i32]) {}
    /// The candidates with everything that selection goes by.
    fn candidates(&mut self, _candidates: &[Candidate]) {}
    /// The clusters selected.
    fn selected(&mut self, _selected: &[Candidate]) {}
    /// The replicas dealt, with what each cluster held before.
    fn dealt(&mut self, _shares: &[Share], _prior: &[Share]) {}
    /// A term will not do.
    fn failed(&mut self, _error: &ScheduleError) {}
}

/// Nobody listens.
#[derive(Debug)]
pub(crate) struct Silent;

impl Trace for Silent {
    const LISTENS: bool = false;
}
