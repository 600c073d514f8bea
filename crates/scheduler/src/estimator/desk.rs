//! Between answers that take time and an engine that does not wait.
//!
//! The engine is pure and asks its estimators in the middle of a decision. So a decision is made in rounds:
//! in the first, the desk only notes which clusters the engine would like to know about; the service asks
//! them, and decides again with their answers on the desk. A further round is needed only where the answers
//! lead the engine to clusters that it did not look at before, as the next affinity term does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use berth_core::estimate::{EstimateContext, EstimateError, Unit};
use berth_core::{Basis, Estimator};

use super::answers::{Answer, Answers};

#[derive(Debug, Default)]
struct Sheet {
    answers: Arc<Answers>,
    wanted: Option<Wanted>,
}

/// What the engine wanted to know and nobody was asked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What is to be counted.
    pub unit: Unit,
    /// Where.
    pub clusters: BTreeSet<Arc<str>>,
}

/// The service's side: answers are laid out before a decision, and wishes are taken away after it.
#[derive(Clone, Debug, Default)]
pub struct Desk(Arc<Mutex<Sheet>>);

impl Desk {
    /// An empty desk.
    pub fn new() -> Self {
        Self::default()
    }

    /// The engine's side, to be given to [`berth_core::Plugins`].
    pub fn estimator(&self) -> AccurateEstimator {
        AccurateEstimator(self.clone())
    }

    /// Makes a decision with these answers. What it wanted to know besides comes with it; where that is
    /// something, the decision is provisional.
    pub fn decide<T>(
        &self,
        answers: Arc<Answers>,
        decision: impl FnOnce() -> T,
    ) -> (T, Option<Wanted>) {
        self.with(|sheet| {
            *sheet = Sheet {
                answers,
                wanted: None,
            };
        });
        let decision = decision();
        let sheet = self.with(std::mem::take);
        (decision, sheet.wanted)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Sheet) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves the engine what lies on the desk. A cluster without an answer keeps the general estimate.
#[derive(Clone, Debug)]
pub struct AccurateEstimator(Desk);

impl AccurateEstimator {
    /// The name that explanations show.
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
        self.0.with(|sheet| {
            let fits = sheet.answers.unit() == Some(context.unit);
            for (&ordinal, estimate) in clusters.iter().zip(estimates) {
                let Some(cluster) = context.snapshot.cluster(ordinal) else {
                    continue;
                };
                if let Some(answer) = sheet.answers.get(cluster.name()).filter(|_| fits) {
                    if let Some(value) = answer.value() {
                        *estimate = value.min(*estimate);
                    }
                } else {
                    let wanted = sheet.wanted.get_or_insert_with(|| Wanted {
                        unit: context.unit,
                        clusters: BTreeSet::new(),
                    });
                    wanted.clusters.insert(cluster.name().into());
                }
            }
        });
        Ok(())
    }

    fn basis(&self, context: &EstimateContext<'_>, cluster: usize) -> Option<Basis> {
        let cluster = context.snapshot.cluster(cluster)?;
        self.0.with(|sheet| {
            if sheet.answers.unit() != Some(context.unit) {
                return None;
            }
            let basis = match sheet.answers.get(cluster.name())? {
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
#[path = "desk_tests.rs"]
mod tests;
