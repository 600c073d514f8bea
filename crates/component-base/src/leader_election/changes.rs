//! A watch of a Lease. A standby uses the watch to notice changes of the Lease early. If the watch fails, the standby
//! still reads the Lease periodically.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, WatchEvent, WatchParams};
use tokio::time::Instant;

/// Pause after a failed watch. A retry may fail again, because the permission to watch may be missing.
const HOLD_OFF: Duration = Duration::from_secs(10);
/// A watch that ends sooner has failed.
const SHORTEST: Duration = Duration::from_secs(1);

/// A watch of one Lease, which is restarted after errors.
pub(super) struct Changes {
    api: Api<Lease>,
    parameters: WatchParams,
    state: State,
}

type Events = BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>;

enum State {
    Idle,
    Beginning(BoxFuture<'static, Result<Events, kube::Error>>),
    /// The watch has been running since this time.
    Watching(Events, Instant),
    /// The watch is not restarted before this time.
    Failed(Instant),
}

impl Changes {
    pub(super) fn of(api: Api<Lease>, name: &str) -> Self {
        Self {
            api,
            parameters: WatchParams::default().fields(&format!("metadata.name={name}")),
            state: State::Idle,
        }
    }

    /// Reports whether the watch is running.
    pub(super) fn are_watched(&self) -> bool {
        matches!(self.state, State::Watching(..))
    }

    /// Waits for the next event of the watch. Returns the Lease, or `None` if the Lease was deleted. If the watch has
    /// failed, this function waits until the caller cancels the call. This function is cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Lease> {
        loop {
            match &mut self.state {
                State::Failed(until) if Instant::now() < *until => std::future::pending().await,
                State::Idle | State::Failed(_) => {
                    let (api, parameters) = (self.api.clone(), self.parameters.clone());
                    // With the resource version 0, the first event contains the current Lease.
                    let begin = async move { Ok(api.watch(&parameters, "0").await?.boxed()) };
                    self.state = State::Beginning(begin.boxed());
                }
                State::Beginning(begun) => match begun.await {
                    Ok(changes) => self.state = State::Watching(changes, Instant::now()),
                    Err(error) => {
                        tracing::debug!(%error, "cannot watch the lease; reading it periodically");
                        self.state = State::Failed(Instant::now() + HOLD_OFF);
                    }
                },
                State::Watching(changes, since) => match changes.next().await {
                    Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                        return Some(lease);
                    }
                    Some(Ok(WatchEvent::Deleted(_))) => return None,
                    Some(Ok(WatchEvent::Bookmark(_))) => {}
                    Some(Ok(WatchEvent::Error(_)) | Err(_)) => {
                        self.state = State::Failed(Instant::now() + HOLD_OFF);
                    }
                    // A proxy may end each watch at once.
                    None if since.elapsed() < SHORTEST => {
                        self.state = State::Failed(Instant::now() + HOLD_OFF);
                    }
                    None => self.state = State::Idle,
                },
            }
        }
    }
}
