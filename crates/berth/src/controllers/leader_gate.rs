//! A layer of the HTTP client that rejects writes when this process is not the leader. A process may be paused, lose
//! the Lease, and resume: the layer then rejects its writes.

use std::task::{Context, Poll};

use berth_component_base::leader_election::Leadership;
use futures::future::{BoxFuture, Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

/// The layer. Clones are cheap and check the same leadership.
#[derive(Clone, Debug)]
pub(super) struct LeaderGate {
    leadership: Leadership,
}

/// The error of a rejected write.
#[derive(Debug, thiserror::Error)]
#[error("write rejected: no longer the leader")]
struct NotLeader;

impl LeaderGate {
    /// Creates a layer that forwards writes while `leadership` is valid.
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

/// A client whose writes require the leadership.
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
