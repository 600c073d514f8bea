//! A cycle: one pass through the points.

use super::guard::{call, point};
use super::targets::{add_empty, prior_shares, targets};
use super::{Engine, Trace};
use crate::candidate::Candidate;
use crate::error::ScheduleError;
use crate::estimate::Assumed;
use crate::framework::{
    AssignContext, BindingContext, CycleContext, CycleState, Point, Selection, Share,
};
use crate::outcome::Target;

impl Engine {
    /// Runs all points for one term, or without terms.
    pub(super) fn run<T: Trace>(
        &mut self,
        cycle: &CycleContext<'_>,
        assumed: &Assumed,
        state: &mut CycleState,
        trace: &mut T,
    ) -> Result<Vec<Target>, ScheduleError> {
        let result = self.run_points(cycle, assumed, state, trace);
        if let Err(error) = &result {
            trace.failed(error);
        }
        result
    }

    fn run_points<T: Trace>(
        &mut self,
        cycle: &CycleContext<'_>,
        assumed: &Assumed,
        state: &mut CycleState,
        trace: &mut T,
    ) -> Result<Vec<Target>, ScheduleError> {
        let narrowed = self.pre_filter(cycle, state, trace)?;
        let prior = prior_shares(cycle);
        let context = BindingContext::new(*cycle, state);
        let (prepared, passing) = point(trace, Point::Filter, |trace| {
            self.filter(&context, &narrowed, &prior, trace)
        })?;
        let mut candidates = candidates(passing.iter(), passing.count(), &prior, |ordinal| {
            prepared.tier(ordinal)
        });
        let switches = self.pre_score(cycle, &candidates, state, trace)?;
        let context = BindingContext::new(*cycle, state);
        self.score(&context, &switches, &mut candidates, trace)?;
        if T::EXPLAINS || self.needs_estimates(&context)? {
            point(trace, Point::Estimate, |trace| {
                self.estimate(&context, assumed, &mut candidates, trace)
            })?;
        }
        trace.candidates(&candidates);
        let mut selection = self.select(&context, candidates, trace)?;
        trace.selected(&selection.clusters);
        let context = AssignContext::new(context, &prepared.static_weights, &prior);
        let mut shares = self.assign(&context, &mut selection, trace)?;
        trace.dealt(&shares, &prior);
        if self.empty_workload_propagation {
            add_empty(cycle.snapshot().len(), &selection.clusters, &mut shares);
        }
        let targets = targets(cycle, &shares);
        Ok(targets.map_err(|error| error.of(&self.roster.assign.name, Point::Assign))?)
    }

    fn select<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
        trace: &mut T,
    ) -> Result<Selection, ScheduleError> {
        point(trace, Point::Select, |trace| {
            let listed = &self.roster.select;
            let selection = call(trace, Point::Select, listed, |plugin| {
                plugin.select(context, candidates)
            });
            Ok(selection?)
        })
    }

    fn assign<T: Trace>(
        &self,
        context: &AssignContext<'_>,
        selection: &mut Selection,
        trace: &mut T,
    ) -> Result<Vec<Share>, ScheduleError> {
        point(trace, Point::Assign, |trace| {
            let listed = &self.roster.assign;
            let shares = call(trace, Point::Assign, listed, |plugin| {
                plugin.assign(context, selection)
            });
            Ok(shares?)
        })
    }
}

/// The clusters that pass, by name, before anything but their tier and what they hold is known.
fn candidates(
    passing: impl Iterator<Item = usize>,
    count: usize,
    prior: &[Share],
    tier: impl Fn(usize) -> u32,
) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(count);
    candidates.extend(passing.map(|ordinal| Candidate {
        ordinal,
        tier: tier(ordinal),
        score: 0,
        allocatable: 0,
        assigned: 0,
    }));
    for share in prior {
        if let Ok(place) =
            candidates.binary_search_by_key(&share.ordinal, |candidate| candidate.ordinal)
        {
            candidates[place].assigned = share.replicas;
        }
    }
    candidates
}
