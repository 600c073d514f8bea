//! A client layer that limits the size of responses. Clients of servers that the control plane does not trust use it: a
//! response without end must not fill the memory.
//!
//! The layer does not limit watches. The module [`list_watch`](crate::list_watch) limits their lines and the objects that
//! they deliver.

use std::error::Error;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::ACCEPT;
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::DynBody;
use tower::{BoxError, Layer, Service};

/// Maximum size of the response to a probe, and of the description of one API group, in bytes.
const SMALL: usize = 1 << 20;
/// Maximum size of an object, of a page of a list, and of the description of all API groups, in bytes.
const LARGE: usize = 16 << 20;
/// Paths of probes.
const PROBES: [&str; 4] = ["/version", "/readyz", "/livez", "/healthz"];

/// A response that exceeds its limit.
#[derive(Debug, thiserror::Error)]
#[error("the response to {path} is larger than {} MiB", limit >> 20)]
pub struct TooLarge {
    path: String,
    limit: usize,
}

impl TooLarge {
    /// Reports whether an error or one of its sources is a response that exceeded its limit.
    pub fn is_cause_of(error: &(dyn Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<Self>() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

/// Returns the maximum size of the response to a request, or `None` for a watch.
fn limit<B>(request: &Request<B>) -> Option<usize> {
    let query = request.uri().query().unwrap_or_default();
    if query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    {
        return None;
    }
    let path = request.uri().path().trim_end_matches('/');
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let describes_group = matches!(
        *segments,
        ["api" | "apis"] | ["api" | "apis", _] | ["apis", _, _]
    );
    let accept = request.headers().get(ACCEPT);
    let accept = accept
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let is_small = PROBES.contains(&path) || describes_group && !accept.contains("g=apidiscovery");
    Some(if is_small { SMALL } else { LARGE })
}

/// The layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseLimits;

impl<S> Layer<S> for ResponseLimits {
    type Service = LimitedResponses<S>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitedResponses(inner)
    }
}

/// A service with limited responses.
#[derive(Clone, Debug)]
pub(crate) struct LimitedResponses<S>(S);

impl<S, B> Service<Request<B>> for LimitedResponses<S>
where
    S: Service<Request<B>, Response = Response<Box<DynBody>>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let limit = limit(&request);
        let path = request.uri().path().to_owned();
        let response = self.0.call(request);
        Box::pin(async move {
            let response = response.await?;
            Ok(match limit {
                Some(limit) => response.map(|body| limited(body, path, limit)),
                None => response,
            })
        })
    }
}

fn limited(body: Box<DynBody>, path: String, limit: usize) -> Box<DynBody> {
    let body = Limited::new(body, limit);
    Box::new(body.map_err(move |error| -> BoxError {
        if error.is::<LengthLimitError>() {
            let path = path.clone();
            TooLarge { path, limit }.into()
        } else {
            error
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use kube::client::{Body, ClientBuilder};
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_response_without_end_is_an_error() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let endless = stream::repeat_with(|| {
                Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 1 << 16])))
            });
            let body = StreamBody::new(endless).map_err(BoxError::from);
            Ok::<_, BoxError>(Response::new(Box::new(body) as Box<DynBody>))
        });
        let client = ClientBuilder::new(service.boxed(), "n");
        let client = client.with_layer(&ResponseLimits).build();
        let error = client.apiserver_version().await.unwrap_err();
        assert!(TooLarge::is_cause_of(&error), "{error}");
        let cause = berth_apimachinery::api_error::api_error_message(&error);
        assert_eq!(cause, "the response to /version is larger than 1 MiB");
    }

    #[test]
    fn the_limit_depends_on_the_request() {
        let of = |uri: &str, accept: &str| {
            limit(&Request::get(uri).header(ACCEPT, accept).body(()).unwrap())
        };
        for path in [
            "/version",
            "/readyz",
            "/apis",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1/",
        ] {
            assert_eq!(of(path, "application/json"), Some(SMALL), "{path}");
        }
        for path in [
            "/api/v1/pods?limit=500",
            "/apis/apps/v1/deployments",
            "/api/v1/nodes/n",
            "/",
        ] {
            assert_eq!(of(path, "application/json"), Some(LARGE), "{path}");
        }
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(of("/apis", aggregated), Some(LARGE));
        assert_eq!(of("/api/v1/pods?watch=true&resourceVersion=1", ""), None);
        assert_eq!(
            of("/api/v1/pods?labelSelector=watch%3Dtrue", ""),
            Some(LARGE)
        );
    }
}
