//! The interface for metrics and traces of points and plugins. Observers bring their own clock; the engine has none.

use super::point::Point;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// The call succeeded.
    Success,
    /// A PreFilter or PreScore plugin is skipped in this cycle.
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
/// observers, so they cost nothing when unused.
///
/// Points do not nest. Points without plugins are not reported. NormalizeScore is part of Score, so only its
/// plugin calls are reported. A panic of an observer propagates to the caller.
pub trait Observer {
    /// A point begins.
    fn point_begins(&mut self, point: Point);

    /// The current point ends.
    fn point_ends(&mut self, point: Point, status: Status);

    /// Reports whether the plugin calls of the next cycle are observed as well. An observer can thereby measure a
    /// sample of cycles only, because reading the clock twice takes longer than most plugin calls.
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
