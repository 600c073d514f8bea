//! One attempt, which is one pass through the extension points from PreFilter to Assign with one affinity term.

use berth_api::replica_limits::ReplicaFit;

use super::plugin_calls::{Calls, catch_panics};
use super::targets::{add_empty_shares, check_shares, current_shares, targets};
use super::{Engine, Trace};
use crate::candidate::Candidate;
use crate::cluster_set::Bits;
use crate::error::ScheduleError;
use crate::estimate::Assumed;
use crate::framework::{
    AssignContext, AttemptContext, BindingContext, CycleState, Point, Selection, Share,
};
use crate::outcome::Target;
use crate::request::{ReplicaBounds, Request};

/// The result of an attempt.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) targets: Vec<Target>,
    /// The number of replicas for which no cluster has room.
    pub(super) waiting: i64,
}

impl Engine {
    /// Runs all extension points for one affinity term, or for a placement without affinity terms.
    pub(super) fn attempt<T: Trace>(
        &mut self,
        attempt: &AttemptContext<'_>,
        assumed: &Assumed,
        state: &mut CycleState,
        trace: &mut T,
    ) -> Result<Assigned, ScheduleError> {
        let result = catch_panics(self, trace, |engine, calls| {
            engine.run_points(attempt, assumed, state, calls)
        });
        if let Err(error) = &result {
            trace.failed(error);
        }
        result
    }

    /// Runs the extension points. The comments number the phases.
    fn run_points<T: Trace>(
        &mut self,
        attempt: &AttemptContext<'_>,
        assumed: &Assumed,
        state: &mut CycleState,
        calls: &mut Calls<'_, T>,
    ) -> Result<Assigned, ScheduleError> {
        // 1. PreFilter, before all other points: it prepares the data of the filters, and may make them unnecessary.
        let pre_filtered = self.pre_filter(attempt, state, calls)?;
        // 2. Filter. The clusters that pass are the candidates. Without candidates, the attempt fails here, with a
        //    reason for each cluster, so the later points always have a choice.
        let current = current_shares(attempt);
        let context = BindingContext::new(*attempt, state, &current);
        let (prepared, passing) = calls.point(Point::Filter, |calls| {
            self.filter(&context, &pre_filtered, calls)
        })?;
        let mut candidates = candidates(&passing, prepared.tiers.as_deref(), &current);
        // 3. The candidates that pass only because they have the workload already. With the feature gate
        //    NoScaleUpOnTaints they get no further replicas, so Select and Assign must know them.
        let request = attempt.request();
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
        // 4. PreScore and Score, for the candidates only: a score costs time for each cluster and plugin.
        let skipped = self.pre_score(attempt, &candidates, state, calls)?;
        let context = BindingContext::new(*attempt, state, &current);
        self.score(&context, &skipped, &mut candidates, calls)?;
        // 5. Estimate, only if the next two points read the capacity: an estimator may examine each candidate. A maximum
        //    of replicas lowers the capacity, so that Select prefers clusters that may take the replicas.
        let needs_estimates = self.needs_estimates(&context, calls);
        if T::EXPLAINS || needs_estimates {
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
        let bounds = request.limits().map_or_else(Vec::new, |limits| {
            limits.bounds(attempt.snapshot(), &candidates, request.replicas())
        });
        if needs_estimates {
            lower_to_maximums(&bounds, &mut candidates);
        }
        calls.trace.candidates(&candidates);
        // 6. Select, from scores and capacity together: spread constraints compare groups of clusters by both.
        let mut selection = self.select(&context, candidates, calls)?;
        calls.trace.selected(&selection.clusters);
        // 7. Assign. It divides the replicas among the selected clusters, and cannot return to Select: a division that
        //    is impossible fails the attempt.
        let context = AssignContext::new(
            context,
            &prepared.static_weights,
            excluded.as_ref(),
            &bounds,
        );
        let mut shares = self.assign(&context, &mut selection, calls)?;
        calls.trace.assigned(&shares, &current);
        let waiting = waiting(request, &shares);
        // 8. The targets. The check is last, because it covers the result that leaves the engine, whatever plugin
        //    assigned it.
        if self.empty_workload_propagation {
            add_empty_shares(attempt.snapshot().len(), &selection.clusters, &mut shares);
        }
        check_shares(attempt.snapshot(), &shares)
            .map_err(|error| error.of(&self.plugins.assign.name, Point::Assign))?;
        Ok(Assigned {
            targets: targets(attempt, &shares),
            waiting,
        })
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

/// Lowers the capacity of candidates to their maximums. `bounds` is empty or has an entry for each candidate.
fn lower_to_maximums(bounds: &[ReplicaBounds], candidates: &mut [Candidate]) {
    for (candidate, bounds) in candidates.iter_mut().zip(bounds) {
        if let Some(max) = bounds.max {
            candidate.allocatable = candidate.allocatable.min(max - candidate.assigned);
        }
    }
}

/// Returns the number of requested replicas that have no share, if the limits allow that replicas wait.
fn waiting(request: &Request, shares: &[Share]) -> i64 {
    let may_wait = request
        .limits()
        .is_some_and(|limits| limits.fit() == ReplicaFit::BestEffort);
    if !may_wait {
        return 0;
    }
    let placed = shares
        .iter()
        .fold(0_i64, |sum, share| sum.saturating_add(share.replicas));
    (request.replicas() - placed).max(0)
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
