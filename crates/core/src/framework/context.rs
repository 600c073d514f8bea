//! What plugins may look at.

use super::assign::Share;
use super::cycle_state::CycleState;
use crate::estimate::Unit;
use crate::fleet::Snapshot;
use crate::request::{CompiledPlacement, Request, Term};

/// What a filter that depends on the placement alone may look at.
#[derive(Clone, Copy, Debug)]
pub struct PlacementContext<'a> {
    snapshot: &'a Snapshot,
    placement: &'a CompiledPlacement,
    term: Option<usize>,
    is_workload: bool,
}

impl<'a> PlacementContext<'a> {
    /// The fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The placement.
    pub fn placement(&self) -> &'a CompiledPlacement {
        self.placement
    }

    /// The term of `clusterAffinities` in turn.
    pub fn term(&self) -> Option<&'a Term> {
        self.placement.terms().get(self.term?)
    }

    /// Whether the resource is a workload: replicas, requirements or components are given.
    pub fn is_workload(&self) -> bool {
        self.is_workload
    }

    /// The place of the term in turn.
    pub(crate) fn term_index(&self) -> Option<usize> {
        self.term
    }
}

/// What there is to look at from the beginning of a cycle.
#[derive(Clone, Copy, Debug)]
pub struct CycleContext<'a> {
    snapshot: &'a Snapshot,
    request: &'a Request,
    term: Option<usize>,
    unit: Unit,
}

impl<'a> CycleContext<'a> {
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

    /// The fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The binding.
    pub fn request(&self) -> &'a Request {
        self.request
    }

    /// The term of `clusterAffinities` in turn.
    pub fn term(&self) -> Option<&'a Term> {
        self.request.placement().terms().get(self.term?)
    }

    /// What estimates count: replicas, or whole sets of the workload's components.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Whether candidates belong to tiers that are filled one after the other: the term in turn has
    /// overflow groups.
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

/// What there is to look at once PreFilter is over: the cycle, and what plugins have handed on in it.
#[derive(Clone, Copy, Debug)]
pub struct BindingContext<'a> {
    cycle: CycleContext<'a>,
    state: &'a CycleState,
    prior: &'a [Share],
}

impl<'a> BindingContext<'a> {
    pub(crate) fn new(cycle: CycleContext<'a>, state: &'a CycleState, prior: &'a [Share]) -> Self {
        Self {
            cycle,
            state,
            prior,
        }
    }

    /// What there was to look at from the beginning.
    pub fn cycle(&self) -> CycleContext<'a> {
        self.cycle
    }

    /// The fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.cycle.snapshot
    }

    /// The binding.
    pub fn request(&self) -> &'a Request {
        self.cycle.request
    }

    /// The clusters that hold the workload and exist, in the order of the binding.
    pub fn prior(&self) -> &'a [Share] {
        self.prior
    }

    /// What plugins have handed on in this cycle.
    pub fn state(&self) -> &'a CycleState {
        self.state
    }
}
