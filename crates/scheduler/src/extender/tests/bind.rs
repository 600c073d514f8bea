//! Tests of the bind verb, with which an extender stores decisions.

use std::sync::Arc;

use axum::http::StatusCode;
use berth_api::binding::TargetCluster;
use berth_engine::CycleState;
use berth_test_servers::FakeExtender;
use serde_json::{Value, json};

use super::fake::config;
use super::harness::{Harness, everywhere, soon};
use crate::framework::{Bound, Decided};

async fn bind(extender: &FakeExtender, mut fields: Value) -> Result<Bound, String> {
    fields["bindVerb"] = "bind".into();
    let harness = Harness::new(&[config(&extender.url, fields)]);
    let decided = Decided {
        binding: everywhere(),
        targets: vec![TargetCluster {
            name: "m1".into(),
            replicas: 2,
            components: vec![],
        }]
        .into(),
        snapshot: Arc::clone(&harness.snapshot),
    };
    let mut plugins = harness.extenders.plugins();
    let plugin = plugins.remove(0).bind.unwrap();
    let mut state = CycleState::new();
    soon(plugin.bind(&decided, &mut state))
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_extender_stores_the_decision() {
    let extender = FakeExtender::responding_with(|_, _| json!({})).await;
    assert_eq!(bind(&extender, json!({})).await, Ok(Bound::Stored));
    let requests = extender.requests();
    assert_eq!(requests[0].verb, "bind");
    let expected = json!({ "bindingName": "web-deployment", "bindingNamespace": "shop", "bindingUID": "u-1",
        "clusters": [{ "name": "m1", "replicas": 2 }] });
    assert_eq!(requests[0].body, expected);
}

#[tokio::test]
async fn decisions_about_other_resources_are_skipped() {
    let extender = FakeExtender::responding_with(|_, _| json!({})).await;
    let fields = json!({ "managedResources": [{ "apiVersion": "batch/v1", "kind": "Job" }] });
    assert_eq!(bind(&extender, fields).await, Ok(Bound::Skip));
    assert!(extender.requests().is_empty());
}

#[tokio::test]
async fn a_failed_call_fails_the_binding_unless_the_extender_is_ignorable() {
    let refuses =
        FakeExtender::responding_with(|_, _| json!({ "error": "no licences left in m1" })).await;
    assert_eq!(
        bind(&refuses, json!({})).await,
        Err("no licences left in m1".into())
    );
    assert_eq!(
        bind(&refuses, json!({ "ignorable": true })).await,
        Ok(Bound::Skip)
    );
    let broken =
        FakeExtender::with_script(|_, _| (StatusCode::SERVICE_UNAVAILABLE, String::new())).await;
    let error = bind(&broken, json!({})).await.unwrap_err();
    assert_eq!(error, "the response status is 503 Service Unavailable");
}
