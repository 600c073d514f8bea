//! Observation of points and plugins. Observers bring their own clock; the engine has none.

use super::point::Point;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// The call succeeded.
    Success,
    /// A PreFilter or PreScore skipped the cycle.
    Skip,
    /// The workload cannot be scheduled now.
    Unschedulable,
    /// The call failed.
    Error,
}

impl Status {
    /// Returns the name for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Skip => "Skip",
            Self::Unschedulable => "Unschedulable",
            Self::Error => "Error",
        }
    }
}

/// Observes the start and end of points and, on request, of plugin calls. The engine is compiled separately for
/// observers, so decisions without one pay nothing.
///
/// Points do not nest, except that NormalizeScore is part of Score and reported for single plugins only. Points
/// without plugins are not reported. A panic of an observer propagates to the caller.
pub trait Observer {
    /// A point begins.
    fn point_begins(&mut self, point: Point);

    /// The current point ends.
    fn point_ends(&mut self, point: Point, status: Status);

    /// Reports whether plugin calls are observed as well. Called once per cycle: a sample is enough for a
    /// histogram, and reading a clock twice costs more than most plugins.
    fn wants_plugins(&mut self) -> bool {
        false
    }

    /// A plugin call begins. Cached placement filters are not reported.
    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        let _ = (point, plugin);
    }

    /// The current plugin call ends.
    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        let _ = (point, plugin, status);
    }
}
