//! A server without Karmada's webhooks: what they would have done, the detector does as well as it can.

use serde_json::json;

use crate::plane::{Plane, claimed_by, deployment, policy};

#[tokio::test]
async fn a_bare_policy_is_completed_and_applied() {
    let plane = Plane::without_admission().await;
    let (web, p) = (
        deployment("web"),
        policy(
            "p",
            "web",
            json!({"placement": {
        "spreadConstraints": [{"maxGroups": 2}]}}),
        ),
    );
    plane.create(web.clone()).await;
    plane.create(p.clone()).await;
    let binding = plane
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    let stored = plane.get(&p).await;
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
    plane.stop().await;
}

#[tokio::test]
async fn a_policy_that_breaks_a_rule_is_told_of_and_binds_nothing() {
    let plane = Plane::without_admission().await;
    let web = deployment("web");
    let p = policy(
        "p",
        "web",
        json!({"placement": {"spreadConstraints": [{"spreadByField": "region"}]}}),
    );
    plane.create(web.clone()).await;
    plane.create(p.clone()).await;
    let message = plane.until_event("p", "InvalidPolicy").await;
    assert!(
        message.contains("spec.placement.spreadConstraints"),
        "{message}"
    );
    plane.settle("others-go-on").await;
    assert_eq!(claimed_by(&plane.get(&web).await), None);

    let mended = json!([{"spreadByField": "cluster"}]);
    plane
        .change(
            &p,
            json!({"spec": {"placement": {"spreadConstraints": mended}}}),
        )
        .await;
    plane
        .until_binding(&web, "the binding of the mended policy", |b| !b.is_null())
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_selector_that_is_not_valid_matches_nothing_and_says_so() {
    let plane = Plane::start().await;
    let web = deployment("web");
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}]);
    plane.create(web.clone()).await;
    plane
        .create(policy(
            "p",
            "web",
            json!({ "resourceSelectors": selectors }),
        ))
        .await;
    let message = plane.until_event("p", "InvalidResourceSelector").await;
    assert!(message.contains("Near"), "{message}");
    plane.settle("others-go-on").await;
    assert!(plane.binding(&web).await.is_null());
    plane.stop().await;
}
