//! A client that calls the estimators of many clusters at the same time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};

use super::answers::{Answer, Answers, NoAnswer};
use super::connection::{ActiveConnection, ConnectionState};
use super::connection_pool::ConnectionPool;
use super::last_known::LastKnown;
use super::metrics::EstimatorMetrics;
use super::options::EstimatorOptions;
use super::request::{EstimateRequest, Message};
use berth_component_base::kube_client::RateLimit;
use berth_metrics::Registry;

/// Maximum number of concurrent calls of all requests.
const CALLS_IN_FLIGHT: usize = 1024;

/// A client of the estimators of all clusters. Clones are cheap.
#[derive(Clone, Debug)]
pub struct EstimatorClient(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connections: ConnectionPool,
    timeout: Duration,
    last_known: LastKnown,
    metrics: EstimatorMetrics,
    calls: Semaphore,
}

impl EstimatorClient {
    /// Returns a client without clusters. [`Self::apply`] adds a cluster. All connections end when the token is
    /// cancelled.
    pub fn new(
        client: kube::Client,
        limit: Arc<RateLimit>,
        options: &EstimatorOptions,
        cancel: CancellationToken,
    ) -> Self {
        Self(Arc::new(Shared {
            connections: ConnectionPool::new(client, limit, options, cancel),
            timeout: options.timeout,
            last_known: LastKnown::new(options.answers_max_age),
            metrics: EstimatorMetrics::default(),
            calls: Semaphore::new(CALLS_IN_FLIGHT),
        }))
    }

    /// Returns the connections.
    pub fn connections(&self) -> &ConnectionPool {
        &self.0.connections
    }

    /// Adds or updates a cluster. A background task connects to the estimator of the cluster.
    pub fn apply(&self, cluster: &berth_api::Cluster) {
        self.0.connections.apply(cluster);
    }

    /// Removes a cluster, its connection and its last answers.
    pub fn remove(&self, cluster: &str) {
        self.0.connections.remove(cluster);
        self.0.last_known.remove_cluster(cluster);
    }

    /// Registers the metrics.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let connections = self.0.connections.counts();
        self.0.metrics.register(registry, connections);
    }

    /// Calls the estimators of these clusters at the same time, with one deadline. A failed call does not affect the
    /// other calls. Dropping the future cancels the calls.
    pub async fn estimate(
        &self,
        request: &EstimateRequest,
        clusters: impl IntoIterator<Item = Arc<str>>,
    ) -> Answers {
        let deadline = Instant::now() + self.0.timeout;
        let mut pending: FuturesUnordered<_> = clusters
            .into_iter()
            .map(|cluster| async move {
                let answer = self.0.answer(request, &cluster, deadline).await;
                (cluster, answer)
            })
            .collect();
        let mut answers = Answers::new(request.unit());
        while let Some((cluster, answer)) = pending.next().await {
            self.0.metrics.answer(&answer);
            answers.insert(cluster, answer);
        }
        answers
    }
}

impl Shared {
    async fn answer(
        &self,
        request: &EstimateRequest,
        cluster: &Arc<str>,
        deadline: Instant,
    ) -> Answer {
        let fingerprint = request.fingerprint();
        match self.call(request, cluster, deadline).await {
            Ok(value) => {
                let now = std::time::Instant::now();
                self.last_known.record(cluster, fingerprint, value, now);
                Answer::Fresh(value)
            }
            Err(reason) => {
                tracing::debug!(%cluster, %reason, "no answer from an estimator");
                let now = std::time::Instant::now();
                match self.last_known.get(cluster, fingerprint, now) {
                    Some((value, age)) => Answer::Stale { value, age, reason },
                    None => Answer::Missing(reason),
                }
            }
        }
    }

    async fn call(
        &self,
        request: &EstimateRequest,
        cluster: &Arc<str>,
        deadline: Instant,
    ) -> Result<i32, NoAnswer> {
        let failed = |status: &Status| NoAnswer::Call {
            cluster: cluster.clone(),
            method: request.method(),
            code: status.code(),
            message: status.message().to_owned(),
        };
        let connection = self.connection(cluster, deadline).await?;
        let call = async {
            // This cannot fail, because the semaphore is never closed.
            let _permit = self.calls.acquire().await;
            let began = Instant::now();
            let answer = send(&connection, request, cluster, deadline).await;
            self.metrics.call(began.elapsed());
            answer
        };
        let answer = tokio::time::timeout_at(deadline, call).await;
        match answer {
            Ok(Ok(value)) => {
                connection.responded();
                if value < 0 {
                    return Err(NoAnswer::NoEstimate {
                        cluster: cluster.clone(),
                    });
                }
                Ok(value)
            }
            Ok(Err(status)) => {
                if status.code() == Code::DeadlineExceeded {
                    connection.timed_out();
                } else {
                    connection.responded();
                }
                Err(failed(&status))
            }
            Err(_) => {
                connection.timed_out();
                Err(failed(&Status::deadline_exceeded(
                    "context deadline exceeded",
                )))
            }
        }
    }

    /// Returns the connection to the estimator of a cluster. Waits until the first attempt to connect has ended.
    async fn connection(
        &self,
        cluster: &Arc<str>,
        deadline: Instant,
    ) -> Result<ActiveConnection, NoAnswer> {
        let none = |reason| NoAnswer::NoConnection {
            cluster: cluster.clone(),
            reason,
        };
        let mut state = self.connections.state(cluster).ok_or_else(|| none(None))?;
        let attempted = state.wait_for(|state| !matches!(state, ConnectionState::Connecting));
        match tokio::time::timeout_at(deadline, attempted).await {
            Ok(Ok(state)) => match &*state {
                ConnectionState::Up(connection) => Ok(connection.clone()),
                ConnectionState::Down(reason) => Err(none(Some(reason.clone()))),
                ConnectionState::Connecting => Err(none(None)),
            },
            // The cluster was removed meanwhile.
            Ok(Err(_)) => Err(none(None)),
            Err(_) => Err(none(Some("still connecting".into()))),
        }
    }
}

async fn send(
    connection: &ActiveConnection,
    request: &EstimateRequest,
    cluster: &str,
    deadline: Instant,
) -> Result<i32, Status> {
    let mut client = connection.client.clone();
    match request.message(cluster) {
        Message::Replicas(message) => {
            let request = with_metadata(message, request, deadline);
            let response = client.max_available_replicas(request).await?;
            Ok(response.into_inner().max_replicas)
        }
        Message::ComponentSets(message) => {
            let request = with_metadata(message, request, deadline);
            let response = client.max_available_component_sets(request).await?;
            Ok(response.into_inner().max_sets)
        }
    }
}

/// Creates a gRPC request whose metadata contains the name of the object and the time until the deadline.
fn with_metadata<T>(message: T, request: &EstimateRequest, deadline: Instant) -> Request<T> {
    let mut grpc_request = Request::new(message);
    if let Some(object) = request.object() {
        grpc_request.metadata_mut().insert("object", object.clone());
    }
    grpc_request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    grpc_request
}
