//! Extenders that fail, with and without `ignorable`.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::fake::{Fake, config};
use super::rounds::{Rounds, everywhere};
use crate::extender::ExtenderConfig;

async fn outcomes(
    config: impl Fn(Value) -> ExtenderConfig,
    fields: Value,
) -> (String, Vec<String>, String) {
    let mut ignorable = fields.clone();
    ignorable["ignorable"] = true.into();
    let mut rounds = Rounds::new(&[config(fields)]);
    let error = rounds.decide(&everywhere()).await.clusters().unwrap_err();
    let metrics = rounds.metrics.text();
    let mut rounds = Rounds::new(&[config(ignorable)]);
    let without = rounds.decide(&everywhere()).await.clusters().unwrap();
    (error, without, metrics)
}

const ALL: [&str; 4] = ["m1", "m2", "m3", "m4"];

#[tokio::test]
async fn what_cannot_be_used_fails_the_binding_unless_ignorable() {
    for (status, body, reason, said) in [
        (
            500,
            json!({ "clusterNames": ["m1"] }).to_string(),
            "status",
            "the answer is 500 Internal Server Error",
        ),
        (
            201,
            json!({ "clusterNames": ["m1"] }).to_string(),
            "status",
            "the answer is 201 Created",
        ),
        (
            200,
            "{\"clusterNames\": [".to_owned(),
            "malformed",
            "malformed answer: ",
        ),
        (200, String::new(), "malformed", "malformed answer: "),
        (
            200,
            json!({ "clusterNames": ["m1", "m9"] }).to_string(),
            "not_sent",
            "the answer names cluster \"m9\", which was not sent",
        ),
        (
            200,
            json!({ "error": "no database" }).to_string(),
            "refused",
            "no database",
        ),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = body.clone();
        let extender = Fake::saying(move |_, _| (status, answer.clone())).await;
        let fields = json!({ "filterVerb": "filter" });
        let (error, without, metrics) = outcomes(|fields| extender.config(fields), fields).await;
        let url = extender.url();
        let expected = format!("plugin \"extender {url}\" failed at Filter: {said}");
        assert!(error.starts_with(&expected), "{status} {body}: {error}");
        assert_eq!(without, ALL, "{status} {body}");
        let counted = format!(
            "scheduler_extender_request_errors_total{{extender=\"{url}\",verb=\"filter\",reason=\"{reason}\"}} 1"
        );
        assert!(metrics.contains(&counted), "{counted} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn prioritize_fails_as_filter_does() {
    let extender = Fake::answering(|_, _| json!([{ "host": "m9", "score": 1 }])).await;
    let fields = json!({ "prioritizeVerb": "prioritize", "weight": 1 });
    let (error, without, _) = outcomes(|fields| extender.config(fields), fields).await;
    let expected = format!(
        "failed to prioritize clusters: plugin \"extender {}\" failed with: the answer names cluster \"m9\", which was not sent",
        extender.url()
    );
    assert_eq!(error, expected);
    assert_eq!(without, ALL);
}

#[tokio::test]
async fn an_extender_that_never_answers_costs_the_timeout() {
    let extender = Fake::taking_its_time(|_, _| Box::pin(std::future::pending())).await;
    let fields = json!({ "filterVerb": "filter", "httpTimeout": "50ms" });
    let (error, without, _) = outcomes(|fields| extender.config(fields), fields).await;
    assert!(error.ends_with("no answer within 50ms"), "{error}");
    assert_eq!(without, ALL);
}

#[tokio::test]
async fn an_extender_that_is_not_there_is_said_to_be() {
    // The port was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/s", listener.local_addr().unwrap());
    drop(listener);
    let fields = json!({ "filterVerb": "filter" });
    let (error, without, _) = outcomes(|fields| config(&url, fields), fields).await;
    assert!(error.contains("Connection refused"), "{error}");
    assert_eq!(without, ALL);
}

#[tokio::test]
async fn the_failure_of_one_leaves_the_others() {
    let broken = Fake::saying(|_, _| (StatusCode::BAD_GATEWAY, String::new())).await;
    let other = Fake::answering(|_, _| json!({ "clusterNames": ["m2"] })).await;
    let mut rounds = Rounds::new(&[
        broken.config(json!({ "filterVerb": "filter", "ignorable": true })),
        other.config(json!({ "filterVerb": "filter" })),
    ]);
    assert_eq!(
        rounds.decide(&everywhere()).await.clusters().unwrap(),
        ["m2"]
    );
}
