//! Decisions that need answers from outside, of the members' estimators and of extenders: decide, ask, decide
//! again.
//!
//! The owner never waits. A decision that would like to know more is thrown away, its key stays in
//! processing, and when the answers are there it is made again, on the newest state. Where it has questions of
//! both kinds, both are out at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use berth_core::{Estimator, Snapshot};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::assume::Assumptions;
use crate::binding::{Binding, BindingKey};
use crate::estimator::{self, AnswerCache, EstimateRequest, EstimatorClient, EstimatorOptions};
use crate::extender::{self, Extenders};
use crate::writer::Writer;

/// How many decisions may wait for estimates at the same time.
const ESTIMATES_IN_FLIGHT: usize = 64;
/// How many decisions may wait for answers of any kind. Further ones that need an extender come again later,
/// so that bindings that need none are not held up by extenders that are slow.
const WAITING: usize = 256;
/// Rounds of estimates beyond one for each affinity group; after them the last decision stands.
const SPARE_ROUNDS: usize = 2;

/// What has been asked for a decision so far.
#[derive(Debug)]
pub(super) struct Round {
    generation: i64,
    estimated: usize,
    estimates: Arc<estimator::Answers>,
    extenders: extender::Answers,
    pub(super) began: Instant,
}

impl Round {
    /// Nothing has been asked yet.
    pub(super) fn first(binding: &Binding, began: Instant) -> Self {
        Self {
            generation: binding.generation(),
            estimated: 0,
            estimates: Arc::default(),
            extenders: extender::Answers::default(),
            began,
        }
    }

    /// What was asked for an older generation does not count.
    pub(super) fn for_now(self, binding: &Binding) -> Self {
        if self.generation == binding.generation() {
            self
        } else {
            Self::first(binding, self.began)
        }
    }
}

/// What a decision wanted to know and nobody was asked yet.
#[derive(Debug)]
pub(super) struct Wanted {
    estimates: Option<estimator::Unanswered>,
    extenders: Option<extender::Unanswered>,
}

/// The answers to one round.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) key: BindingKey,
    /// None where asking ended abnormally: the binding is to be tried again.
    pub(super) round: Option<Round>,
}

/// A question that is out.
#[derive(Debug)]
struct Out {
    key: BindingKey,
    estimates: bool,
}

/// What becomes of a decision that wanted to know more.
#[derive(Debug)]
pub(super) enum Asking {
    /// It is made again when the answers are there.
    Asked,
    /// Nothing more may be asked: it stands.
    Stands,
    /// It cannot be made now: the binding is to be tried again, for this reason.
    Later(&'static str),
}

/// The estimators of the members.
#[derive(Debug)]
pub(crate) struct Accurate {
    cache: AnswerCache,
    pub(crate) client: EstimatorClient,
}

impl Accurate {
    /// They are asked as the flags say.
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

    /// The engine's side.
    pub(crate) fn estimator(&self) -> Arc<dyn Estimator> {
        Arc::new(self.cache.estimator())
    }
}

/// Who is asked, and the questions that are out.
#[derive(Debug, Default)]
pub(super) struct Questions {
    pub(super) accurate: Option<Accurate>,
    /// Those of the configuration at hand. Answers of earlier ones do not count.
    pub(super) extenders: Option<Extenders>,
    asks: JoinSet<Round>,
    out: HashMap<Id, Out>,
}

impl Questions {
    /// Nobody has been asked yet.
    pub(super) fn new(accurate: Option<Accurate>, extenders: Option<Extenders>) -> Self {
        Self {
            accurate,
            extenders,
            ..Self::default()
        }
    }

    /// Whether one more decision may wait for estimates.
    pub(super) fn has_room(&self) -> bool {
        self.accurate.is_none()
            || self.out.values().filter(|out| out.estimates).count() < ESTIMATES_IN_FLIGHT
    }

    /// Makes a decision, PostFilter included, with the answers there are. What it wanted to know besides
    /// comes with it; where that is something, the decision is provisional.
    pub(super) fn decide<T>(
        &self,
        mut round: Round,
        decision: impl FnOnce() -> T,
    ) -> (T, Round, Option<Wanted>) {
        let estimates = Arc::clone(&round.estimates);
        let decision = || match &self.accurate {
            None => (decision(), None),
            Some(accurate) => accurate.cache.decide(estimates, decision),
        };
        let Some(extenders) = &self.extenders else {
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

    /// Asks what a decision wanted to know.
    pub(super) fn ask(
        &mut self,
        binding: &Arc<Binding>,
        snapshot: &Arc<Snapshot>,
        wanted: Wanted,
        round: Round,
        assumptions: Option<&Assumptions>,
    ) -> Asking {
        let placement = binding.spec.placement.as_ref();
        let terms = placement.map_or(0, |placement| placement.cluster_affinities.len());
        let extenders = match (&self.extenders, wanted.extenders) {
            (Some(extenders), Some(wanted)) => {
                if self.asks.len() >= WAITING {
                    return Asking::Later("too many bindings wait for extenders");
                }
                if !extenders.may_call(&round.extenders, terms) {
                    return Asking::Later("the fleet changes faster than extenders answer");
                }
                Some((extenders.clone(), wanted))
            }
            _ => None,
        };
        let estimates = match (&self.accurate, wanted.estimates) {
            (Some(accurate), Some(wanted)) if round.estimated < terms + SPARE_ROUNDS => {
                let ask = EstimateRequest::new(&binding.spec, wanted.unit).ok();
                ask.map(|ask| (accurate.client.clone(), ask, wanted))
            }
            _ => None,
        };
        if extenders.is_none() && estimates.is_none() {
            return Asking::Stands;
        }
        let estimates = estimates.map(|(client, mut ask, wanted)| {
            let works = assumptions.map(|assumptions| assumptions.works(Instant::now()));
            for (cluster, work) in works.into_iter().flatten() {
                ask.assume(cluster, work);
            }
            (client, ask, wanted)
        });
        let asks_estimators = estimates.is_some();
        let out = Out {
            key: binding.key.clone(),
            estimates: asks_estimators,
        };
        let (binding, snapshot) = (Arc::clone(binding), Arc::clone(snapshot));
        let task = self.asks.spawn(async move {
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
                        extenders.call(wanted, Arc::clone(&binding), snapshot, answers).await
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
        self.out.insert(task.id(), out);
        Asking::Asked
    }

    /// The next answers; never, where nobody is asked.
    pub(super) async fn next(&mut self) -> Answered {
        loop {
            let (id, round) = match self.asks.join_next_with_id().await {
                Some(Ok((id, round))) => (id, Some(round)),
                Some(Err(error)) => {
                    tracing::error!(%error, "a question ended abnormally");
                    (error.id(), None)
                }
                None => std::future::pending().await,
            };
            if let Some(Out { key, .. }) = self.out.remove(&id) {
                return Answered { key, round };
            }
        }
    }
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
