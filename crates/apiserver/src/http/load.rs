//! How many requests and watches there may be at once. Who comes when all places are taken waits for a
//! while, in a line of bounded length; who finds the line full is told to come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{ApiError, Reason};

/// What a server takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that are worked on at once, watches aside.
    pub requests: usize,
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// Watches at once.
    pub watches: usize,
    /// Connections at once.
    pub connections: usize,
    /// How long a request may wait for its turn, and how long its body may take to arrive.
    pub patience: Duration,
    /// How long a client may take to shake hands, and to send the head of a request.
    pub slow_client: Duration,
}

impl Default for Limits {
    /// As many requests as a kube-apiserver works on without flags.
    fn default() -> Self {
        Self {
            requests: 600,
            waiting: 3000,
            watches: 20_000,
            connections: 10_000,
            patience: Duration::from_mins(1),
            slow_client: Duration::from_secs(32),
        }
    }
}

/// Whether a request may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ReadOnly,
    Mutating,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) limits: Limits,
    places: Semaphore,
    line: AtomicUsize,
    read_only: AtomicUsize,
    mutating: AtomicUsize,
    watches: Arc<AtomicUsize>,
}

/// One more for as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of one request.
pub(crate) struct Place<'a> {
    _permit: SemaphorePermit<'a>,
    _counted: Counted<'a>,
}

/// The place of one watch; free when dropped.
#[derive(Debug)]
pub(crate) struct WatchPlace(Arc<AtomicUsize>);

impl Drop for WatchPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn too_many() -> ApiError {
    let mut error = ApiError::new(
        Reason::TooManyRequests,
        "Too many requests, please try again later.",
    );
    error.retry_after = Some(1);
    error
}

impl Load {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            places: Semaphore::new(limits.requests),
            line: AtomicUsize::new(0),
            read_only: AtomicUsize::new(0),
            mutating: AtomicUsize::new(0),
            watches: Arc::default(),
        }
    }

    /// A place for a request, if need be after some waiting.
    pub(crate) async fn place(&self, kind: Kind) -> Result<Place<'_>, ApiError> {
        let permit = match self.places.try_acquire() {
            Ok(permit) => permit,
            Err(_) => self.wait().await?,
        };
        let counter = match kind {
            Kind::ReadOnly => &self.read_only,
            Kind::Mutating => &self.mutating,
        };
        Ok(Place {
            _permit: permit,
            _counted: Counted::new(counter),
        })
    }

    async fn wait(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        if self.line.load(Ordering::Relaxed) >= self.limits.waiting {
            return Err(too_many());
        }
        let _waiting = Counted::new(&self.line);
        match tokio::time::timeout(self.limits.patience, self.places.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(too_many()),
        }
    }

    /// A place for a watch.
    pub(crate) fn watch(&self) -> Result<WatchPlace, ApiError> {
        // Counted before it is compared, so that two that come together do not both take the last place.
        let place = WatchPlace(self.watches.clone());
        if self.watches.fetch_add(1, Ordering::Relaxed) >= self.limits.watches {
            return Err(too_many());
        }
        Ok(place)
    }

    /// Requests worked on now: reading, writing, and watches.
    pub(crate) fn now(&self) -> (usize, usize, usize) {
        let get = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (
            get(&self.read_only),
            get(&self.mutating),
            get(&self.watches),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_server_says_so() {
        let load = Load::new(Limits {
            requests: 1,
            waiting: 0,
            watches: 1,
            ..Limits::default()
        });
        let place = load.place(Kind::Mutating).await.ok();
        assert!(place.is_some());
        assert_eq!(load.now(), (0, 1, 0));
        let refused = load.place(Kind::ReadOnly).await.err();
        assert_eq!(refused, Some(too_many()));
        drop(place);
        assert!(load.place(Kind::ReadOnly).await.is_ok());
        let watch = load.watch();
        assert!(watch.is_ok());
        assert_eq!(load.watch().err(), Some(too_many()));
        assert_eq!(load.now(), (0, 0, 1));
        drop(watch);
        assert!(load.watch().is_ok());
    }

    #[tokio::test]
    async fn who_waits_gets_the_next_place() {
        let load = Load::new(Limits {
            requests: 1,
            ..Limits::default()
        });
        let place = load.place(Kind::ReadOnly).await.ok();
        let (second, ()) = tokio::join!(load.place(Kind::ReadOnly), async { drop(place) });
        assert!(second.is_ok());
    }
}
