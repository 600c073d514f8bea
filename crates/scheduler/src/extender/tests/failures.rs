//! Tests of failing extenders, with and without `ignorable`.

use axum::http::StatusCode;
use berth_test_servers::FakeExtender;
use serde_json::{Value, json};

use super::fake::config;
use super::harness::{Harness, everywhere};
use crate::extender::ExtenderConfig;

/// Decides with an extender that is not ignorable, and again with an ignorable extender. Returns the error of the first
/// decision, the clusters of the second decision, and the metrics of the first decision.
async fn outcomes(
    config: impl Fn(Value) -> ExtenderConfig,
    fields: Value,
) -> (String, Vec<String>, String) {
    let mut ignorable = fields.clone();
    ignorable["ignorable"] = true.into();
    let mut harness = Harness::new(&[config(fields)]);
    let error = harness.decide(&everywhere()).await.clusters().unwrap_err();
    let metrics = harness.metrics_text();
    let mut harness = Harness::new(&[config(ignorable)]);
    let without = harness.decide(&everywhere()).await.clusters().unwrap();
    (error, without, metrics)
}

const ALL: [&str; 4] = ["m1", "m2", "m3", "m4"];

#[tokio::test]
async fn invalid_responses_fail_the_binding_unless_the_extender_is_ignorable() {
    let long = "x".repeat(1024);
    for (status, body, reason, message) in [
        (
            500,
            json!({ "clusterNames": ["m1"] }).to_string(),
            "status",
            "the response status is 500 Internal Server Error",
        ),
        (
            201,
            json!({ "clusterNames": ["m1"] }).to_string(),
            "status",
            "the response status is 201 Created",
        ),
        (
            200,
            "{\"clusterNames\": [".to_owned(),
            "malformed",
            "malformed response: ",
        ),
        (200, String::new(), "malformed", "malformed response: "),
        (
            200,
            json!({ "clusterNames": ["m1", "m9"] }).to_string(),
            "not_sent",
            "the response names cluster \"m9\", which was not sent",
        ),
        (
            200,
            json!({ "error": "no database" }).to_string(),
            "refused",
            "no database",
        ),
        (
            200,
            json!({ "clusterNames": ["m1"], "more": "x".repeat(2 << 20) }).to_string(),
            "malformed",
            "the response is larger than ",
        ),
        (
            200,
            json!({ "clusterNames": vec!["m"; 110_000] }).to_string(),
            "malformed",
            "malformed response: clusterNames",
        ),
        (
            200,
            json!({ "error": "x".repeat(1 << 20) }).to_string(),
            "refused",
            long.as_str(),
        ),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = body.clone();
        let extender = FakeExtender::with_script(move |_, _| (status, answer.clone())).await;
        let fields = json!({ "filterVerb": "filter" });
        let (error, without, metrics) =
            outcomes(|fields| config(&extender.url, fields), fields).await;
        let url = &extender.url;
        let start = format!("plugin \"extender {url}\" failed at Filter: {message}");
        assert!(error.starts_with(&start), "{status} {body}: {error}");
        assert_eq!(without, ALL, "{status} {body}");
        let expected = format!(
            "scheduler_extender_request_errors_total{{extender=\"{url}\",verb=\"filter\",reason=\"{reason}\"}} 1"
        );
        assert!(
            metrics.contains(&expected),
            "{expected} is missing in\n{metrics}"
        );
    }
}

#[tokio::test]
async fn invalid_scores_fail_the_binding_unless_the_extender_is_ignorable() {
    let extender =
        FakeExtender::responding_with(|_, _| json!([{ "host": "m9", "score": 1 }])).await;
    let fields = json!({ "prioritizeVerb": "prioritize", "weight": 1 });
    let (error, without, _) = outcomes(|fields| config(&extender.url, fields), fields).await;
    let expected = format!(
        "failed to prioritize clusters: plugin \"extender {}\" failed with: the response names cluster \"m9\", which was not sent",
        extender.url
    );
    assert_eq!(error, expected);
    assert_eq!(without, ALL);
}

#[tokio::test]
async fn hanging_extenders_time_out() {
    let extender = FakeExtender::with_async_script(|_, _| Box::pin(std::future::pending())).await;
    let fields = json!({ "filterVerb": "filter", "httpTimeout": "50ms" });
    let (error, without, _) = outcomes(|fields| config(&extender.url, fields), fields).await;
    assert!(error.ends_with("no response within 50ms"), "{error}");
    assert_eq!(without, ALL);
}

#[tokio::test]
async fn unreachable_extenders_are_reported() {
    // Dropping the listener leaves a port on which no server listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/s", listener.local_addr().unwrap());
    drop(listener);
    let fields = json!({ "filterVerb": "filter" });
    let (error, without, _) = outcomes(|fields| config(&url, fields), fields).await;
    assert!(error.contains("Connection refused"), "{error}");
    assert_eq!(without, ALL);
}

#[tokio::test]
async fn an_ignored_failure_does_not_affect_other_extenders() {
    let broken = FakeExtender::with_script(|_, _| (StatusCode::BAD_GATEWAY, String::new())).await;
    let other = FakeExtender::responding_with(|_, _| json!({ "clusterNames": ["m2"] })).await;
    let mut harness = Harness::new(&[
        config(
            &broken.url,
            json!({ "filterVerb": "filter", "ignorable": true }),
        ),
        config(&other.url, json!({ "filterVerb": "filter" })),
    ]);
    assert_eq!(
        harness.decide(&everywhere()).await.clusters().unwrap(),
        ["m2"]
    );
}

#[tokio::test]
async fn responses_that_never_end_hold_only_the_memory_of_their_own_extender() {
    let endless = axum::Router::new().route(
        "/s/{verb}",
        axum::routing::post(async || {
            let chunk = axum::body::Bytes::from(vec![b' '; 64 << 10]);
            let chunks = futures::stream::repeat(Ok::<_, std::convert::Infallible>(chunk));
            axum::body::Body::from_stream(chunks)
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/s", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, endless).await });
    let good =
        FakeExtender::responding_with(|_, body| json!({ "clusterNames": super::fake::sent(body) }))
            .await;
    let fields = || json!({ "filterVerb": "filter" });
    let mut harness = Harness::new(&[config(&url, fields())]);
    let error = harness.decide(&everywhere()).await.clusters().unwrap_err();
    assert!(error.contains("the response is larger than"), "{error}");
    let mut ignored = fields();
    ignored["ignorable"] = true.into();
    let mut harness = Harness::new(&[config(&url, ignored), config(&good.url, fields())]);
    let clusters = harness.decide(&everywhere()).await.clusters().unwrap();
    assert_eq!(clusters, ALL);
    server.abort();
}
