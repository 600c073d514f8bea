//! The internal trait through which a decision reports its events: the explainer implements it to collect an
//! explanation, [`Silent`] ignores the events, and [`Observed`] passes the events of points and plugin calls to an
//! [`Observer`].

use crate::candidate::Candidate;
use crate::cluster_set::Bits;
use crate::error::ScheduleError;
use crate::estimate::Basis;
use crate::fleet::Snapshot;
use crate::framework::{
    DivisionStep, Observer, Point, Reason, SelectionExplanation, Share, Status,
};

/// A receiver for the events of a decision. The engine is compiled once for each implementation, so events that
/// [`Silent`] ignores take no time.
pub(super) trait Trace {
    /// True if the receiver records explanations. If false, the engine does not compute the data for explanations.
    const EXPLAINS: bool;

    /// Receives the start of an attempt, with the name of the affinity term. `None` means that the placement has no
    /// affinity terms.
    fn term(&mut self, _snapshot: &Snapshot, _term: Option<&str>) {}
    /// Receives the start of an extension point.
    fn point_begins(&mut self, _point: Point) {}
    /// Receives the end of an extension point.
    fn point_ends(&mut self, _point: Point, _status: Status) {}
    /// Reports whether the receiver needs the events of single plugin calls.
    fn observes_plugins(&self) -> bool {
        false
    }
    /// Receives the start of a plugin call.
    fn plugin_begins(&mut self, _point: Point, _plugin: &str) {}
    /// Receives the end of a plugin call.
    fn plugin_ends(&mut self, _point: Point, _plugin: &str, _status: Status) {}
    /// Receives the rejection of a cluster by a plugin.
    fn rejected(&mut self, _ordinal: usize, _plugin: &str, _reason: &Reason) {}
    /// Receives the inputs of a plugin about a cluster.
    fn inputs(&mut self, _ordinal: usize, _plugin: &str, _inputs: Vec<String>) {}
    /// Receives the scores that a plugin added to the candidates. `added` contains scores that are already multiplied
    /// by the weight.
    fn scored(&mut self, _plugin: &str, _weight: i64, _candidates: &[Candidate], _added: &[i64]) {}
    /// Receives the estimates of one estimator.
    fn estimated(&mut self, _estimator: &str, _clusters: &[usize], _estimates: &[i32]) {}
    /// Receives the basis of an estimator's estimate for one cluster.
    fn estimate_basis(&mut self, _estimator: &str, _ordinal: usize, _basis: Basis) {}
    /// Receives the candidates before the selection, with their scores and estimates.
    fn candidates(&mut self, _candidates: &[Candidate]) {}
    /// Receives the clusters that passed the filters only because they already have the workload.
    fn spared(&mut self, _clusters: &Bits) {}
    /// Receives the explanation of the select plugin.
    fn selection(&mut self, _selection: SelectionExplanation) {}
    /// Receives the selected clusters.
    fn selected(&mut self, _selected: &[Candidate]) {}
    /// Receives the steps in which the assign plugin divided the replicas.
    fn division(&mut self, _steps: Vec<DivisionStep>) {}
    /// Receives the assigned replicas. `current` contains the replicas that clusters had before the decision.
    fn assigned(&mut self, _shares: &[Share], _current: &[Share]) {}
    /// Receives the error of an infeasible affinity term.
    fn failed(&mut self, _error: &ScheduleError) {}
}

/// A receiver that ignores all events.
#[derive(Debug)]
pub(super) struct Silent;

impl Trace for Silent {
    const EXPLAINS: bool = false;
}

/// A receiver that forwards the start and end of points and plugin calls to an observer. It records no explanation.
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
