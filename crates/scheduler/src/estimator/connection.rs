//! The connection to the estimator of one cluster. A task opens the connection, and opens it again after it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use berth_apimachinery::repeated_failure::{FailureEnd, RepeatedFailure};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::open_connection::{self, Client, Driver, OpenError};
use super::options::Tls;
use super::resolve::{ResolveError, Resolver};

/// The delay before the first reconnect. Each further failure doubles the delay.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// The maximum delay before a reconnect.
const MAX_DELAY: Duration = Duration::from_mins(1);
/// A connection that stays open for this time resets the delay.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Maximum number of concurrent attempts to connect.
const MAX_ATTEMPTS: usize = 64;
/// Number of timeouts in a row after which a connection is replaced. The server may have disappeared without closing
/// the connection.
const MAX_TIMEOUTS: u32 = 3;

/// The state of a connection.
#[derive(Clone)]
pub(super) enum ConnectionState {
    /// The first attempt is in progress.
    Connecting,
    /// Connected.
    Up(ActiveConnection),
    /// Not connected, with the reason.
    Down(Arc<str>),
}

/// An open connection.
#[derive(Clone)]
pub(super) struct ActiveConnection {
    pub(super) client: Client,
    timeouts: Arc<AtomicU32>,
    broken: CancellationToken,
}

impl ActiveConnection {
    fn new(client: Client) -> Self {
        Self {
            client,
            timeouts: Arc::default(),
            broken: CancellationToken::new(),
        }
    }

    /// Records a response with any status.
    pub(super) fn responded(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
    }

    /// Records a timeout of a call. After [`MAX_TIMEOUTS`] timeouts in a row, ends the connection.
    pub(super) fn timed_out(&self) {
        if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_TIMEOUTS {
            self.broken.cancel();
        }
    }
}

/// A connector that resolves the addresses of estimators and opens connections.
pub(super) struct Connector {
    resolver: Resolver,
    tls: Tls,
    attempts: Semaphore,
}

#[derive(Debug, thiserror::Error)]
enum ConnectorError {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl ConnectorError {
    /// Reports whether the cluster has no estimator.
    fn is_without_estimator(&self) -> bool {
        matches!(self, Self::Resolve(ResolveError::NoService { .. }))
    }
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: Tls) -> Self {
        Self {
            resolver,
            tls,
            attempts: Semaphore::new(MAX_ATTEMPTS),
        }
    }

    async fn open(&self, cluster: &str) -> Result<(Client, Driver), ConnectorError> {
        let addresses = self.resolver.addresses(cluster).await?;
        // This cannot fail, because the semaphore is never closed.
        let _permit = self.attempts.acquire().await;
        Ok(open_connection::to_first(&addresses, &self.tls).await?)
    }
}

/// The connection to the estimator of one cluster. Dropping this value closes the connection.
pub(super) struct Connection {
    pub(super) state: watch::Receiver<ConnectionState>,
    _closes: DropGuard,
}

impl Connection {
    pub(super) fn start(
        cluster: &Arc<str>,
        connector: Arc<Connector>,
        cancel: &CancellationToken,
    ) -> Self {
        let (sender, state) = watch::channel(ConnectionState::Connecting);
        let cancel = cancel.child_token();
        let keep_open = keep_open(cluster.clone(), connector, sender);
        let closed = cancel.clone().cancelled_owned();
        tokio::spawn(async move {
            // The cancellation comes first: the end of the program also ends the tasks that `keep_open` waits for, and
            // their errors are no failures of the estimator.
            tokio::select! {
                biased;
                () = closed => {}
                () = keep_open => {}
            }
        });
        Self {
            state,
            _closes: cancel.drop_guard(),
        }
    }
}

/// Connects to the estimator of a cluster, and reconnects whenever the connection breaks. Never returns.
async fn keep_open(
    cluster: Arc<str>,
    connector: Arc<Connector>,
    state: watch::Sender<ConnectionState>,
) {
    let mut delay = FIRST_DELAY;
    let mut failure = RepeatedFailure::default();
    loop {
        let reason: Arc<str> = match connector.open(&cluster).await {
            Ok((client, driver)) => {
                tracing::debug!(%cluster, "connected to the estimator");
                let (began, active) = (Instant::now(), ActiveConnection::new(client));
                let broken = active.broken.clone();
                state.send_replace(ConnectionState::Up(active));
                let ends = async {
                    tokio::select! {
                        ended = driver => match ended {
                            Ok(()) => "connection closed".to_owned(),
                            Err(error) => format!("connection lost: {error}"),
                        },
                        () = broken.cancelled() => format!("connection dropped after {MAX_TIMEOUTS} timeouts"),
                    }
                };
                tokio::pin!(ends);
                // The failure of a connection that flaps has not ended.
                let early = tokio::time::timeout(STABLE_AFTER, &mut ends).await;
                let reason = if let Ok(reason) = early {
                    reason
                } else {
                    log_stable(&cluster, failure.ended(Instant::now()));
                    ends.await
                };
                if began.elapsed() >= STABLE_AFTER {
                    delay = FIRST_DELAY;
                }
                reason.into()
            }
            Err(error) if error.is_without_estimator() => {
                tracing::debug!(%cluster, %error, "the cluster has no estimator");
                state.send_replace(ConnectionState::Down(error.to_string().into()));
                tokio::time::sleep(with_jitter(delay, &cluster)).await;
                delay = (delay * 2).min(MAX_DELAY);
                continue;
            }
            Err(error) => error.to_string().into(),
        };
        if let Some(line) = failure.failed(&reason, Instant::now()) {
            let repeated = line.repeated;
            tracing::warn!(
                %cluster,
                %reason,
                repeated,
                "no connection to the estimator; trying again: check its Service and its pods"
            );
        } else {
            tracing::debug!(%cluster, %reason, "still no connection to the estimator");
        }
        state.send_replace(ConnectionState::Down(reason));
        tokio::time::sleep(with_jitter(delay, &cluster)).await;
        delay = (delay * 2).min(MAX_DELAY);
    }
}

/// Logs that a connection is stable.
fn log_stable(cluster: &str, end: Option<FailureEnd>) {
    match end {
        None => tracing::info!(cluster, "connected to the estimator"),
        Some(end) => {
            let failures = end.failures;
            tracing::info!(
                cluster,
                failures,
                "connected to the estimator again after {}",
                end.lasted
            );
        }
    }
}

/// Extends a delay by up to a quarter. The extension depends on the name of the cluster, so that the connections to
/// different clusters are opened at different times.
fn with_jitter(delay: Duration, cluster: &str) -> Duration {
    let sum = cluster.bytes().fold(0_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    delay + delay * (sum % 64) / 256
}
