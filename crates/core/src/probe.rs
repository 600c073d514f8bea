//! The four steps of a decision, for who measures no more than these.

use crate::engine::Engine;
use crate::estimate::Assumed;
use crate::fleet::Snapshot;
use crate::framework::{Observer, Point, Status};
use crate::outcome::Outcome;
use crate::request::Request;

/// A stage of a decision, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Which clusters can take the workload.
    Filter,
    /// Which of them are preferred.
    Score,
    /// Which of them are used; what they can take is estimated here.
    Select,
    /// How many replicas each gets.
    Assign,
}

/// Is told when stages begin and end.
pub trait Probe {
    /// A stage begins, and ends the one before it.
    fn enters(&mut self, step: Step);
    /// The last stage that began is over: the term is decided, or will not do.
    fn leaves(&mut self);
}

struct Steps<'a, P> {
    probe: &'a mut P,
    step: Option<Step>,
}

impl<P: Probe> Observer for Steps<'_, P> {
    fn point_begins(&mut self, point: Point) {
        let step = match point {
            Point::PreScore | Point::Score => Step::Score,
            Point::Estimate | Point::Select => Step::Select,
            Point::Assign => Step::Assign,
            _ => Step::Filter,
        };
        if self.step != Some(step) {
            self.step = Some(step);
            self.probe.enters(step);
        }
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        if point == Point::Assign || matches!(status, Status::Error | Status::Unschedulable) {
            self.step = None;
            self.probe.leaves();
        }
    }
}

impl Engine {
    /// Decides as [`Self::schedule_with`] does, and tells a probe when the stages begin and end.
    pub fn schedule_probed<P: Probe>(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        probe: &mut P,
    ) -> Outcome {
        let mut steps = Steps { probe, step: None };
        self.decide(snapshot, request, assumed, Some(&mut steps))
            .outcome
    }
}
