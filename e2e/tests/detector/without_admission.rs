//! Tests of the detector without Karmada's webhooks. The detector then sets the defaults of policies and validates
//! policies itself.

use berth_e2e::Objects as _;
use serde_json::json;

use crate::fixture::{Fixture, claimed_by, deployment, policy};

/// Checks that the detector adds the permanent id, the finalizer and the defaults to a policy, and creates the binding
/// of the template.
#[tokio::test]
async fn an_incomplete_policy_is_completed_and_applied() {
    let fixture = Fixture::embedded_without_admission().await;
    let (web, p) = (
        deployment("web"),
        policy(
            "p",
            "web",
            json!({"placement": {
        "spreadConstraints": [{"maxGroups": 2}]}}),
        ),
    );
    fixture.create(web.clone()).await;
    fixture.create(p.clone()).await;
    let binding = fixture
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    let stored = fixture.get(&p).await;
    let id = &stored["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"];
    assert!(id.is_string());
    assert_eq!(
        stored["metadata"]["finalizers"],
        json!(["karmada.io/propagation-policy-controller"])
    );
    let spread = json!([{"spreadByField": "cluster", "maxGroups": 2, "minGroups": 1}]);
    assert_eq!(stored["spec"]["placement"]["spreadConstraints"], spread);
    assert_eq!(binding["spec"]["placement"]["spreadConstraints"], spread);
    let labels = &binding["metadata"]["labels"];
    assert_eq!(labels["propagationpolicy.karmada.io/permanent-id"], *id);
    assert!(labels["resourcebinding.karmada.io/permanent-id"].is_string());
    fixture.stop().await;
}

/// Checks that an invalid policy gets an event and claims no template, and that a corrected policy takes effect.
#[tokio::test]
async fn an_invalid_policy_is_reported_and_not_applied() {
    let fixture = Fixture::embedded_without_admission().await;
    let web = deployment("web");
    let p = policy(
        "p",
        "web",
        json!({"placement": {"spreadConstraints": [{"spreadByField": "region"}]}}),
    );
    fixture.create(web.clone()).await;
    fixture.create(p.clone()).await;
    let message = fixture.until_event("p", "InvalidPolicy").await;
    assert!(
        message.contains("spec.placement.spreadConstraints"),
        "{message}"
    );
    fixture.wait_for_marker("marker").await;
    assert_eq!(claimed_by(&fixture.get(&web).await), None);

    let corrected = json!([{"spreadByField": "cluster"}]);
    fixture
        .edit(
            &p,
            json!({"spec": {"placement": {"spreadConstraints": corrected}}}),
        )
        .await;
    fixture
        .until_binding(&web, "the binding of the corrected policy", |b| {
            !b.is_null()
        })
        .await;
    fixture.stop().await;
}
