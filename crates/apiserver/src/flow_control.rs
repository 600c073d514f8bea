//! Flow control: limits on concurrent work, and a fair share of it for each identity.
//!
//! A request holds a [`RequestPermit`] from its head to the end of its response. Its body is received before it queues for
//! a [`WorkPermit`], so a slow body delays no other request. The threads of the runtime are shared in the same way.
//! Administrators, in-process clients and health checks are exempt. Requests for leases do not queue.

mod connections;
mod counted_body;
mod fair_queue;
mod rejection;
mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::{Method, Response};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use crate::authorization::attributes::{Attributes, Target};
use crate::error::ApiError;
use crate::identity::Identity;
pub(crate) use connections::{Connection, ConnectionLimiter};
use counted_body::CountedBody;
use fair_queue::{FairQueue, Permit};
pub(crate) use rejection::{Rejection, RejectionCounts};
use usage::{Item, Usage, UsageEntry};

/// Marks a response without an end of its own, such as a watch: a client, a deadline or a shutdown ends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongRunning;

/// Limits on the work of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum requests executing at once, watches excluded.
    pub requests: usize,
    /// Maximum queued requests.
    pub waiting: usize,
    /// Maximum watches.
    pub watches: usize,
    /// Maximum connections, bounded by half of the open file limit of the process.
    pub connections: usize,
    /// Maximum connections without an authenticated request. A further connection evicts the oldest of them.
    pub unidentified: usize,
    /// Maximum bytes of request and response bodies in memory. Above it, identities with more than an even share are
    /// rejected.
    pub buffered: usize,
    /// The share of one identity.
    pub identity: Share,
    /// Maximum time that a request is queued, and maximum time to receive its body.
    pub patience: Duration,
    /// Maximum time for a TLS handshake, for the head of a request, and for a client to read the next bytes of a response.
    pub slow_client: Duration,
}

/// Limits on the work of one identity. Members of `system:masters` have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Maximum requests executing at once.
    pub working: usize,
    /// Maximum requests between their head and the end of their response, watches excluded.
    pub requests: usize,
    /// Maximum watches.
    pub watches: usize,
    /// Maximum connections.
    pub connections: usize,
    /// Maximum bytes of request and response bodies in memory.
    pub buffered: usize,
}

impl Default for Limits {
    /// Returns limits with the concurrency of a kube-apiserver without flags.
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
    /// Bounds the connections by half of the open file limit of the process.
    pub(crate) fn within_open_files(self) -> Self {
        let files = getrlimit(Resource::Nofile).current;
        let files = files.and_then(|files| usize::try_from(files).ok());
        Self {
            connections: files.map_or(self.connections, |files| self.connections.min(files / 2)),
            ..self
        }
    }
}

/// The kind of a request in metrics.
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

/// The priority of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// No limit applies.
    Exempt,
    /// Counts for its identity and is never queued.
    Urgent,
    Fair,
}

impl Level {
    /// Returns the priority level of a request.
    pub(crate) fn of(identity: &Identity, attributes: &Attributes<'_>) -> Self {
        let is_health = |path: &str| {
            let first = path.split('/').find(|segment| !segment.is_empty());
            attributes.verb == "get" && matches!(first, Some("healthz" | "livez" | "readyz"))
        };
        match &attributes.target {
            _ if identity.is_master() => Self::Exempt,
            Target::Path(path) if is_health(path) => Self::Exempt,
            Target::Resource(target)
                if target.group == "coordination.k8s.io"
                    && target.resource == "leases"
                    && matches!(attributes.verb, "get" | "create" | "update" | "patch") =>
            {
                Self::Urgent
            }
            _ => Self::Fair,
        }
    }
}

/// The flow control of a server.
#[derive(Debug)]
pub(crate) struct FlowControl {
    pub(crate) limits: Limits,
    usage: Arc<Usage>,
    queue: Arc<FairQueue>,
    threads: Arc<FairQueue>,
    in_flight: InFlight,
    rejections: Arc<RejectionCounts>,
}

/// Requests and watches in progress.
#[derive(Debug, Clone, Default)]
struct InFlight {
    read_only: Arc<AtomicUsize>,
    mutating: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
}

/// Counts one request or watch until it is dropped.
#[derive(Debug)]
struct InFlightGuard(Arc<AtomicUsize>);

impl InFlightGuard {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter.clone())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FlowControl {
    /// Creates the flow control of a server whose runtime has this many threads.
    pub(crate) fn new(limits: Limits, threads: usize) -> Self {
        Self {
            limits,
            usage: Arc::new(Usage::new(limits)),
            queue: Arc::new(FairQueue::new(limits)),
            threads: Arc::new(FairQueue::new(for_threads(limits, threads))),
            in_flight: InFlight::default(),
            rejections: Arc::default(),
        }
    }

    /// Admits a request of an authenticated identity.
    pub(crate) fn admit(
        &self,
        identity: &Identity,
        level: Level,
    ) -> Result<RequestPermit, ApiError> {
        let entry = match level {
            Level::Exempt => None,
            Level::Urgent | Level::Fair => {
                let entry = self.usage.enter(&identity.user, Item::Request, 1);
                Some(entry.map_err(|rejection| self.rejections.count(rejection))?)
            }
        };
        Ok(RequestPermit {
            level,
            entry,
            buffered: Mutex::new(None),
            usage: self.usage.clone(),
            queue: self.queue.clone(),
            threads: self.threads.clone(),
            in_flight: self.in_flight.clone(),
            queue_timeout: self.limits.patience,
            rejections: self.rejections.clone(),
        })
    }

    /// Returns the counts of rejected requests.
    pub(crate) fn rejections(&self) -> &RejectionCounts {
        &self.rejections
    }

    /// Returns the executing reads, the executing writes, and the watches.
    pub(crate) fn in_flight(&self) -> (usize, usize, usize) {
        let get = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (
            get(&self.in_flight.read_only),
            get(&self.in_flight.mutating),
            get(&self.in_flight.watches),
        )
    }
}

/// Returns the limits for the runtime threads. One thread stays free for exempt requests. Without competitors, an identity
/// may use all others. The queue is unbounded.
fn for_threads(limits: Limits, threads: usize) -> Limits {
    let available = threads.saturating_sub(1).max(1);
    Limits {
        requests: available,
        waiting: usize::MAX,
        identity: Share {
            working: available,
            ..limits.identity
        },
        ..limits
    }
}

/// An admitted request, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    level: Level,
    /// `None` for an exempt request.
    entry: Option<UsageEntry>,
    /// The bytes of its bodies in memory.
    buffered: Mutex<Option<UsageEntry>>,
    usage: Arc<Usage>,
    queue: Arc<FairQueue>,
    threads: Arc<FairQueue>,
    in_flight: InFlight,
    queue_timeout: Duration,
    rejections: Arc<RejectionCounts>,
}

/// The permit to execute a request.
#[derive(Debug)]
pub(crate) struct WorkPermit {
    _permit: Option<Permit>,
    _counted: InFlightGuard,
}

/// The permit of a watch or another long-running response.
#[derive(Debug)]
pub(crate) struct WatchPermit {
    _entry: Option<UsageEntry>,
    _counted: InFlightGuard,
}

impl WatchPermit {
    /// Holds the permit until the response is sent.
    pub(crate) fn hold_until_sent(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _ = &self;
                frame
            }))
        })
    }
}

impl RequestPermit {
    /// Reserves memory for more bytes of the request body.
    pub(crate) fn buffer(&self, bytes: usize) -> Result<(), ApiError> {
        let Some(request) = &self.entry else {
            return Ok(());
        };
        let mut buffered = self.buffered.lock();
        let result = match &mut *buffered {
            Some(entry) => entry.grow(bytes),
            None => self
                .usage
                .enter(request.user(), Item::Bytes, bytes)
                .map(|entry| *buffered = Some(entry)),
        };
        result.map_err(|rejection| self.rejections.count(rejection))
    }

    /// Waits for the permit to execute the request. Call it after the body is received.
    pub(crate) async fn work_permit(&self, kind: Kind) -> Result<WorkPermit, ApiError> {
        let permit = match (&self.entry, self.level) {
            (Some(entry), Level::Fair) => {
                let permit =
                    FairQueue::acquire(&self.queue, entry.user(), self.queue_timeout).await;
                Some(permit.map_err(|rejection| self.rejections.count(rejection))?)
            }
            _ => None,
        };
        let counter = match kind {
            Kind::ReadOnly => &self.in_flight.read_only,
            Kind::Mutating => &self.in_flight.mutating,
        };
        Ok(WorkPermit {
            _permit: permit,
            _counted: InFlightGuard::new(counter),
        })
    }

    /// Executes the request. One thread is reserved for exempt requests; identities share the others.
    pub(crate) async fn execute<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.entry {
            None => work.await,
            Some(entry) => FairQueue::run(&self.threads, entry.user(), work).await,
        }
    }

    /// Returns the permit for a watch of the same identity.
    pub(crate) fn watch_permit(&self) -> Result<WatchPermit, ApiError> {
        let entry = match &self.entry {
            None => None,
            Some(entry) => {
                let entry = self.usage.enter(entry.user(), Item::Watch, 1);
                Some(entry.map_err(|rejection| self.rejections.count(rejection))?)
            }
        };
        Ok(WatchPermit {
            _entry: entry,
            _counted: InFlightGuard::new(&self.in_flight.watches),
        })
    }

    /// Holds the permit until the response is sent. A long-running response holds a [`WatchPermit`] instead.
    pub(crate) fn hold_until_sent(self, response: Response<Body>) -> Response<Body> {
        let Some(request) = &self.entry else {
            return response;
        };
        let body = response.body();
        if body.is_end_stream() || response.extensions().get::<LongRunning>().is_some() {
            return response;
        }
        let size = body.size_hint().exact();
        let size = size.and_then(|size| usize::try_from(size).ok());
        // Replaces the entry of the request body, which has been freed.
        let entry = self
            .usage
            .enter_unchecked(request.user(), size.unwrap_or(counted_body::CHUNK));
        *self.buffered.lock() = Some(entry);
        response.map(|body| CountedBody::wrap(body, self))
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

    fn fair(control: &FlowControl, name: &str) -> RequestPermit {
        control.admit(&user(name), Level::Fair).unwrap()
    }

    fn reason<T>(result: Result<T, ApiError>) -> Option<Reason> {
        result.err().map(|error| error.reason)
    }

    #[tokio::test]
    async fn a_full_server_rejects_requests_except_those_of_administrators() {
        let control = FlowControl::new(limits(), 2);
        let permit = fair(&control, "a");
        let work = permit.work_permit(Kind::Mutating).await.unwrap();
        assert_eq!(control.in_flight(), (0, 1, 0));
        let rejected = fair(&control, "b").work_permit(Kind::ReadOnly).await;
        assert_eq!(reason(rejected), Some(Reason::TooManyRequests));
        for level in [Level::Exempt, Level::Urgent] {
            let permit = control.admit(&user("c"), level).unwrap();
            assert!(
                permit.work_permit(Kind::ReadOnly).await.is_ok(),
                "{level:?}"
            );
        }
        drop(work);
        assert!(
            fair(&control, "b")
                .work_permit(Kind::ReadOnly)
                .await
                .is_ok()
        );
        let watch = permit.watch_permit().unwrap();
        let rejected = fair(&control, "b").watch_permit();
        assert_eq!(reason(rejected), Some(Reason::TooManyRequests));
        assert_eq!(control.in_flight(), (0, 0, 1));
        drop(watch);
        assert!(fair(&control, "b").watch_permit().is_ok());
    }

    #[test]
    fn administrators_health_checks_and_leases_have_their_own_levels() {
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
            let attributes = Attributes::of(
                &Method::GET,
                path,
                crate::authorization::attributes::Hints::default(),
            );
            assert_eq!(Level::of(&identity, &attributes), expected, "{path}");
        }
    }
}
