//! The interface of observers, which record metrics and traces of extension points and plugin calls. The engine reads
//! no clock, so an observer must read a clock itself.

use super::point::Point;

/// The result of an extension point or of a plugin call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// The point or the call succeeded.
    Success,
    /// A PreFilter or PreScore plugin skips this attempt.
    Skip,
    /// The workload cannot be scheduled now.
    Unschedulable,
    /// The point or the call failed.
    Error,
}

impl Status {
    /// Returns the name of the status in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Skip => "Skip",
            Self::Unschedulable => "Unschedulable",
            Self::Error => "Error",
        }
    }
}

/// An observer of a decision. The engine notifies the observer of the start and end of each extension point and, on
/// request, of each plugin call. The code for decisions without an observer is compiled separately, and sends no
/// notifications.
///
/// Points do not nest. The engine does not report PreFilter, PreScore and Score if they have no plugins. NormalizeScore
/// is a part of the Score point: the engine reports the plugin calls of NormalizeScore, but not its start and end. A
/// panic of an observer propagates to the caller of the engine.
pub trait Observer {
    /// Receives the start of a point.
    fn point_begins(&mut self, point: Point);

    /// Receives the end of the current point.
    fn point_ends(&mut self, point: Point, status: Status);

    /// Reports whether the engine notifies the observer of the plugin calls in the next attempt. An observer can choose a
    /// sample of attempts, because reading the clock twice takes longer than most plugin calls.
    fn wants_plugins(&mut self) -> bool {
        false
    }

    /// Receives the start of a plugin call. A placement filter with a cached result is not called and not reported.
    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        let _ = (point, plugin);
    }

    /// Receives the end of the current plugin call.
    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        let _ = (point, plugin, status);
    }
}
