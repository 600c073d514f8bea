//! Decisions that need answers: the estimates of member estimators, and the responses of extenders. The scheduler
//! decides, requests missing answers, and decides again.
//!
//! The scheduler never waits for an answer. It discards a decision that lacks answers and keeps the key of the binding
//! in processing. When the answers arrive, the scheduler decides again on the current state. A round requests all
//! missing answers of one decision from estimators and extenders concurrently.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey};
use berth_engine::{Assumed, Estimator, Request, Snapshot};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::capacity_book::CapacityBook;
use crate::estimator::{self, AnswerCache, EstimateRequest, EstimatorClient, EstimatorOptions};
use crate::extender::{self, Extenders};
use crate::recorded_decision::Inputs;
use crate::writer::Writer;

/// Maximum number of decisions that wait for estimates.
const ESTIMATES_IN_FLIGHT: usize = 64;
/// Maximum number of decisions that wait for answers. At this limit, a binding that needs an extender is retried later,
/// so that slow extenders do not delay bindings that need no extender.
const MAX_WAITING: usize = 256;
/// Maximum number of rounds with estimates, in addition to one round per affinity term. The decision after the last
/// round is final.
const SPARE_ROUNDS: usize = 2;

/// A round, with the answers that the decision has received so far.
#[derive(Debug)]
pub(super) struct Round {
    generation: i64,
    /// Number of earlier rounds that requested estimates.
    rounds_with_estimates: usize,
    estimates: Arc<estimator::Answers>,
    extenders: extender::Answers,
    pub(super) began: Instant,
}

impl Round {
    /// Creates a round without answers.
    pub(super) fn first(binding: &Binding, began: Instant) -> Self {
        Self {
            generation: binding.generation(),
            rounds_with_estimates: 0,
            estimates: Arc::default(),
            extenders: extender::Answers::default(),
            began,
        }
    }

    /// Creates a round with the answers of a recorded decision.
    pub(super) fn recorded(binding: &Binding, inputs: &Inputs) -> Self {
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
        snapshot: Arc<Snapshot>,
        assumed: Arc<Assumed>,
    ) -> Inputs {
        Inputs {
            request,
            snapshot,
            assumed,
            extender_calls: self.extenders.calls(),
            estimates: self.estimates,
            extenders: self.extenders,
        }
    }

    /// Returns this round. Removes the answers if they belong to another generation of the binding.
    pub(super) fn for_generation_of(self, binding: &Binding) -> Self {
        if self.generation == binding.generation() {
            self
        } else {
            Self::first(binding, self.began)
        }
    }
}

/// The missing answers of a decision.
#[derive(Debug)]
pub(super) struct MissingAnswers {
    estimates: Option<estimator::Unanswered>,
    extenders: Option<extender::Unanswered>,
}

/// A finished round of one binding.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) key: BindingKey,
    /// The received answers, or `None` if the task panicked. After a panic, the binding is retried.
    pub(super) round: Option<Round>,
}

/// A pending round of one binding.
#[derive(Debug)]
struct PendingRound {
    key: BindingKey,
    calls_estimators: bool,
}

/// Next step for a decision with missing answers.
#[derive(Debug)]
pub(super) enum RequestOutcome {
    /// The decision is repeated when the answers arrive.
    Requested,
    /// The scheduler requests no further answers, so the decision is final.
    Final(Round),
    /// The binding is retried later, for this reason.
    Later(&'static str),
}

/// The client of the members' accurate estimators, and the cache of their answers.
#[derive(Debug)]
pub(crate) struct EstimatorHandle {
    cache: AnswerCache,
    pub(crate) client: EstimatorClient,
}

impl EstimatorHandle {
    /// Creates a client with these options and an empty cache.
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

/// The estimators, and the pending rounds. The extenders are part of the configuration.
#[derive(Debug, Default)]
pub(super) struct ExternalAnswers {
    pub(super) estimators: Option<EstimatorHandle>,
    tasks: JoinSet<Round>,
    pending: HashMap<Id, PendingRound>,
}

impl ExternalAnswers {
    /// Creates the state without pending rounds.
    pub(super) fn new(estimators: Option<EstimatorHandle>) -> Self {
        Self {
            estimators,
            ..Self::default()
        }
    }

    /// Reports whether another decision may wait for estimates.
    pub(super) fn has_capacity(&self) -> bool {
        self.estimators.is_none()
            || self
                .pending
                .values()
                .filter(|round| round.calls_estimators)
                .count()
                < ESTIMATES_IN_FLIGHT
    }

    /// Makes a decision, including PostFilter, with the answers of a round. Also returns the missing answers. A
    /// decision with missing answers is provisional.
    pub(super) fn decide<T>(
        &self,
        extenders: Option<&Extenders>,
        mut round: Round,
        decision: impl FnOnce() -> T,
    ) -> (T, Round, Option<MissingAnswers>) {
        let estimates = Arc::clone(&round.estimates);
        let decision = || match &self.estimators {
            None => (decision(), None),
            Some(estimators) => estimators.cache.decide(estimates, decision),
        };
        let Some(extenders) = extenders else {
            let (decided, estimates) = decision();
            let missing = estimates.map(|estimates| MissingAnswers {
                estimates: Some(estimates),
                extenders: None,
            });
            return (decided, round, missing);
        };
        let answers = std::mem::take(&mut round.extenders);
        let ((decided, estimates), answers, extenders) = extenders.decide(answers, decision);
        round.extenders = answers;
        let missing = (estimates.is_some() || extenders.is_some()).then_some(MissingAnswers {
            estimates,
            extenders,
        });
        (decided, round, missing)
    }

    /// Starts a task that requests the missing answers of a decision.
    pub(super) fn request(
        &mut self,
        extenders: Option<&Extenders>,
        binding: &Arc<Binding>,
        snapshot: &Arc<Snapshot>,
        missing: MissingAnswers,
        round: Round,
        book: &CapacityBook,
    ) -> RequestOutcome {
        let placement = binding.spec.placement.as_ref();
        let terms = placement.map_or(0, |placement| placement.cluster_affinities.len());
        let extenders = match (extenders, missing.extenders) {
            (Some(extenders), Some(missing)) => {
                if self.tasks.len() >= MAX_WAITING {
                    return RequestOutcome::Later("too many bindings wait for extenders");
                }
                if !extenders.may_call(&round.extenders, terms) {
                    return RequestOutcome::Later(
                        "the clusters change faster than extenders answer",
                    );
                }
                Some((extenders.clone(), missing))
            }
            _ => None,
        };
        let estimates = match (&self.estimators, missing.estimates) {
            (Some(estimators), Some(missing))
                if round.rounds_with_estimates < terms + SPARE_ROUNDS =>
            {
                let request = EstimateRequest::new(&binding.spec, missing.unit).ok();
                request.map(|request| (estimators.client.clone(), request, missing))
            }
            _ => None,
        };
        if extenders.is_none() && estimates.is_none() {
            return RequestOutcome::Final(round);
        }
        let estimates = estimates.map(|(client, mut request, missing)| {
            for (cluster, work) in book.estimator_work(Instant::now()) {
                request.assume(cluster, work);
            }
            (client, request, missing)
        });
        let calls_estimators = estimates.is_some();
        let pending = PendingRound {
            key: binding.key.clone(),
            calls_estimators,
        };
        let (binding, snapshot) = (Arc::clone(binding), Arc::clone(snapshot));
        let task = self.tasks.spawn(async move {
            let Round {
                generation,
                rounds_with_estimates,
                estimates: earlier,
                extenders: answers,
                began,
            } = round;
            let new_estimates = async {
                let (client, request, missing) = estimates?;
                let answers = client.estimate(&request, missing.clusters).await;
                if let Some(failures) = answers.failures() {
                    tracing::debug!(binding = %binding.key, failures, "decided without some estimators");
                }
                Some(answers)
            };
            let new_responses = async {
                match extenders {
                    Some((extenders, missing)) => {
                        extenders
                            .call(missing, Arc::clone(&binding), snapshot, answers)
                            .await
                    }
                    None => answers,
                }
            };
            let (fresh, extenders) = tokio::join!(new_estimates, new_responses);
            Round {
                generation,
                rounds_with_estimates: rounds_with_estimates + usize::from(calls_estimators),
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

    /// Waits for the next finished round. Never returns while no round is pending.
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
