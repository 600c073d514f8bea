//! Decisions that need the members' accurate estimators: decide, ask, decide again.
//!
//! The owner never waits. A decision that would like to know more is thrown away, its key stays in
//! processing, and when the answers are there it is made again, on the newest state.

use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Owner;
use crate::assume::Assumptions;
use crate::binding::{Binding, BindingKey};
use crate::estimator::{Answers, Ask, Desk, EstimatorClient, EstimatorOptions, Wanted};
use crate::rate_limit::RateLimit;

/// How many decisions may wait for answers at the same time.
const ASKS_IN_FLIGHT: usize = 64;
/// Rounds beyond one for each affinity group; after them the last decision stands.
const SPARE_ROUNDS: usize = 2;

/// What has been asked for a decision so far.
#[derive(Debug)]
pub(super) struct Round {
    generation: i64,
    number: usize,
    pub(super) answers: Arc<Answers>,
    pub(super) began: Instant,
}

impl Round {
    /// Nothing has been asked yet.
    pub(super) fn first(binding: &Binding, began: Instant) -> Self {
        Self {
            generation: binding.generation(),
            number: 0,
            answers: Arc::default(),
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

/// The answers to one round.
#[derive(Debug)]
pub(super) struct Answered {
    key: BindingKey,
    round: Round,
}

/// The estimators, and the questions that are out.
#[derive(Debug)]
pub(super) struct Accurate {
    pub(super) desk: Desk,
    pub(super) client: EstimatorClient,
    pub(super) asks: JoinSet<Answered>,
}

impl Accurate {
    pub(super) fn new(
        client: Client,
        limit: Arc<RateLimit>,
        options: &EstimatorOptions,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            desk: Desk::new(),
            client: EstimatorClient::new(client, limit, options, cancel),
            asks: JoinSet::new(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.asks.len() < ASKS_IN_FLIGHT
    }

    /// Asks what a decision wanted to know. Gives the round back where nothing more may be asked: the
    /// decision stands then.
    pub(super) fn ask(
        &mut self,
        binding: &Binding,
        wanted: Wanted,
        round: Round,
        assumptions: Option<&Assumptions>,
    ) -> Result<(), Round> {
        let terms = binding
            .spec
            .placement
            .as_ref()
            .map_or(0, |placement| placement.cluster_affinities.len());
        if round.number >= terms + SPARE_ROUNDS {
            return Err(round);
        }
        let Ok(mut ask) = Ask::new(&binding.spec, wanted.unit) else {
            return Err(round);
        };
        if let Some(assumptions) = assumptions {
            for (cluster, work) in assumptions.works(Instant::now()) {
                ask.assume(cluster, work);
            }
        }
        let (client, key) = (self.client.clone(), binding.key.clone());
        self.asks.spawn(async move {
            let answers = client.estimate(&ask, wanted.clusters).await;
            if let Some(trouble) = answers.trouble() {
                tracing::debug!(binding = %key, trouble, "decided without some estimators");
            }
            let answers = Arc::unwrap_or_clone(round.answers).with(answers);
            let round = Round {
                number: round.number + 1,
                answers: Arc::new(answers),
                ..round
            };
            Answered { key, round }
        });
        Ok(())
    }
}

impl Owner {
    /// Answers have come: the decision is made again.
    pub(super) fn answered(&mut self, answered: Result<Answered, tokio::task::JoinError>) {
        match answered {
            Ok(Answered { key, round }) => self.cycle(&key, Instant::now(), Some(round)),
            Err(error) => tracing::error!(%error, "a question to the estimators ended abnormally"),
        }
    }
}
