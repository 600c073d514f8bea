//! A client layer that rejects writes without the leadership: a process that was paused and lost the Lease meanwhile does
//! not write when it resumes.

use std::task::{Context, Poll};

use berth_scheduler::lease::Leadership;
use futures::future::{BoxFuture, Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

/// A gate for writes that is open during the leadership. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LeaderGate {
    leadership: Leadership,
}

/// The error of a rejected write.
#[derive(Debug, thiserror::Error)]
#[error("write rejected: no longer the leader")]
struct NotLeader;

impl LeaderGate {
    /// Returns a gate that is open while the leadership is valid.
    pub(super) fn new(leadership: Leadership) -> Self {
        Self { leadership }
    }
}

impl<S> Layer<S> for LeaderGate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated {
            inner,
            gate: self.clone(),
        }
    }
}

/// A client behind a gate.
#[derive(Clone, Debug)]
pub(super) struct Gated<S> {
    inner: S,
    gate: LeaderGate,
}

impl<S, B> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<
        BoxFuture<'static, Result<S::Response, BoxError>>,
        Ready<Result<S::Response, BoxError>>,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if !reads && !self.gate.leadership.holds() {
            return Either::Right(ready(Err(NotLeader.into())));
        }
        let response = self.inner.call(request);
        Either::Left(Box::pin(async move { response.await.map_err(Into::into) }))
    }
}
