//! Decisions that need answers from member estimators or extenders: decide, request answers, decide again.
//!
//! The scheduler never waits. A decision that lacks answers is discarded, its key stays in processing, and it
//! is repeated on the current state when the answers arrive. Estimators and extenders are called concurrently.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use berth_core::{Assumed, Estimator, Request, Snapshot};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::binding::{Binding, BindingKey};
use crate::capacity_book::CapacityBook;
use crate::decision_record::Inputs;
use crate::estimator::{self, AnswerCache, EstimateRequest, EstimatorClient, EstimatorOptions};
use crate::extender::{self, Extenders};
use crate::writer::Writer;

/// Maximum decisions that wait for estimates.
const ESTIMATES_IN_FLIGHT: usize = 64;
/// Maximum decisions that wait for any answers. Further ones that need an extender are retried later, so that slow
/// extenders do not delay bindings that need none.
const WAITING: usize = 256;
/// Rounds of estimates in addition to one per affinity group. After them, the last decision is final.
const SPARE_ROUNDS: usize = 2;

/// Answers that have been requested for a decision so far.
#[derive(Debug)]
pub(super) struct Round {
    generation: i64,
    estimated: usize,
    estimates: Arc<estimator::Answers>,
    extenders: extender::Answers,
    pub(super) began: Instant,
}

impl Round {
    /// Creates a round without answers.
    pub(super) fn first(binding: &Binding, began: Instant) -> Self {
        Self {
            generation: binding.generation(),
            estimated: 0,
            estimates: Arc::default(),
            extenders: extender::Answers::default(),
            began,
        }
    }

    /// Creates a round with the answers of a recorded decision.
    pub(super) fn answered(binding: &Binding, inputs: &Inputs) -> Self {
        Self {
            estimates: Arc::clone(&inputs.estimates),
            extenders: inputs.extenders.clone(),
            ..Self::first(binding, Instant::now())
        }
    }

    /// Returns the inputs of a decision with the answers of this round.
    pub(super) fn into_inputs(
        self,
        request: Request,
        snapshot: &Arc<Snapshot>,
        assumed: Arc<Assumed>,
    ) -> Inputs {
        Inputs {
            request,
            snapshot: Arc::clone(snapshot),
            assumed,
            extender_calls: self.extenders.calls(),
            estimates: self.estimates,
            extenders: self.extenders,
        }
    }

    /// Drops the answers if they were requested for an older generation.
    pub(super) fn for_generation_of(self, binding: &Binding) -> Self {
        if self.generation == binding.generation() {
            self
        } else {
            Self::first(binding, self.began)
        }
    }
}

/// Missing answers of a decision.
#[derive(Debug)]
pub(super) struct Wanted {
    estimates: Option<estimator::Unanswered>,
    extenders: Option<extender::Unanswered>,
}

/// A finished round.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) key: BindingKey,
    /// `None` after a panic: the binding is retried.
    pub(super) round: Option<Round>,
}

/// A pending round.
#[derive(Debug)]
struct PendingRound {
    key: BindingKey,
    estimates: bool,
}

/// Next step for a decision with missing answers.
#[derive(Debug)]
pub(super) enum RequestOutcome {
    /// The decision is repeated when the answers arrive.
    Requested,
    /// No more answers may be requested: the decision is final.
    Final(Round),
    /// The binding is retried later, for this reason.
    Later(&'static str),
}

/// Client of the members' accurate estimators.
#[derive(Debug)]
pub(crate) struct EstimatorHandle {
    cache: AnswerCache,
    pub(crate) client: EstimatorClient,
}

impl EstimatorHandle {
    /// Creates a client with these options.
    pub(crate) fn new(
        writer: &Writer,
        options: &EstimatorOptions,
        cancel: CancellationToken,
    ) -> Self {
        let (client, limit) = (writer.client.clone(), Arc::clone(&writer.limit));
        Self {
            cache: AnswerCache::new(),
            client: EstimatorClient::new(client, limit, options, cancel),
        }
    }

    /// Returns the estimator plugin of the engine.
    pub(crate) fn estimator(&self) -> Arc<dyn Estimator> {
        Arc::new(self.cache.estimator())
    }
}

/// Estimators and extenders, and the pending rounds.
#[derive(Debug, Default)]
pub(super) struct AsyncEstimates {
    pub(super) estimators: Option<EstimatorHandle>,
    /// Extenders of the current configuration. Answers of earlier ones do not count.
    pub(super) extenders: Option<Extenders>,
    tasks: JoinSet<Round>,
    pending: HashMap<Id, PendingRound>,
}

impl AsyncEstimates {
    /// Creates the state without pending rounds.
    pub(super) fn new(estimators: Option<EstimatorHandle>, extenders: Option<Extenders>) -> Self {
        Self {
            estimators,
            extenders,
            ..Self::default()
        }
    }

    /// Reports whether another decision may wait for estimates.
    pub(super) fn has_capacity(&self) -> bool {
        self.estimators.is_none()
            || self
                .pending
                .values()
                .filter(|round| round.estimates)
                .count()
                < ESTIMATES_IN_FLIGHT
    }

    /// Makes a decision, including PostFilter, with the answers of a round. Also returns the missing answers;
    /// if there are any, the decision is provisional.
    pub(super) fn decide<T>(
        &self,
        round: Round,
        decision: impl FnOnce() -> T,
    ) -> (T, Round, Option<Wanted>) {
        self.decide_with(self.extenders.as_ref(), round, decision)
    }

    /// Makes a decision like [`Self::decide`], with the extenders of another configuration.
    pub(super) fn decide_with<T>(
        &self,
        extenders: Option<&Extenders>,
        mut round: Round,
        decision: impl FnOnce() -> T,
    ) -> (T, Round, Option<Wanted>) {
        let estimates = Arc::clone(&round.estimates);
        let decision = || match &self.estimators {
            None => (decision(), None),
            Some(estimators) => estimators.cache.decide(estimates, decision),
        };
        let Some(extenders) = extenders else {
            let (decided, estimates) = decision();
            let wanted = estimates.map(|estimates| Wanted {
                estimates: Some(estimates),
                extenders: None,
            });
            return (decided, round, wanted);
        };
        let answers = std::mem::take(&mut round.extenders);
        let ((decided, estimates), answers, extenders) = extenders.decide(answers, decision);
        round.extenders = answers;
        let wanted = (estimates.is_some() || extenders.is_some()).then_some(Wanted {
            estimates,
            extenders,
        });
        (decided, round, wanted)
    }

    /// Requests the missing answers of a decision.
    pub(super) fn ask(
        &mut self,
        binding: &Arc<Binding>,
        snapshot: &Arc<Snapshot>,
        wanted: Wanted,
        round: Round,
        book: &CapacityBook,
    ) -> RequestOutcome {
        let placement = binding.spec.placement.as_ref();
        let terms = placement.map_or(0, |placement| placement.cluster_affinities.len());
        let extenders = match (&self.extenders, wanted.extenders) {
            (Some(extenders), Some(wanted)) => {
                if self.tasks.len() >= WAITING {
                    return RequestOutcome::Later("too many bindings wait for extenders");
                }
                if !extenders.may_call(&round.extenders, terms) {
                    return RequestOutcome::Later(
                        "the clusters change faster than extenders answer",
                    );
                }
                Some((extenders.clone(), wanted))
            }
            _ => None,
        };
        let estimates = match (&self.estimators, wanted.estimates) {
            (Some(estimators), Some(wanted)) if round.estimated < terms + SPARE_ROUNDS => {
                let ask = EstimateRequest::new(&binding.spec, wanted.unit).ok();
                ask.map(|ask| (estimators.client.clone(), ask, wanted))
            }
            _ => None,
        };
        if extenders.is_none() && estimates.is_none() {
            return RequestOutcome::Final(round);
        }
        let estimates = estimates.map(|(client, mut ask, wanted)| {
            for (cluster, work) in book.estimator_work(Instant::now()) {
                ask.assume(cluster, work);
            }
            (client, ask, wanted)
        });
        let asks_estimators = estimates.is_some();
        let pending = PendingRound {
            key: binding.key.clone(),
            estimates: asks_estimators,
        };
        let (binding, snapshot) = (Arc::clone(binding), Arc::clone(snapshot));
        let task = self.tasks.spawn(async move {
            let Round {
                generation,
                estimated,
                estimates: earlier,
                extenders: answers,
                began,
            } = round;
            let estimated_now = async {
                let (client, ask, wanted) = estimates?;
                let answers = client.estimate(&ask, wanted.clusters).await;
                if let Some(failures) = answers.failures() {
                    tracing::debug!(binding = %binding.key, failures, "decided without some estimators");
                }
                Some(answers)
            };
            let extended = async {
                match extenders {
                    Some((extenders, wanted)) => {
                        extenders
                            .call(wanted, Arc::clone(&binding), snapshot, answers)
                            .await
                    }
                    None => answers,
                }
            };
            let (fresh, extenders) = tokio::join!(estimated_now, extended);
            Round {
                generation,
                estimated: estimated + usize::from(asks_estimators),
                estimates: match fresh {
                    Some(fresh) => Arc::new(Arc::unwrap_or_clone(earlier).merge(fresh)),
                    None => earlier,
                },
                extenders,
                began,
            }
        });
        self.pending.insert(task.id(), pending);
        RequestOutcome::Requested
    }

    /// Waits for the next finished round. Pending forever if no round is pending.
    pub(super) async fn next(&mut self) -> Answered {
        loop {
            let (id, round) = match self.tasks.join_next_with_id().await {
                Some(Ok((id, round))) => (id, Some(round)),
                Some(Err(error)) => {
                    tracing::error!(%error, "estimator or extender task panicked");
                    (error.id(), None)
                }
                None => std::future::pending().await,
            };
            if let Some(PendingRound { key, .. }) = self.pending.remove(&id) {
                return Answered { key, round };
            }
        }
    }
}

#[cfg(test)]
mod tests;
