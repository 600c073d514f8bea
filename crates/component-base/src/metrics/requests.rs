//! Counters of the requests that a client sends, by status code, host and method.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use berth_metrics::{ConstCounter, Registry, Series};
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use tower::{Layer, Service};

/// The value of the label `code` for a request without a response, as in client-go.
const NO_RESPONSE: &str = "<error>";

/// Request counters of one client. Clones are cheap and share the counters.
#[derive(Clone, Debug)]
pub struct Requests(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    host: String,
    counts: Mutex<BTreeMap<(Option<u16>, &'static str), u64>>,
}

impl Requests {
    /// Returns empty counters for requests to this host.
    pub fn to(host: String) -> Self {
        Self(Arc::new(Counts {
            host,
            counts: Mutex::default(),
        }))
    }

    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        let counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let series = counts.iter().map(|((code, method), count)| {
            let code = code.map_or_else(|| NO_RESPONSE.to_owned(), |code| code.to_string());
            let labels = [
                ("code", code),
                ("host", self.0.host.clone()),
                ("method", (*method).to_owned()),
            ];
            (labels, ConstCounter::new(*count))
        });
        registry.register(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            Series::new(series),
        );
    }
}

/// A request in progress. The request is counted when this value is dropped, so that cancelled requests are counted
/// too.
struct InProgress {
    requests: Requests,
    method: &'static str,
    code: Option<StatusCode>,
}

impl InProgress {
    // The async block in `call` must own the whole value. It would capture only the field if it assigned `code`
    // directly.
    fn set_code(&mut self, code: Option<StatusCode>) {
        self.code = code;
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let counts = &self.requests.0.counts;
        let key = (self.code.map(|code| code.as_u16()), self.method);
        *counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(key)
            .or_default() += 1;
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            requests: self.clone(),
        }
    }
}

/// A service that counts its requests.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    requests: Requests,
}

impl<S, B, A> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut in_progress = InProgress {
            requests: self.requests.clone(),
            method: verb(request.method()),
            code: None,
        };
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await;
            in_progress.set_code(response.as_ref().ok().map(Response::status));
            response
        })
    }
}

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use berth_metrics::Format;

    use super::*;

    #[tokio::test]
    async fn responses_failures_and_cancelled_requests_are_counted() {
        let requests = Requests::to("here:6443".to_owned());
        let mut client =
            requests.layer(tower::service_fn(
                async |request: Request<&str>| match *request.body() {
                    "found" => Ok(Response::new(())),
                    "broken" => Err("no connection"),
                    _ => std::future::pending().await,
                },
            ));
        let send = |method: Method, body| Request::builder().method(method).body(body).unwrap();
        for _ in 0..2 {
            client.call(send(Method::GET, "found")).await.unwrap();
        }
        client
            .call(send(Method::PATCH, "broken"))
            .await
            .unwrap_err();
        drop(client.call(send(Method::PATCH, "silent")));
        let out = Format::Text.render(|registry| requests.register(registry));
        let samples: Vec<&str> = out.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            r#"rest_client_requests_total{code="200",host="here:6443",method="GET"} 2"#,
            r#"rest_client_requests_total{code="<error>",host="here:6443",method="PATCH"} 2"#,
        ];
        assert_eq!(samples, expected);
    }
}
