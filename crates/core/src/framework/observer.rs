//! Who wants to know how long plugins take brings a clock along: the engine has none.

use super::point::Point;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It did its work.
    Success,
    /// A PreFilter or PreScore that has nothing to do in this cycle.
    Skip,
    /// The workload cannot be placed as things are.
    Unschedulable,
    /// Something went wrong.
    Error,
}

impl Status {
    /// The name, as metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Skip => "Skip",
            Self::Unschedulable => "Unschedulable",
            Self::Error => "Error",
        }
    }
}

/// Is told when points, and on request plugins, begin and end. The engine is compiled a second time for
/// observers, so that a decision without one pays nothing.
///
/// Points do not nest, but NormalizeScore is within Score and told for single plugins only. A point without
/// plugins is not told of. An observer that panics takes the caller down with it.
pub trait Observer {
    /// A point begins.
    fn point_begins(&mut self, point: Point);

    /// The point that began last is over.
    fn point_ends(&mut self, point: Point, status: Status);

    /// Whether single plugins are told of as well. It is asked once for each cycle: a sample is enough for
    /// a histogram, and looking at a clock twice for each plugin costs more than most plugins.
    fn wants_plugins(&mut self) -> bool {
        false
    }

    /// A plugin begins. A placement filter whose answer is remembered does not.
    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        let _ = (point, plugin);
    }

    /// The plugin that began last is over.
    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        let _ = (point, plugin, status);
    }
}
