//! The bind verb: who stores a decision.

use std::sync::Arc;

use axum::http::StatusCode;
use berth_api::binding::TargetCluster;
use berth_core::CycleState;
use serde_json::{Value, json};

use super::fake::Fake;
use super::rounds::{Rounds, everywhere, soon};
use crate::framework::{Bound, Decided};

async fn bound(extender: &Fake, mut fields: Value) -> Result<Bound, String> {
    fields["bindVerb"] = "bind".into();
    let rounds = Rounds::new(&[extender.config(fields)]);
    let decided = Decided {
        binding: everywhere(),
        targets: vec![TargetCluster {
            name: "m1".into(),
            replicas: 2,
            components: vec![],
        }]
        .into(),
        snapshot: Arc::clone(&rounds.snapshot),
    };
    let mut plugins = rounds.extenders.plugins();
    let bind = plugins.remove(0).bind.unwrap();
    let mut state = CycleState::new();
    soon(bind.bind(&decided, &mut state))
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_extender_stores_the_decision() {
    let extender = Fake::answering(|_, _| json!({})).await;
    assert_eq!(bound(&extender, json!({})).await, Ok(Bound::Stored));
    let came = extender.came();
    assert_eq!(came[0].verb, "bind");
    let expected = json!({ "bindingName": "web-deployment", "bindingNamespace": "shop", "bindingUID": "u-1",
        "clusters": [{ "name": "m1", "replicas": 2 }] });
    assert_eq!(came[0].body, expected);
}

#[tokio::test]
async fn what_does_not_concern_it_is_stored_by_somebody_else() {
    let extender = Fake::answering(|_, _| json!({})).await;
    let fields = json!({ "managedResources": [{ "apiVersion": "batch/v1", "kind": "Job" }] });
    assert_eq!(bound(&extender, fields).await, Ok(Bound::Skip));
    assert!(extender.came().is_empty());
}

#[tokio::test]
async fn a_failure_fails_the_binding_unless_ignorable() {
    let refuses = Fake::answering(|_, _| json!({ "error": "no licences left in m1" })).await;
    assert_eq!(
        bound(&refuses, json!({})).await,
        Err("no licences left in m1".into())
    );
    assert_eq!(
        bound(&refuses, json!({ "ignorable": true })).await,
        Ok(Bound::Skip)
    );
    let broken = Fake::saying(|_, _| (StatusCode::SERVICE_UNAVAILABLE, String::new())).await;
    let error = bound(&broken, json!({})).await.unwrap_err();
    assert_eq!(error, "the answer is 503 Service Unavailable");
}
