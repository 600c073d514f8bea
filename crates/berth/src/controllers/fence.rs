//! A client that writes only while we lead: a process that was paused, and has lost its office meanwhile, does not write
//! when it wakes up.

use std::task::{Context, Poll};

use berth_scheduler::lease::Leadership;
use futures::future::{BoxFuture, Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

/// Lets writes through while we lead. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    leadership: Leadership,
}

/// A write that was held back.
#[derive(Debug, thiserror::Error)]
#[error("not sent: another one leads by now")]
struct HeldBack;

impl Fence {
    /// A fence that is open as long as this leadership holds.
    pub(super) fn new(leadership: Leadership) -> Self {
        Self { leadership }
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced {
            inner,
            fence: self.clone(),
        }
    }
}

/// A client behind a fence.
#[derive(Clone, Debug)]
pub(super) struct Fenced<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for Fenced<S>
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
        if !reads && !self.fence.leadership.holds() {
            return Either::Right(ready(Err(HeldBack.into())));
        }
        let answer = self.inner.call(request);
        Either::Left(Box::pin(async move { answer.await.map_err(Into::into) }))
    }
}
