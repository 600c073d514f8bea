//! The estimates that accurate estimators returned, for the engine, which runs synchronously and cannot wait for a
//! call.
//!
//! A decision is made in rounds. In the first, the cache only records which estimates the engine looks up. The caller then
//! fetches them and decides again with the answers. Another round follows only where the answers lead the engine to
//! clusters that it did not consider before, for example those of the next affinity term.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use berth_core::estimate::{EstimateContext, EstimateError, Unit};
use berth_core::{Basis, Estimator};

use super::answers::{Answer, Answers};

#[derive(Debug, Default)]
struct Round {
    answers: Arc<Answers>,
    unanswered: Option<Unanswered>,
}

/// Estimates that a decision looked up without finding an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The unit to estimate in.
    pub unit: Unit,
    /// The clusters to call.
    pub clusters: BTreeSet<Arc<str>>,
}

/// The answers of the round in progress, shared by the scheduler and its engine.
#[derive(Clone, Debug, Default)]
pub struct AnswerCache(Arc<Mutex<Round>>);

impl AnswerCache {
    /// Returns an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the estimator to add to [`berth_core::Plugins`]. It reads this cache.
    pub fn estimator(&self) -> AccurateEstimator {
        AccurateEstimator(self.clone())
    }

    /// Makes a decision with these answers. If lookups remain unanswered, the decision is provisional.
    pub fn decide<T>(
        &self,
        answers: Arc<Answers>,
        decision: impl FnOnce() -> T,
    ) -> (T, Option<Unanswered>) {
        self.with(|round| {
            *round = Round {
                answers,
                unanswered: None,
            };
        });
        let decision = decision();
        let round = self.with(std::mem::take);
        (decision, round.unanswered)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Round) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Estimator plugin that reads an [`AnswerCache`]. Clusters without an answer keep the general estimate.
#[derive(Clone, Debug)]
pub struct AccurateEstimator(AnswerCache);

impl AccurateEstimator {
    /// The plugin's name in explanations.
    pub const NAME: &'static str = "scheduler-estimator";
}

impl Estimator for AccurateEstimator {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn estimate(
        &self,
        context: &EstimateContext<'_>,
        clusters: &[usize],
        estimates: &mut [i32],
    ) -> Result<(), EstimateError> {
        self.0.with(|round| {
            let same_unit = round.answers.unit() == Some(context.unit);
            for (&ordinal, estimate) in clusters.iter().zip(estimates) {
                let Some(cluster) = context.snapshot.cluster(ordinal) else {
                    continue;
                };
                if let Some(answer) = round.answers.get(cluster.name()).filter(|_| same_unit) {
                    if let Some(value) = answer.value() {
                        *estimate = value.min(*estimate);
                    }
                } else {
                    let unanswered = round.unanswered.get_or_insert_with(|| Unanswered {
                        unit: context.unit,
                        clusters: BTreeSet::new(),
                    });
                    unanswered.clusters.insert(cluster.name().into());
                }
            }
        });
        Ok(())
    }

    fn basis(&self, context: &EstimateContext<'_>, cluster: usize) -> Option<Basis> {
        let cluster = context.snapshot.cluster(cluster)?;
        self.0.with(|round| {
            if round.answers.unit() != Some(context.unit) {
                return None;
            }
            let basis = match round.answers.get(cluster.name())? {
                Answer::Fresh(_) => Basis::Fresh,
                Answer::Stale { age, reason, .. } => Basis::Stale {
                    seconds: age.as_secs(),
                    reason: reason.to_string(),
                },
                Answer::Missing(reason) => Basis::Missing {
                    reason: reason.to_string(),
                },
            };
            Some(basis)
        })
    }
}

#[cfg(test)]
mod tests;
