//! The handler of HTTP requests to the webhook server: paths, limits and status codes.
//!
//! Error responses are `Status` objects, except for health probes. API servers include the message of the `Status` in
//! their error.

use std::sync::Arc;
use std::time::Duration;

use berth_api::admission::GuardedKind;
use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::decide::{NoExecuteTaints, verdict};
use crate::endpoint::Endpoint;
use crate::open_connections::OpenConnection;
use crate::quota_charges::QuotaCharges;
use crate::request_metrics::RequestMetrics;
use crate::review::AdmissionReview;
use crate::verdict::Verdict;

/// Maximum size of a review, in bytes, as in karmada-webhook. A review has two objects of at most 3 MiB each, and other
/// fields.
const MAX_BODY: usize = 7 << 20;
/// Maximum time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of reviews that are decided at the same time. Requests whose bodies are incomplete do not count.
const MAX_REVIEWS: usize = 100;
/// Maximum size of all bodies in memory, in bytes. It grows with the bytes that arrive, so slow bodies use little of it.
const MAX_ALL_BODIES: usize = 256 << 20;

/// The handler of the requests from all connections.
#[derive(Debug)]
pub(crate) struct Service {
    no_execute: NoExecuteTaints,
    /// The enforcement of quotas, if it is on.
    quotas: Option<QuotaCharges>,
    reviews: Semaphore,
    /// One permit for each byte of the bodies in memory.
    bodies: Semaphore,
    metrics: Arc<RequestMetrics>,
    stopping: CancellationToken,
}

/// An error response.
struct Failure {
    status: StatusCode,
    reason: &'static str,
    message: String,
}

impl Failure {
    fn new(status: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            message: message.into(),
        }
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    fn response(self) -> Response<Full<Bytes>> {
        let body = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.status.as_u16()
        });
        let mut response = json_response(self.status, &body);
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            let allowed = HeaderValue::from_static("POST");
            response.headers_mut().insert(ALLOW, allowed);
        }
        response
    }
}

impl Service {
    pub(crate) fn new(
        no_execute: NoExecuteTaints,
        quotas: Option<QuotaCharges>,
        metrics: Arc<RequestMetrics>,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            no_execute,
            quotas,
            reviews: Semaphore::new(MAX_REVIEWS),
            bodies: Semaphore::new(MAX_ALL_BODIES),
            metrics,
            stopping,
        }
    }

    /// Responds to a request.
    pub(crate) async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path();
        match path.trim_end_matches('/') {
            "/readyz" => return self.readiness(),
            "/healthz" | "/livez" => return Response::new(Full::from("ok")),
            _ => {}
        }
        let Some(endpoint) = Endpoint::find(path) else {
            return refuse(unknown_path(path));
        };
        let in_progress = endpoint.path().map(|path| self.metrics.start(path));
        let response = match self.review(endpoint, request).await {
            Ok(reviewed) => json_response(StatusCode::OK, &reviewed),
            Err(failure) => refuse(failure),
        };
        if let Some(request) = in_progress {
            request.finish(response.status());
        }
        response
    }

    fn readiness(&self) -> Response<Full<Bytes>> {
        if self.stopping.is_cancelled() {
            let mut response = Response::new(Full::from("the server is stopping"));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return response;
        }
        Response::new(Full::from("ok"))
    }

    async fn review<B>(&self, endpoint: Endpoint, request: Request<B>) -> Result<Value, Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if request.method() != Method::POST {
            let path = request.uri().path();
            let message = format!("{path} accepts only POST, not {}", request.method());
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(Failure::new(status, "MethodNotAllowed", message));
        }
        check_content_type(&request)?;
        let connection = request.extensions().get::<Arc<OpenConnection>>().cloned();
        let (body, _bytes) = tokio::time::timeout(BODY_TIMEOUT, self.read(request.into_body()))
            .await
            .map_err(|_| {
                let message = format!(
                    "the body did not arrive within {} s",
                    BODY_TIMEOUT.as_secs()
                );
                Failure::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
            })??;
        let _review = connection.as_ref().map(OpenConnection::start_review);
        let Ok(_permit) = self.reviews.acquire().await else {
            return Err(stopping());
        };
        let no_execute = self.no_execute;
        // On another thread, a large review does not delay other reviews, and a panic in a rule does not end the
        // connection.
        let decided = tokio::task::spawn_blocking(move || {
            let review = AdmissionReview::parse(&body)?;
            let verdict = verdict(endpoint, no_execute, &review.request);
            Ok((review, verdict))
        });
        match decided.await {
            Ok(Ok((review, verdict))) => {
                let verdict = self.charge(endpoint, &review, verdict).await;
                Ok(verdict.respond(&review))
            }
            Ok(Err::<_, crate::review::ReviewError>(error)) => {
                Err(Failure::bad_request(error.to_string()))
            }
            Err(error) => {
                tracing::error!(%error, "a review failed");
                Err(internal(
                    "the review failed; the log of the webhook has the reason",
                ))
            }
        }
    }

    /// Charges a binding that the rules allow to the quotas of its namespace, and returns the final verdict.
    async fn charge(
        &self,
        endpoint: Endpoint,
        review: &AdmissionReview,
        verdict: Verdict,
    ) -> Verdict {
        let is_binding = endpoint == Endpoint::Validate(GuardedKind::ResourceBinding);
        match &self.quotas {
            Some(quotas) if is_binding && verdict.is_allowed() => {
                quotas.review(&review.request).await
            }
            _ => verdict,
        }
    }

    /// Receives a body. Returns the permits for its bytes, too.
    async fn read<B>(&self, body: B) -> Result<(Bytes, Option<SemaphorePermit<'_>>), Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut body = std::pin::pin!(Limited::new(body, MAX_BODY));
        let mut received = BytesMut::new();
        let mut permits: Option<SemaphorePermit<'_>> = None;
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) if error.is::<LengthLimitError>() => {
                    return Err(Failure::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "RequestEntityTooLarge",
                        format!("the body is larger than {MAX_BODY} bytes"),
                    ));
                }
                Err(error) => {
                    let message = format!("cannot read the body: {error}");
                    return Err(Failure::bad_request(message));
                }
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let Ok(more) = self.bodies.acquire_many(bytes).await else {
                return Err(stopping());
            };
            match &mut permits {
                Some(permits) => permits.merge(more),
                None => permits = Some(more),
            }
            received.extend_from_slice(&data);
        }
        Ok((received.freeze(), permits))
    }
}

fn stopping() -> Failure {
    internal("the server is stopping")
}

fn refuse(failure: Failure) -> Response<Full<Bytes>> {
    tracing::debug!(status = %failure.status, message = failure.message, "refused a request");
    failure.response()
}

fn internal(message: &str) -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
}

fn unknown_path(path: &str) -> Failure {
    let message = if Endpoint::is_without_rules(path) {
        format!(
            "there are no rules for {path}: remove this webhook from its configuration, or send its reviews to karmada-webhook"
        )
    } else {
        format!("there is no webhook at {path}")
    };
    Failure::new(StatusCode::NOT_FOUND, "NotFound", message)
}

fn check_content_type<B>(request: &Request<B>) -> Result<(), Failure> {
    let content_type = request
        .headers()
        .get(CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = format!("the content type is {content_type:?}: expected application/json");
    Err(Failure::bad_request(message))
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests;
