//! The run of one cycle, which is one pass through the extension points from PreFilter to Assign.

use super::plugin_calls::{Calls, catch_panics};
use super::targets::{add_empty_shares, check_shares, current_shares, targets};
use super::{Engine, Trace};
use crate::candidate::Candidate;
use crate::cluster_set::Bits;
use crate::error::ScheduleError;
use crate::estimate::Assumed;
use crate::framework::{
    AssignContext, BindingContext, CycleContext, CycleState, Point, Selection, Share,
};
use crate::outcome::Target;

impl Engine {
    /// Runs all extension points for one affinity term, or for a placement without affinity terms.
    pub(super) fn run<T: Trace>(
        &mut self,
        cycle: &CycleContext<'_>,
        assumed: &Assumed,
        state: &mut CycleState,
        trace: &mut T,
    ) -> Result<Vec<Target>, ScheduleError> {
        let result = catch_panics(self, trace, |engine, calls| {
            engine.run_points(cycle, assumed, state, calls)
        });
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
        calls: &mut Calls<'_, T>,
    ) -> Result<Vec<Target>, ScheduleError> {
        let pre_filtered = self.pre_filter(cycle, state, calls)?;
        let current = current_shares(cycle);
        let context = BindingContext::new(*cycle, state, &current);
        let (prepared, passing) = calls.point(Point::Filter, |calls| {
            self.filter(&context, &pre_filtered, calls)
        })?;
        let mut candidates = candidates(&passing, prepared.tiers.as_deref(), &current);
        let request = cycle.request();
        let closes = self.gates.no_scale_up_on_taints
            && request.divides_replicas()
            && !request.placement().duplicates();
        let spared = (closes || T::EXPLAINS)
            .then(|| prepared.spared(&current))
            .flatten();
        if let Some(spared) = &spared {
            calls.trace.spared(spared);
        }
        let excluded = spared.filter(|_| closes);
        let skipped = self.pre_score(cycle, &candidates, state, calls)?;
        let context = BindingContext::new(*cycle, state, &current);
        self.score(&context, &skipped, &mut candidates, calls)?;
        if T::EXPLAINS || self.needs_estimates(&context, calls) {
            calls.point(Point::Estimate, |calls| {
                self.estimate(&context, assumed, &mut candidates, calls)
            })?;
        }
        if let Some(excluded) = &excluded {
            for candidate in candidates
                .iter_mut()
                .filter(|candidate| excluded.contains(candidate.ordinal))
            {
                candidate.allocatable = candidate.allocatable.min(0);
            }
        }
        calls.trace.candidates(&candidates);
        let mut selection = self.select(&context, candidates, calls)?;
        calls.trace.selected(&selection.clusters);
        let context = AssignContext::new(context, &prepared.static_weights, excluded.as_ref());
        let mut shares = self.assign(&context, &mut selection, calls)?;
        calls.trace.assigned(&shares, &current);
        if self.empty_workload_propagation {
            add_empty_shares(cycle.snapshot().len(), &selection.clusters, &mut shares);
        }
        check_shares(cycle.snapshot(), &shares)
            .map_err(|error| error.of(&self.plugins.assign.name, Point::Assign))?;
        Ok(targets(cycle, &shares))
    }

    fn select<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
        calls: &mut Calls<'_, T>,
    ) -> Result<Selection, ScheduleError> {
        calls.point(Point::Select, |calls| {
            let listed = &self.plugins.select;
            if T::EXPLAINS {
                let explained = calls.call(Point::Select, 0, listed, |plugin| {
                    Ok(plugin.explain(context, &candidates))
                })?;
                if let Some(explained) = explained {
                    calls.trace.selection(explained);
                }
            }
            let selection = calls.call(Point::Select, 0, listed, |plugin| {
                plugin.select(context, candidates)
            });
            Ok(selection?)
        })
    }

    fn assign<T: Trace>(
        &self,
        context: &AssignContext<'_>,
        selection: &mut Selection,
        calls: &mut Calls<'_, T>,
    ) -> Result<Vec<Share>, ScheduleError> {
        calls.point(Point::Assign, |calls| {
            let listed = &self.plugins.assign;
            if T::EXPLAINS {
                let steps = calls.call(Point::Assign, 0, listed, |plugin| {
                    Ok(plugin.explain(context, selection))
                })?;
                calls.trace.division(steps);
            }
            let shares = calls.call(Point::Assign, 0, listed, |plugin| {
                plugin.assign(context, selection)
            });
            Ok(shares?)
        })
    }
}

/// Returns the passing clusters as candidates, sorted by name. The tiers and the current replicas are set. Scores and
/// capacities are 0.
fn candidates(passing: &Bits, tiers: Option<&[u32]>, current: &[Share]) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(passing.count());
    let candidate = |ordinal, tier| Candidate {
        ordinal,
        tier,
        score: 0,
        allocatable: 0,
        assigned: 0,
    };
    // `for_each` is faster here than `extend`.
    match tiers {
        None => passing
            .iter()
            .for_each(|ordinal| candidates.push(candidate(ordinal, 0))),
        Some(tiers) => passing
            .iter()
            .for_each(|ordinal| candidates.push(candidate(ordinal, tiers[ordinal]))),
    }
    for share in current {
        if let Ok(index) =
            candidates.binary_search_by_key(&share.ordinal, |candidate| candidate.ordinal)
        {
            candidates[index].assigned = share.replicas;
        }
    }
    candidates
}
