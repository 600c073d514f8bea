//! The contexts that the engine passes to plugins. A context contains the inputs of a decision that are known at an
//! extension point.

use super::cycle_state::CycleState;
use crate::estimate::Unit;
use crate::fleet::Snapshot;
use crate::request::{CompiledPlacement, Request, Term};

/// A cluster and a number of replicas: its current replicas, or the replicas that a decision assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The ordinal of the cluster in the snapshot.
    pub ordinal: usize,
    /// The number of replicas.
    pub replicas: i64,
}

/// The context of filters that depend only on the placement and the fleet.
#[derive(Clone, Copy, Debug)]
pub struct PlacementContext<'a> {
    snapshot: &'a Snapshot,
    placement: &'a CompiledPlacement,
    term: Option<usize>,
    is_workload: bool,
}

impl<'a> PlacementContext<'a> {
    /// Returns the snapshot of the fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Returns the placement.
    pub fn placement(&self) -> &'a CompiledPlacement {
        self.placement
    }

    /// Returns the affinity term being evaluated, or `None` if the placement has no affinity terms.
    pub fn term(&self) -> Option<&'a Term> {
        self.placement.terms().get(self.term?)
    }

    /// Reports whether the resource is a workload. A workload has replicas, resource requirements or components.
    pub fn is_workload(&self) -> bool {
        self.is_workload
    }

    /// Returns the index of the affinity term being evaluated.
    pub(crate) fn term_index(&self) -> Option<usize> {
        self.term
    }
}

/// The context at the start of an attempt, which tries one affinity term.
#[derive(Clone, Copy, Debug)]
pub struct AttemptContext<'a> {
    snapshot: &'a Snapshot,
    request: &'a Request,
    term: Option<usize>,
    unit: Unit,
}

impl<'a> AttemptContext<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        request: &'a Request,
        term: Option<usize>,
        unit: Unit,
    ) -> Self {
        Self {
            snapshot,
            request,
            term,
            unit,
        }
    }

    /// Returns the snapshot of the fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Returns the parsed binding.
    pub fn request(&self) -> &'a Request {
        self.request
    }

    /// Returns the affinity term being evaluated, or `None` if the placement has no affinity terms.
    pub fn term(&self) -> Option<&'a Term> {
        self.request.placement().terms().get(self.term?)
    }

    /// Returns the unit in which estimators count: replicas, or complete sets of components.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Reports whether the affinity term has overflow groups. Replicas then fill the tiers of candidates in order.
    pub fn is_tiered(&self) -> bool {
        self.request.placement().affinity().is_none()
            && self
                .term()
                .is_some_and(|term| !term.name().is_empty() && !term.overflow().is_empty())
    }

    pub(crate) fn placement(&self) -> PlacementContext<'a> {
        PlacementContext {
            snapshot: self.snapshot,
            placement: self.request.placement(),
            term: self.term,
            is_workload: self.request.is_workload(),
        }
    }
}

/// The context of the points after PreFilter, except PreScore. It adds the state of plugins and the current replicas to
/// [`AttemptContext`].
#[derive(Clone, Copy, Debug)]
pub struct BindingContext<'a> {
    attempt: AttemptContext<'a>,
    state: &'a CycleState,
    current: &'a [Share],
}

impl<'a> BindingContext<'a> {
    pub(crate) fn new(
        attempt: AttemptContext<'a>,
        state: &'a CycleState,
        current: &'a [Share],
    ) -> Self {
        Self {
            attempt,
            state,
            current,
        }
    }

    /// Returns the context at the start of the attempt.
    pub fn attempt(&self) -> AttemptContext<'a> {
        self.attempt
    }

    /// Returns the snapshot of the fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.attempt.snapshot
    }

    /// Returns the parsed binding.
    pub fn request(&self) -> &'a Request {
        self.attempt.request
    }

    /// Returns the current replicas of the workload in each cluster (`spec.clusters`), in the order of the binding.
    /// Omits clusters that no longer exist.
    pub fn current(&self) -> &'a [Share] {
        self.current
    }

    /// Returns the state that plugins stored in this attempt.
    pub fn state(&self) -> &'a CycleState {
        self.state
    }
}
