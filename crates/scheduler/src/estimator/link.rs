//! The connection to one cluster's estimator, made again whenever it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::dial::{self, Client, DialError, Driver};
use super::options::Tls;
use super::resolve::{ResolveError, Resolver};

/// The first pause before a connection is tried again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A connection that lived as long was a good one: the pauses start anew after it.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// Addresses tried at the same time.
const DIALS: usize = 64;
/// A connection on which as many answers in a row did not come in time is made anew: its other end may be
/// gone without a word.
const SILENCES: u32 = 3;

/// What there is of a connection.
#[derive(Clone)]
pub(super) enum LinkState {
    /// It is tried for the first time.
    Trying,
    /// It is there.
    Up(Line),
    /// It is not there, for this reason.
    Down(Arc<str>),
}

/// A connection that is up.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) client: Client,
    silences: Arc<AtomicU32>,
    broken: CancellationToken,
}

impl Line {
    fn new(client: Client) -> Self {
        Self {
            client,
            silences: Arc::default(),
            broken: CancellationToken::new(),
        }
    }

    /// An answer came, whatever it said.
    pub(super) fn answered(&self) {
        self.silences.store(0, Ordering::Relaxed);
    }

    /// An answer did not come in time.
    pub(super) fn silent(&self) {
        if self.silences.fetch_add(1, Ordering::Relaxed) + 1 >= SILENCES {
            self.broken.cancel();
        }
    }
}

/// Makes connections.
pub(super) struct Maker {
    resolver: Resolver,
    tls: Tls,
    dials: Semaphore,
}

#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Dial(#[from] DialError),
}

impl Maker {
    pub(super) fn new(resolver: Resolver, tls: Tls) -> Self {
        Self {
            resolver,
            tls,
            dials: Semaphore::new(DIALS),
        }
    }

    async fn connect(&self, cluster: &str) -> Result<(Client, Driver), LinkError> {
        let addresses = self.resolver.addresses(cluster).await?;
        // The semaphore is never closed.
        let _turn = self.dials.acquire().await;
        Ok(dial::dial(&addresses, &self.tls).await?)
    }
}

/// The connection to one cluster. It is closed when this is dropped.
pub(super) struct Link {
    pub(super) state: watch::Receiver<LinkState>,
    _end: DropGuard,
}

impl Link {
    pub(super) fn start(cluster: &Arc<str>, maker: Arc<Maker>, cancel: &CancellationToken) -> Self {
        let (sender, state) = watch::channel(LinkState::Trying);
        let cancel = cancel.child_token();
        let keep = keep_up(cluster.clone(), maker, sender);
        tokio::spawn(cancel.clone().run_until_cancelled_owned(keep));
        Self {
            state,
            _end: cancel.drop_guard(),
        }
    }
}

/// Connects, again and again, for ever.
async fn keep_up(cluster: Arc<str>, maker: Arc<Maker>, state: watch::Sender<LinkState>) {
    let mut pause = FIRST_PAUSE;
    let mut known: Arc<str> = "".into();
    loop {
        let reason: Arc<str> = match maker.connect(&cluster).await {
            Ok((client, driver)) => {
                tracing::info!(%cluster, "connected to the estimator");
                let (began, line) = (Instant::now(), Line::new(client));
                let broken = line.broken.clone();
                state.send_replace(LinkState::Up(line));
                let reason = tokio::select! {
                    ended = driver => match ended {
                        Ok(()) => "connection closed".to_owned(),
                        Err(error) => format!("connection lost: {error}"),
                    },
                    () = broken.cancelled() => "connection given up: nothing comes back".to_owned(),
                };
                if began.elapsed() >= GOOD_LIFE {
                    pause = FIRST_PAUSE;
                }
                reason.into()
            }
            Err(error) => error.to_string().into(),
        };
        // The same reason again and again is no news.
        if known == reason {
            tracing::debug!(%cluster, %reason, "still no connection to the estimator");
        } else {
            tracing::warn!(%cluster, %reason, "no connection to the estimator; trying again");
        }
        known = reason.clone();
        state.send_replace(LinkState::Down(reason));
        tokio::time::sleep(spread(pause, &cluster)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The pause, up to a quarter longer, by name: so that many clusters do not come back all at once.
fn spread(pause: Duration, cluster: &str) -> Duration {
    let sum = cluster.bytes().fold(0_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    pause + pause * (sum % 64) / 256
}
