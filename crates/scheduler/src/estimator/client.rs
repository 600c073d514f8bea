//! Asks the estimators of many clusters at once.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};

use super::answers::{Answer, Answers, Missing};
use super::ask::{Ask, Call};
use super::connections::Connections;
use super::link::{Line, LinkState};
use super::memory::Memory;
use super::metrics::EstimatorMetrics;
use super::options::EstimatorOptions;
use crate::rate_limit::RateLimit;

/// Calls under way at the same time, over all questions.
const CALLS_IN_FLIGHT: usize = 1024;

/// Asks the estimators of the fleet. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EstimatorClient(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connections: Connections,
    timeout: Duration,
    memory: Memory,
    metrics: EstimatorMetrics,
    calls: Semaphore,
}

impl EstimatorClient {
    /// A client without clusters; [`Self::follow`] adds them. Its connections end with the token.
    pub fn new(
        client: kube::Client,
        limit: Arc<RateLimit>,
        options: &EstimatorOptions,
        cancel: CancellationToken,
    ) -> Self {
        Self(Arc::new(Shared {
            connections: Connections::new(client, limit, options, cancel),
            timeout: options.timeout,
            memory: Memory::new(options.answers_max_age),
            metrics: EstimatorMetrics::default(),
            calls: Semaphore::new(CALLS_IN_FLIGHT),
        }))
    }

    /// The connections.
    pub fn connections(&self) -> &Connections {
        &self.0.connections
    }

    /// A cluster is there, new or changed. Returns at once.
    pub fn follow(&self, cluster: &berth_api::Cluster) {
        self.0.connections.follow(cluster);
    }

    /// A cluster is gone. Returns at once.
    pub fn forget(&self, cluster: &str) {
        self.0.connections.forget(cluster);
        self.0.memory.forget(cluster);
    }

    /// The numbers as Prometheus text.
    pub fn metrics_text(&self) -> String {
        self.0.metrics.text(self.0.connections.counts())
    }

    /// Asks all clusters at once, with one deadline for all. A cluster that fails changes nothing for the
    /// others. Dropping the future takes the calls back.
    pub async fn estimate(
        &self,
        ask: &Ask,
        clusters: impl IntoIterator<Item = Arc<str>>,
    ) -> Answers {
        let deadline = Instant::now() + self.0.timeout;
        let mut pending: FuturesUnordered<_> = clusters
            .into_iter()
            .map(|cluster| async move {
                let answer = self.0.answer(ask, &cluster, deadline).await;
                (cluster, answer)
            })
            .collect();
        let mut answers = Answers::new(ask.unit());
        while let Some((cluster, answer)) = pending.next().await {
            self.0.metrics.answer(&answer);
            answers.insert(cluster, answer);
        }
        answers
    }
}

impl Shared {
    async fn answer(&self, ask: &Ask, cluster: &Arc<str>, deadline: Instant) -> Answer {
        let question = ask.fingerprint();
        match self.ask(ask, cluster, deadline).await {
            Ok(value) => {
                let now = std::time::Instant::now();
                self.memory.remember(cluster, question, value, now);
                Answer::Fresh(value)
            }
            Err(reason) => {
                tracing::debug!(%cluster, %reason, "no answer of an estimator");
                let now = std::time::Instant::now();
                match self.memory.recall(cluster, question, now) {
                    Some((value, age)) => Answer::Stale { value, age, reason },
                    None => Answer::Missing(reason),
                }
            }
        }
    }

    async fn ask(&self, ask: &Ask, cluster: &Arc<str>, deadline: Instant) -> Result<i32, Missing> {
        let failed = |status: &Status| Missing::Call {
            cluster: cluster.clone(),
            method: ask.method(),
            code: status.code(),
            message: status.message().to_owned(),
        };
        let line = self.line(cluster, deadline).await?;
        let call = async {
            // The semaphore is never closed.
            let _turn = self.calls.acquire().await;
            let began = Instant::now();
            let answer = send(&line, ask, cluster, deadline).await;
            self.metrics.call(began.elapsed());
            answer
        };
        let answer = tokio::time::timeout_at(deadline, call).await;
        match answer {
            Ok(Ok(value)) => {
                line.answered();
                // Karmada writes -1 where nothing is known.
                let value = u32::try_from(value).ok().map(|_| value);
                value.ok_or_else(|| Missing::NoOpinion {
                    cluster: cluster.clone(),
                })
            }
            Ok(Err(status)) => {
                if status.code() == Code::DeadlineExceeded {
                    line.silent();
                } else {
                    line.answered();
                }
                Err(failed(&status))
            }
            Err(_) => {
                line.silent();
                Err(failed(&Status::deadline_exceeded(
                    "context deadline exceeded",
                )))
            }
        }
    }

    /// The connection of a cluster. The first attempt to connect is waited for.
    async fn line(&self, cluster: &Arc<str>, deadline: Instant) -> Result<Line, Missing> {
        let none = |reason| Missing::NoConnection {
            cluster: cluster.clone(),
            reason,
        };
        let mut state = self.connections.state(cluster).ok_or_else(|| none(None))?;
        let tried = state.wait_for(|state| !matches!(state, LinkState::Trying));
        match tokio::time::timeout_at(deadline, tried).await {
            Ok(Ok(state)) => match &*state {
                LinkState::Up(line) => Ok(line.clone()),
                LinkState::Down(reason) => Err(none(Some(reason.clone()))),
                LinkState::Trying => Err(none(None)),
            },
            // It was forgotten meanwhile.
            Ok(Err(_)) => Err(none(None)),
            Err(_) => Err(none(Some("still connecting".into()))),
        }
    }
}

async fn send(line: &Line, ask: &Ask, cluster: &str, deadline: Instant) -> Result<i32, Status> {
    let mut client = line.client.clone();
    match ask.call(cluster) {
        Call::Replicas(message) => {
            let request = dressed(message, ask, deadline);
            let response = client.max_available_replicas(request).await?;
            Ok(response.into_inner().max_replicas)
        }
        Call::ComponentSets(message) => {
            let request = dressed(message, ask, deadline);
            let response = client.max_available_component_sets(request).await?;
            Ok(response.into_inner().max_sets)
        }
    }
}

/// A request that tells the server about whom it is and how long there is to answer.
fn dressed<T>(message: T, ask: &Ask, deadline: Instant) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(object) = ask.object() {
        request.metadata_mut().insert("object", object.clone());
    }
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    request
}
