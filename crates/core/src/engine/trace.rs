//! How the points tell what they do, at no cost when nobody listens.

use crate::candidate::Candidate;
use crate::error::ScheduleError;
use crate::estimate::Basis;
use crate::fleet::Snapshot;
use crate::framework::{Observer, Point, Reason, Share, Status};

/// Listens to a decision. The engine is compiled once for each listener, so that the silent one costs
/// nothing.
pub(super) trait Trace {
    /// Whether reasons are heard; what only explains is not worked out otherwise.
    const EXPLAINS: bool;

    /// An affinity term is tried; None without terms.
    fn term(&mut self, _snapshot: &Snapshot, _term: Option<&str>) {}
    /// A point begins.
    fn point_begins(&mut self, _point: Point) {}
    /// A point is over.
    fn point_ends(&mut self, _point: Point, _status: Status) {}
    /// Whether single plugins are told of.
    fn times_plugins(&self) -> bool {
        false
    }
    /// A plugin begins.
    fn plugin_begins(&mut self, _point: Point, _plugin: &str) {}
    /// A plugin is over.
    fn plugin_ends(&mut self, _point: Point, _plugin: &str, _status: Status) {}
    /// A cluster does not pass.
    fn refused(&mut self, _ordinal: usize, _plugin: &str, _reason: &Reason) {}
    /// What a plugin added to the score of each candidate, its weight included.
    fn scored(&mut self, _plugin: &str, _candidates: &[Candidate], _added: &[i64]) {}
    /// What an estimator answered for each candidate.
    fn estimated(&mut self, _estimator: &str, _clusters: &[usize], _estimates: &[i32]) {}
    /// What stands behind the answer of an estimator for a cluster.
    fn rests_on(&mut self, _estimator: &str, _ordinal: usize, _basis: Basis) {}
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
pub(super) struct Silent;

impl Trace for Silent {
    const EXPLAINS: bool = false;
}

/// Tells an observer what begins and ends, and explains nothing.
pub(super) struct Observed<'a> {
    observer: &'a mut dyn Observer,
    times_plugins: bool,
}

impl<'a> Observed<'a> {
    pub(super) fn new(observer: &'a mut dyn Observer) -> Self {
        Self {
            times_plugins: false,
            observer,
        }
    }
}

impl Trace for Observed<'_> {
    const EXPLAINS: bool = false;

    fn term(&mut self, _snapshot: &Snapshot, _term: Option<&str>) {
        self.times_plugins = self.observer.wants_plugins();
    }

    fn point_begins(&mut self, point: Point) {
        self.observer.point_begins(point);
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        self.observer.point_ends(point, status);
    }

    fn times_plugins(&self) -> bool {
        self.times_plugins
    }

    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        self.observer.plugin_begins(point, plugin);
    }

    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        self.observer.plugin_ends(point, plugin, status);
    }
}
