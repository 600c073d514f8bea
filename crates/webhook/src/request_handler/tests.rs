use std::convert::Infallible;

use http_body_util::{Empty, StreamBody};
use hyper::body::Frame;

use super::*;

fn service() -> Service {
    Service::new(
        NoExecuteTaints::default(),
        None,
        Arc::default(),
        CancellationToken::new(),
    )
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

async fn body(response: Response<Full<Bytes>>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn requests_that_are_not_reviews_get_a_status_with_the_reason() {
    let bare = |request: http::request::Builder| request.body(Full::default()).unwrap();
    for (request, code, expected) in [
        (post("/", "{}"), 404, "there is no webhook at /"),
        (
            post("/validate-federatedhpa", "{}"),
            404,
            "there are no rules for /validate-federatedhpa: remove this webhook",
        ),
        (
            bare(Request::get("/mutate-work")),
            405,
            "/mutate-work accepts only POST, not GET",
        ),
        (
            bare(Request::post("/mutate-work")),
            400,
            "the content type is \"\": expected application/json",
        ),
        (
            post("/mutate-work", "{"),
            400,
            "the body is not an AdmissionReview: EOF",
        ),
        (
            post("/mutate-work", "{}"),
            400,
            "the body is \"\" \"\": expected admission.k8s.io/v1 AdmissionReview",
        ),
        (
            post("/mutate-work", vec![b' '; MAX_BODY + 1]),
            413,
            "the body is larger than 7340032 bytes",
        ),
    ] {
        let response = service().respond(request).await;
        assert_eq!(response.status().as_u16(), code, "{expected}");
        let status = body(response).await;
        assert_eq!(
            (&status["kind"], &status["code"]),
            (&json!("Status"), &json!(code))
        );
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_a_timeout() {
    let pending = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = Request::post("/mutate-work")
        .header(CONTENT_TYPE, "application/json")
        .body(StreamBody::new(pending))
        .unwrap();
    assert_eq!(service().respond(request).await.status().as_u16(), 408);
}

#[tokio::test]
async fn a_stopping_server_is_healthy_but_not_ready() {
    let stopping = CancellationToken::new();
    let service = Service::new(
        NoExecuteTaints::default(),
        None,
        Arc::default(),
        stopping.clone(),
    );
    let probe = async |path: &str| {
        let request = Request::get(path).body(Empty::<Bytes>::new()).unwrap();
        service.respond(request).await.status().as_u16()
    };
    for path in ["/readyz", "/readyz/", "/healthz", "/livez"] {
        assert_eq!(probe(path).await, 200, "{path}");
    }
    stopping.cancel();
    assert_eq!(probe("/readyz").await, 503);
    assert_eq!(probe("/healthz").await, 200);
}
