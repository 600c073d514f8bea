//! A client layer that detects outages of the API server. It logs one line when the server stops responding, and one
//! line when the server responds again.
//!
//! Every request of a client passes through one [`Reachability`], so watches and retries need not log each failure. Any
//! response shows that the server is reachable, even a response with an error status.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_apimachinery::api_error::root_cause;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

/// Time without any response before the server counts as unreachable. Shorter failures are not logged, because a
/// request also fails if its connection is being closed.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(1);

/// The state of one server, shared by all requests of its client. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Reachability(Arc<Server>);

#[derive(Debug)]
struct Server {
    url: String,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Responding,
    /// All requests have failed since this time.
    Suspect(Instant),
    UnreachableSince(Instant),
}

impl Reachability {
    pub(crate) fn of(url: impl Into<String>) -> Self {
        Self(Arc::new(Server {
            url: url.into(),
            state: Mutex::new(State::Responding),
        }))
    }

    fn record_response(&self) {
        let (before, _) = self.replace(|_| State::Responding);
        if let State::UnreachableSince(since) = before {
            let (url, outage) = (&self.0.url, since.elapsed());
            tracing::info!(url, "the API server responds again after {:.0?}", outage);
        }
    }

    fn record_error(&self, error: &(dyn Error + 'static)) {
        let next = |state| match state {
            State::Responding => State::Suspect(Instant::now()),
            State::Suspect(since) if since.elapsed() >= UNREACHABLE_AFTER => {
                State::UnreachableSince(since)
            }
            same @ (State::Suspect(_) | State::UnreachableSince(_)) => same,
        };
        let (before, after) = self.replace(next);
        if matches!(
            (before, after),
            (State::Suspect(_), State::UnreachableSince(_))
        ) {
            let (url, error) = (&self.0.url, root_cause(error));
            tracing::warn!(url, error, "the API server does not respond; trying again");
        }
    }

    /// Replaces the state. Returns the old and the new state.
    fn replace(&self, next: impl FnOnce(State) -> State) -> (State, State) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *state;
        *state = next(before);
        (before, *state)
    }
}

impl<S> Layer<S> for Reachability {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed {
            inner,
            server: self.clone(),
        }
    }
}

/// A service that reports its responses and errors to a [`Reachability`].
#[derive(Clone, Debug)]
pub(crate) struct Observed<S> {
    inner: S,
    server: Reachability,
}

impl<S, B, A> Service<Request<B>> for Observed<S>
where
    S: Service<Request<B>, Response = Response<A>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await;
            match &response {
                Ok(_) => server.record_response(),
                Err(error) => server.record_error(error.as_ref()),
            }
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A writer that collects log output.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_logged_once_at_its_start_and_once_at_its_end() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let server = Reachability::of("https://server:6443");
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        server.record_response();
        // Failures within a short time, as when connections are being closed.
        server.record_error(&refused);
        server.record_error(&refused);
        server.record_response();
        for _ in 0..20 {
            server.record_error(&refused);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        server.record_response();
        server.record_response();
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(
            lines[0].contains("WARN") && lines[0].contains("connection refused"),
            "{log}"
        );
        assert!(lines[0].contains("https://server:6443"), "{log}");
        assert!(lines[1].contains("responds again after"), "{log}");
    }
}
