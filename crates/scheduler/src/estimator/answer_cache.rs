//! The cache of the estimators' answers for one decision. The engine runs synchronously and cannot wait for a call, so
//! it reads the answers from this cache.
//!
//! A decision takes one or more runs of the engine. In the first run, the cache is empty, and records the clusters
//! whose estimates the engine looks up. Then the caller calls the estimators of these clusters, and starts a second run
//! with their answers. Another run follows only if the answers lead the engine to clusters that it did not consider
//! before, for example to the clusters of the next affinity term.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use berth_engine::estimate::{EstimateContext, EstimateError, Unit};
use berth_engine::{Basis, Estimator};

use super::answers::{Answer, Answers};

/// One run of the engine for a decision.
#[derive(Debug, Default)]
struct EngineRun {
    answers: Arc<Answers>,
    unanswered: Option<Unanswered>,
}

/// The estimates that a decision looked up and that are missing in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The unit of the estimates.
    pub unit: Unit,
    /// The clusters whose estimators must be called.
    pub clusters: BTreeSet<Arc<str>>,
}

/// The answers for the current run of the engine, shared by the scheduler and its engine.
#[derive(Clone, Debug, Default)]
pub struct AnswerCache(Arc<Mutex<EngineRun>>);

impl AnswerCache {
    /// Returns an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an estimator plugin that reads this cache. The caller adds the plugin to [`berth_engine::Plugins`].
    pub fn estimator(&self) -> AccurateEstimator {
        AccurateEstimator(self.clone())
    }

    /// Runs the function `decision` with these answers. Returns its result and the missing estimates. If estimates are
    /// missing, the result is provisional.
    pub fn decide<T>(
        &self,
        answers: Arc<Answers>,
        decision: impl FnOnce() -> T,
    ) -> (T, Option<Unanswered>) {
        self.with(|run| {
            *run = EngineRun {
                answers,
                unanswered: None,
            };
        });
        let decision = decision();
        let run = self.with(std::mem::take);
        (decision, run.unanswered)
    }

    fn with<T>(&self, change: impl FnOnce(&mut EngineRun) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An estimator plugin that reads an [`AnswerCache`]. Clusters without an answer keep the general estimate.
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
        self.0.with(|run| {
            let same_unit = run.answers.unit() == Some(context.unit);
            for (&ordinal, estimate) in clusters.iter().zip(estimates) {
                let Some(cluster) = context.snapshot.cluster(ordinal) else {
                    continue;
                };
                if let Some(answer) = run.answers.get(cluster.name()).filter(|_| same_unit) {
                    if let Some(value) = answer.value() {
                        let raised = context.assumed.on_nodes(cluster.name());
                        *estimate = value.max(raised.unwrap_or(value)).min(*estimate);
                    }
                } else {
                    let unanswered = run.unanswered.get_or_insert_with(|| Unanswered {
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
        self.0.with(|run| {
            if run.answers.unit() != Some(context.unit) {
                return None;
            }
            let basis = match run.answers.get(cluster.name())? {
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
