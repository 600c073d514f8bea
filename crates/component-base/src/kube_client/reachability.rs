//! A client layer that detects outages of the API server, and credentials that it refuses. It logs when the failure
//! begins, after growing pauses while it persists, and when it ends.
//!
//! Every request of a client passes through one [`Reachability`], so watches and retries need not log each failure. Any
//! response shows that the server is reachable, even a response with an error status.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_apimachinery::api_error::root_cause;
use berth_apimachinery::repeated_failure::{Lasted, RepeatedFailure};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
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

#[derive(Debug, Default)]
struct State {
    /// The time of the first of the requests that have all failed, or `None` after a response.
    failing_since: Option<Instant>,
    outage: RepeatedFailure,
    refusal: RepeatedFailure,
}

impl Reachability {
    pub(crate) fn of(url: impl Into<String>) -> Self {
        Self(Arc::new(Server {
            url: url.into(),
            state: Mutex::new(State::default()),
        }))
    }

    fn record_response(&self, status: StatusCode) {
        let (url, now) = (&self.0.url, Instant::now());
        let is_refusal = status == StatusCode::UNAUTHORIZED;
        let (outage, refusal, accepted) = {
            let mut state = self.lock();
            let since = state.failing_since.take();
            let outage = state.outage.ended(now.into_std()).and(since);
            if is_refusal {
                (outage, state.refusal.failed("", now.into_std()), None)
            } else {
                (outage, None, state.refusal.ended(now.into_std()))
            }
        };
        if let Some(since) = outage {
            let lasted = Lasted(now.saturating_duration_since(since));
            tracing::info!(url, "the API server responds again after {lasted}");
        }
        if let Some(line) = refusal {
            let repeated = line.repeated;
            tracing::warn!(
                url,
                repeated,
                "the API server refuses the credentials (401 Unauthorized); trying again: renew the token or the \
                 client certificate of the kubeconfig"
            );
        }
        if let Some(end) = accepted {
            let failures = end.failures;
            tracing::info!(
                url,
                failures,
                "the API server accepts the credentials again after {}",
                end.lasted
            );
        }
    }

    fn record_error(&self, error: &(dyn Error + 'static)) {
        let (url, error, now) = (&self.0.url, root_cause(error), Instant::now());
        let line = {
            let mut state = self.lock();
            let since = *state.failing_since.get_or_insert(now);
            let is_outage = now.saturating_duration_since(since) >= UNREACHABLE_AFTER;
            is_outage.then(|| state.outage.failed(&error, now.into_std()))
        };
        if let Some(line) = line.flatten() {
            let repeated = line.repeated;
            tracing::warn!(
                url,
                %error,
                repeated,
                "the API server does not respond; trying again: check its address, its state and the network"
            );
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
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
                Ok(response) => server.record_response(response.status()),
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

    impl Log {
        /// Collects the log output of this thread until the guard is dropped.
        fn start() -> (Self, tracing::subscriber::DefaultGuard) {
            let log = Self::default();
            let writer = log.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(move || writer.clone())
                .finish();
            (log, tracing::subscriber::set_default(subscriber))
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_are_logged_at_the_start_after_pauses_and_at_the_end() {
        let (log, _guard) = Log::start();
        let server = Reachability::of("https://server:6443");
        for _ in 0..60 {
            server.record_response(StatusCode::UNAUTHORIZED);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        server.record_response(StatusCode::FORBIDDEN);
        let log = log.text();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 4, "{log}");
        assert!(lines[0].contains("refuses the credentials"), "{log}");
        assert!(lines[2].contains("repeated=30"), "{log}");
        assert!(lines[3].contains("again after 1m0s"), "{log}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_logged_once_at_its_start_and_once_at_its_end() {
        let (log, _guard) = Log::start();
        let server = Reachability::of("https://server:6443");
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        server.record_response(StatusCode::OK);
        // Failures within a short time, as when connections are being closed.
        server.record_error(&refused);
        server.record_error(&refused);
        server.record_response(StatusCode::OK);
        for _ in 0..20 {
            server.record_error(&refused);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        server.record_response(StatusCode::OK);
        server.record_response(StatusCode::OK);
        let log = log.text();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(
            lines[0].contains("WARN") && lines[0].contains("connection refused"),
            "{log}"
        );
        assert!(lines[0].contains("https://server:6443"), "{log}");
        assert!(lines[1].contains("responds again after 4s"), "{log}");
    }
}
