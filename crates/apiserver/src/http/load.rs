//! How much the server takes on at once, and how that is shared between identities.
//!
//! A request has a [`Seat`] from its head to the end of its answer. Its body is received before it waits for one of the
//! [places](turns) at which requests are worked on, so that a slow body delays no other request. The threads of the
//! runtime are shared in the same way while there is something to compute. Administrators, the clients within the process
//! and health checks are exempt from all of this; leases wait for no place.

mod answer;
mod ledger;
mod refusal;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::{Method, Response};
use hyper::body::Body as _;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use super::respond::Endless;
use crate::authorization::attributes::{Attributes, Target};
use crate::error::ApiError;
use crate::identity::Identity;
use answer::Answer;
use ledger::{Entry, Item, Ledger};
pub(crate) use refusal::{Refusal, Refusals};
use turns::{Turn, Turns};

/// What a server takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that are worked on at once, watches aside.
    pub requests: usize,
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// Watches at once.
    pub watches: usize,
    /// Connections at once. Half of the files that the process may open is the most.
    pub connections: usize,
    /// Connections at once that have not made a request with valid credentials. The oldest makes room for a new one.
    pub unidentified: usize,
    /// Bytes of bodies and answers in memory. Beyond, identities with more than an even share are refused.
    pub buffered: usize,
    /// How much of it one identity may have.
    pub identity: Share,
    /// How long a request may wait for its turn, and how long its body may take to arrive.
    pub patience: Duration,
    /// How long a client may take to shake hands, to send the head of a request, and to read anything of an answer.
    pub slow_client: Duration,
}

/// The share of one identity. Members of `system:masters` may have more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Requests that are worked on.
    pub working: usize,
    /// Requests in all, from the head to the end of the answer, watches aside.
    pub requests: usize,
    /// Watches.
    pub watches: usize,
    /// Connections.
    pub connections: usize,
    /// Bytes of bodies and answers in memory.
    pub buffered: usize,
}

impl Default for Limits {
    /// As many requests as a kube-apiserver works on without flags.
    fn default() -> Self {
        Self {
            requests: 600,
            waiting: 3000,
            watches: 20_000,
            connections: 10_000,
            unidentified: 1000,
            buffered: 512 << 20,
            identity: Share::default(),
            patience: Duration::from_mins(1),
            slow_client: Duration::from_secs(32),
        }
    }
}

impl Default for Share {
    fn default() -> Self {
        Self {
            working: 150,
            requests: 1000,
            watches: 4000,
            connections: 1000,
            buffered: 128 << 20,
        }
    }
}

impl Limits {
    /// The same with no more connections than half of the files that the process may open.
    pub(crate) fn within_open_files(self) -> Self {
        let files = getrlimit(Resource::Nofile).current;
        let files = files.and_then(|files| usize::try_from(files).ok());
        Self {
            connections: files.map_or(self.connections, |files| self.connections.min(files / 2)),
            ..self
        }
    }
}

/// Whether a request may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ReadOnly,
    Mutating,
}

impl Kind {
    pub(crate) fn of(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD => Self::ReadOnly,
            _ => Self::Mutating,
        }
    }
}

/// How a request is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// No limit applies.
    Exempt,
    /// Counts for its identity, and waits for no place.
    Urgent,
    Fair,
}

impl Level {
    /// The level of a request, by who makes it and what it is about.
    pub(crate) fn of(identity: &Identity, wanted: &Attributes<'_>) -> Self {
        let is_health = |path: &str| {
            let first = path.split('/').find(|segment| !segment.is_empty());
            wanted.verb == "get" && matches!(first, Some("healthz" | "livez" | "readyz"))
        };
        match &wanted.target {
            _ if identity.is_master() => Self::Exempt,
            Target::Path(path) if is_health(path) => Self::Exempt,
            Target::Resource(target)
                if target.group == "coordination.k8s.io"
                    && target.resource == "leases"
                    && matches!(wanted.verb, "get" | "create" | "update" | "patch") =>
            {
                Self::Urgent
            }
            _ => Self::Fair,
        }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) limits: Limits,
    ledger: Arc<Ledger>,
    turns: Arc<Turns>,
    threads: Arc<Turns>,
    now: Now,
    refusals: Arc<Refusals>,
}

/// Requests and watches in progress.
#[derive(Debug, Clone, Default)]
struct Now {
    read_only: Arc<AtomicUsize>,
    mutating: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
}

/// One more for as long as it lives.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Load {
    /// Of a server whose runtime has so many threads.
    pub(crate) fn new(limits: Limits, threads: usize) -> Self {
        Self {
            limits,
            ledger: Arc::new(Ledger::new(limits)),
            turns: Arc::new(Turns::new(limits)),
            threads: Arc::new(Turns::new(for_threads(limits, threads))),
            now: Now::default(),
            refusals: Arc::default(),
        }
    }

    /// The seat of a request whose maker is known.
    pub(crate) fn seat(&self, identity: &Identity, level: Level) -> Result<Seat, ApiError> {
        let entry = match level {
            Level::Exempt => None,
            Level::Urgent | Level::Fair => {
                let entry = self.ledger.enter(&identity.user, Item::Request, 1);
                Some(entry.map_err(|refusal| self.refusals.count(refusal))?)
            }
        };
        Ok(Seat {
            level,
            entry,
            buffered: Mutex::new(None),
            ledger: self.ledger.clone(),
            turns: self.turns.clone(),
            threads: self.threads.clone(),
            now: self.now.clone(),
            patience: self.limits.patience,
            refusals: self.refusals.clone(),
        })
    }

    /// Returns the counts of refusals so far.
    pub(crate) fn refusals(&self) -> &Arc<Refusals> {
        &self.refusals
    }

    /// Requests worked on now: reading, writing, and watches.
    pub(crate) fn now(&self) -> (usize, usize, usize) {
        let get = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (
            get(&self.now.read_only),
            get(&self.now.mutating),
            get(&self.now.watches),
        )
    }
}

/// Limits under which all threads but one can be used, by one identity if no other waits, and any number may wait.
fn for_threads(limits: Limits, threads: usize) -> Limits {
    let most = threads.saturating_sub(1).max(1);
    Limits {
        requests: most,
        waiting: usize::MAX,
        identity: Share {
            working: most,
            ..limits.identity
        },
        ..limits
    }
}

/// A request, from its head to the end of its answer.
#[derive(Debug)]
pub(crate) struct Seat {
    level: Level,
    /// None for what is exempt.
    entry: Option<Entry>,
    /// The bytes that it has in memory.
    buffered: Mutex<Option<Entry>>,
    ledger: Arc<Ledger>,
    turns: Arc<Turns>,
    threads: Arc<Turns>,
    now: Now,
    patience: Duration,
    refusals: Arc<Refusals>,
}

/// The place at which a request is worked on.
#[derive(Debug)]
pub(crate) struct Place {
    _turn: Option<Turn>,
    _counted: Counted,
}

/// A watch; over when dropped.
#[derive(Debug)]
pub(crate) struct WatchPlace {
    _entry: Option<Entry>,
    _counted: Counted,
}

impl Seat {
    /// Makes room for more bytes of the body.
    pub(crate) fn buffer(&self, bytes: usize) -> Result<(), ApiError> {
        let Some(request) = &self.entry else {
            return Ok(());
        };
        let mut buffered = self.buffered.lock();
        let result = match &mut *buffered {
            Some(entry) => entry.grow(bytes),
            None => self
                .ledger
                .enter(request.user(), Item::Bytes, bytes)
                .map(|entry| *buffered = Some(entry)),
        };
        result.map_err(|refusal| self.refusals.count(refusal))
    }

    /// Waits for a place. To be called when the body is there.
    pub(crate) async fn place(&self, kind: Kind) -> Result<Place, ApiError> {
        let turn = match (&self.entry, self.level) {
            (Some(entry), Level::Fair) => {
                let turn = Turns::take(&self.turns, entry.user(), self.patience).await;
                Some(turn.map_err(|refusal| self.refusals.count(refusal))?)
            }
            _ => None,
        };
        let counter = match kind {
            Kind::ReadOnly => &self.now.read_only,
            Kind::Mutating => &self.now.mutating,
        };
        Ok(Place {
            _turn: turn,
            _counted: Counted::new(counter),
        })
    }

    /// Does the work of the request. One thread is left to what is exempt, and the others go to the identities in turn.
    pub(crate) async fn work<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.entry {
            None => work.await,
            Some(entry) => Turns::run(&self.threads, entry.user(), work).await,
        }
    }

    /// A watch of the maker of this request.
    pub(crate) fn watch(&self) -> Result<WatchPlace, ApiError> {
        let entry = match &self.entry {
            None => None,
            Some(entry) => {
                let entry = self.ledger.enter(entry.user(), Item::Watch, 1);
                Some(entry.map_err(|refusal| self.refusals.count(refusal))?)
            }
        };
        Ok(WatchPlace {
            _entry: entry,
            _counted: Counted::new(&self.now.watches),
        })
    }

    /// Keeps the seat until the answer is sent. A watch has a place of its own instead.
    pub(crate) fn until_sent(self, response: Response<Body>) -> Response<Body> {
        let Some(request) = &self.entry else {
            return response;
        };
        let body = response.body();
        if body.is_end_stream() || response.extensions().get::<Endless>().is_some() {
            return response;
        }
        let size = body.size_hint().exact();
        let size = size.and_then(|size| usize::try_from(size).ok());
        // The request's own body is gone by now. What is done cannot be refused any more.
        let entry = self
            .ledger
            .note(request.user(), size.unwrap_or(answer::CHUNK));
        *self.buffered.lock() = Some(entry);
        response.map(|body| Answer::body(body, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Reason;

    fn limits() -> Limits {
        Limits {
            requests: 1,
            waiting: 0,
            watches: 1,
            ..Limits::default()
        }
    }

    fn user(name: &str) -> Identity {
        Identity::service_account("default", name)
    }

    fn fair(load: &Load, name: &str) -> Seat {
        load.seat(&user(name), Level::Fair).unwrap()
    }

    fn reason<T>(result: Result<T, ApiError>) -> Option<Reason> {
        result.err().map(|error| error.reason)
    }

    #[tokio::test]
    async fn a_full_server_refuses_and_administrators_get_through() {
        let load = Load::new(limits(), 2);
        let seat = fair(&load, "a");
        let place = seat.place(Kind::Mutating).await.unwrap();
        assert_eq!(load.now(), (0, 1, 0));
        let refused = fair(&load, "b").place(Kind::ReadOnly).await;
        assert_eq!(reason(refused), Some(Reason::TooManyRequests));
        for level in [Level::Exempt, Level::Urgent] {
            let seat = load.seat(&user("c"), level).unwrap();
            assert!(seat.place(Kind::ReadOnly).await.is_ok(), "{level:?}");
        }
        drop(place);
        assert!(fair(&load, "b").place(Kind::ReadOnly).await.is_ok());
        let watch = seat.watch().unwrap();
        let refused = fair(&load, "b").watch();
        assert_eq!(reason(refused), Some(Reason::TooManyRequests));
        assert_eq!(load.now(), (0, 0, 1));
        drop(watch);
        assert!(fair(&load, "b").watch().is_ok());
    }

    #[test]
    fn administrators_health_and_leases_have_levels_of_their_own() {
        for (identity, path, expected) in [
            (Identity::admin(), "/api/v1/pods", Level::Exempt),
            (Identity::anonymous(), "/healthz", Level::Exempt),
            (Identity::anonymous(), "/livez/ping", Level::Exempt),
            (Identity::anonymous(), "/version", Level::Fair),
            (
                user("a"),
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                Level::Urgent,
            ),
            (
                user("a"),
                "/apis/coordination.k8s.io/v1/namespaces/n/leases",
                Level::Fair,
            ),
            (user("a"), "/api/v1/pods", Level::Fair),
        ] {
            let wanted = Attributes::of(
                &Method::GET,
                path,
                crate::authorization::attributes::Hints::default(),
            );
            assert_eq!(Level::of(&identity, &wanted), expected, "{path}");
        }
    }
}
