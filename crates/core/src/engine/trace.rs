//! Hooks for observers and explanations, without cost when unused.

use crate::candidate::Candidate;
use crate::error::ScheduleError;
use crate::estimate::Basis;
use crate::fleet::Snapshot;
use crate::framework::{
    DivisionStep, Observer, Point, Reason, SelectionExplanation, Share, Status,
};

/// Receives the events of a decision. The engine is compiled once for each implementation, so the silent one
/// costs nothing.
pub(super) trait Trace {
    /// True if explanations are recorded. Otherwise their data is not computed.
    const EXPLAINS: bool;

    /// An affinity term is tried; `None` without terms.
    fn term(&mut self, _snapshot: &Snapshot, _term: Option<&str>) {}
    /// A point begins.
    fn point_begins(&mut self, _point: Point) {}
    /// A point ends.
    fn point_ends(&mut self, _point: Point, _status: Status) {}
    /// Reports whether calls of single plugins are recorded.
    fn observes_plugins(&self) -> bool {
        false
    }
    /// A plugin call begins.
    fn plugin_begins(&mut self, _point: Point, _plugin: &str) {}
    /// A plugin call ends.
    fn plugin_ends(&mut self, _point: Point, _plugin: &str, _status: Status) {}
    /// A cluster was rejected.
    fn rejected(&mut self, _ordinal: usize, _plugin: &str, _reason: &Reason) {}
    /// A plugin added these scores, multiplied by its weight, to the candidates.
    fn scored(&mut self, _plugin: &str, _weight: i64, _candidates: &[Candidate], _added: &[i64]) {}
    /// An estimator returned these estimates.
    fn estimated(&mut self, _estimator: &str, _clusters: &[usize], _estimates: &[i32]) {}
    /// An estimator explained its estimate of a cluster.
    fn estimate_basis(&mut self, _estimator: &str, _ordinal: usize, _basis: Basis) {}
    /// The candidates have all values that selection uses.
    fn candidates(&mut self, _candidates: &[Candidate]) {}
    /// The select plugin explained its choice.
    fn selection(&mut self, _selection: SelectionExplanation) {}
    /// The clusters were selected.
    fn selected(&mut self, _selected: &[Candidate]) {}
    /// The assign plugin explained its steps.
    fn division(&mut self, _steps: Vec<DivisionStep>) {}
    /// The replicas were assigned; `prior` has the replicas that clusters held before.
    fn assigned(&mut self, _shares: &[Share], _prior: &[Share]) {}
    /// A term is infeasible.
    fn failed(&mut self, _error: &ScheduleError) {}
}

/// Ignores all events.
#[derive(Debug)]
pub(super) struct Silent;

impl Trace for Silent {
    const EXPLAINS: bool = false;
}

/// Forwards the start and end of points and calls to an observer; explains nothing.
pub(super) struct Observed<'a> {
    observer: &'a mut dyn Observer,
    observes_plugins: bool,
}

impl<'a> Observed<'a> {
    pub(super) fn new(observer: &'a mut dyn Observer) -> Self {
        Self {
            observes_plugins: false,
            observer,
        }
    }
}

impl Trace for Observed<'_> {
    const EXPLAINS: bool = false;

    fn term(&mut self, _snapshot: &Snapshot, _term: Option<&str>) {
        self.observes_plugins = self.observer.wants_plugins();
    }

    fn point_begins(&mut self, point: Point) {
        self.observer.point_begins(point);
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        self.observer.point_ends(point, status);
    }

    fn observes_plugins(&self) -> bool {
        self.observes_plugins
    }

    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        self.observer.plugin_begins(point, plugin);
    }

    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        self.observer.plugin_ends(point, plugin, status);
    }
}
