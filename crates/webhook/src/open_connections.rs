//! The open connections of the server. When there are too many, the connection that has been idle for the longest time
//! makes room for a new one.
//!
//! A connection is busy while a review is decided. Pings, slow bodies and unknown paths do not keep it busy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The open connections, with a limit on their number.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    limit: usize,
    by_id: Mutex<HashMap<u64, State>>,
    /// Notified when a connection becomes idle or ends.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    reviews: usize,
    /// The end of the last request, or the time of the accept.
    idle_since: Instant,
    has_request: bool,
    close: CancellationToken,
}

/// An open connection, which is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    id: u64,
    all: Arc<OpenConnections>,
    close: CancellationToken,
}

/// A review that is being decided. The connection is busy until this value is dropped.
#[derive(Debug)]
pub(crate) struct Review(Arc<OpenConnection>);

impl OpenConnections {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            by_id: Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// Waits until there is room for one more connection. At the limit, this closes the connection that has been idle
    /// for the longest time, and only waits while all connections are busy.
    pub(crate) async fn make_room(&self) {
        loop {
            let freed = self.freed.notified();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    fn has_room(&self) -> bool {
        let mut by_id = self.lock();
        if by_id.len() < self.limit {
            return true;
        }
        let idle = by_id.iter().filter(|(_, state)| state.reviews == 0);
        let longest = idle.min_by_key(|(id, state)| (state.idle_since, **id));
        let Some(id) = longest.map(|(id, _)| *id) else {
            return false;
        };
        if let Some(state) = by_id.remove(&id) {
            state.close.cancel();
        }
        true
    }

    /// Adds a new connection.
    pub(crate) fn add(self: &Arc<Self>, id: u64) -> Arc<OpenConnection> {
        let close = CancellationToken::new();
        let state = State {
            reviews: 0,
            idle_since: Instant::now(),
            has_request: false,
            close: close.clone(),
        };
        self.lock().insert(id, state);
        Arc::new(OpenConnection {
            id,
            all: Arc::clone(self),
            close,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, State>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    /// Returns the token that is cancelled when the connection must make room for another one.
    pub(crate) fn close(&self) -> &CancellationToken {
        &self.close
    }

    /// Records the start of a request.
    pub(crate) fn start_request(&self) {
        self.update(|state| state.has_request = true);
    }

    /// Records the end of a request.
    pub(crate) fn end_request(&self) {
        self.update(|state| state.idle_since = Instant::now());
    }

    /// Reports whether the connection has had a request.
    pub(crate) fn has_request(&self) -> bool {
        self.all
            .lock()
            .get(&self.id)
            .is_some_and(|state| state.has_request)
    }

    /// Records the start of a review.
    pub(crate) fn start_review(self: &Arc<Self>) -> Review {
        self.update(|state| state.reviews += 1);
        Review(Arc::clone(self))
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = self.all.lock().get_mut(&self.id) {
            change(state);
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
        self.all.freed.notify_one();
    }
}

impl Drop for Review {
    fn drop(&mut self) {
        self.0.update(|state| {
            state.reviews = state.reviews.saturating_sub(1);
            state.idle_since = Instant::now();
        });
        self.0.all.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_idle_longest_makes_room() {
        let all = Arc::new(OpenConnections::new(3));
        let open = async |id| {
            tokio::time::advance(Duration::from_secs(1)).await;
            all.make_room().await;
            all.add(id)
        };
        let (first, second, third) = (open(1).await, open(2).await, open(3).await);
        first.start_request();
        first.end_request();
        let review = third.start_review();
        let fourth = open(4).await;
        let closed = |connection: &OpenConnection| connection.close().is_cancelled();
        assert!(!closed(&first) && closed(&second) && !closed(&third));
        let _fifth = open(5).await;
        assert!(closed(&first) && !closed(&third) && !closed(&fourth));
        drop(review);
    }

    #[tokio::test(start_paused = true)]
    async fn busy_connections_are_not_closed() {
        let all = Arc::new(OpenConnections::new(1));
        let connection = all.add(1);
        let review = connection.start_review();
        assert!(all.make_room().now_or_never().is_none());
        assert!(!connection.close().is_cancelled());
        drop(review);
        all.make_room().await;
        assert!(connection.close().is_cancelled());
    }
}
