//! The engine's implementation of the Estimate point, which computes how many replicas fit into each candidate.
//!
//! The engine runs this point if selection or assignment depends on capacity, or if the decision is explained.

use super::plugin_calls::Calls;
use super::{Engine, Trace};
use crate::candidate::Candidate;
use crate::error::ScheduleError;
use crate::estimate::{Assumed, EstimateContext, UNBOUNDED};
use crate::framework::{BindingContext, Point};

impl Engine {
    /// Reports whether selection or assignment depends on the capacity of clusters.
    pub(super) fn needs_estimates<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        calls: &mut Calls<'_, T>,
    ) -> bool {
        calls.begin_call(Point::Select, 0);
        let selection_needs_estimates = self.plugins.select.plugin.needs_estimates(context);
        calls.begin_call(Point::Assign, 0);
        let needs_estimates =
            selection_needs_estimates || self.plugins.assign.plugin.needs_estimates(context);
        calls.end_call();
        needs_estimates
    }

    /// Runs all estimators, and stores in each candidate the lowest estimate for its cluster.
    pub(super) fn estimate<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        assumed: &Assumed,
        candidates: &mut [Candidate],
        calls: &mut Calls<'_, T>,
    ) -> Result<(), ScheduleError> {
        let request = context.request();
        if request.replicas() == 0 && request.components().is_empty() {
            for candidate in candidates {
                candidate.allocatable = i64::from(UNBOUNDED);
            }
            return Ok(());
        }
        let context = EstimateContext {
            snapshot: context.snapshot(),
            request,
            unit: context.attempt().unit(),
            assumed,
        };
        let clusters: Vec<usize> = candidates
            .iter()
            .map(|candidate| candidate.ordinal)
            .collect();
        let mut estimates = vec![UNBOUNDED; clusters.len()];
        for (index, listed) in self.plugins.estimators.iter().enumerate() {
            let mut separate = Vec::new();
            // The first estimator writes directly into `estimates`, because there are no earlier estimates to compare.
            let answers = if index == 0 {
                &mut estimates
            } else {
                separate.resize(clusters.len(), UNBOUNDED);
                &mut separate
            };
            let answered = calls.call(Point::Estimate, index, listed, |estimator| {
                Ok(estimator.estimate(&context, &clusters, answers))
            })?;
            if T::EXPLAINS {
                for &cluster in &clusters {
                    let basis = calls.call(Point::Estimate, index, listed, |estimator| {
                        Ok(estimator.basis(&context, cluster))
                    })?;
                    if let Some(basis) = basis {
                        calls.trace.estimate_basis(&listed.name, cluster, basis);
                    }
                }
            }
            if answered.is_err() {
                answers.fill(UNBOUNDED);
                continue;
            }
            calls.trace.estimated(&listed.name, &clusters, answers);
            for (estimate, answer) in estimates.iter_mut().zip(separate) {
                *estimate = (*estimate).min(answer);
            }
        }
        for (candidate, estimate) in candidates.iter_mut().zip(estimates) {
            candidate.allocatable = if estimate == UNBOUNDED {
                request.replicas()
            } else {
                i64::from(estimate)
            };
        }
        Ok(())
    }
}
