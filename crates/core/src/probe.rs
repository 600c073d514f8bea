//! Who wants to know how long the stages take brings a clock along: the engine has none.

use crate::trace::Trace;

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

/// Is told when stages begin and end. The engine is compiled once for each probe, so that decisions without
/// one pay nothing.
pub trait Probe {
    /// A stage begins, and ends the one before it.
    fn enters(&mut self, step: Step);
    /// The last stage that began is over: the term is decided, or will not do.
    fn leaves(&mut self);
}

/// Passes the borders of the stages on, and explains nothing.
#[derive(Debug)]
pub(crate) struct Probed<'a, P>(pub(crate) &'a mut P);

impl<P: Probe> Trace for Probed<'_, P> {
    const LISTENS: bool = false;

    fn enters(&mut self, step: Step) {
        self.0.enters(step);
    }

    fn leaves(&mut self) {
        self.0.leaves();
    }
}
