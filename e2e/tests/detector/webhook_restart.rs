//! Test of a restart of `berth webhook`.

use berth_e2e::detector_cases::api_of;
use berth_e2e::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::fixture::{deployment, policy};
use crate::webhook_fixture::{PROTECTED, WebhookPlane, protected};

/// Checks that the server refuses to create policies and to delete objects with the label [`PROTECTED`] while the
/// webhook does not run. After a restart, the webhook decides about these requests again.
#[berth_test_requirements::needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_need_the_webhook_are_refused_while_it_does_not_run() {
    let mut plane = WebhookPlane::start().await;
    let map = protected("kept");
    plane.create(&map, false).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(plane.client.clone(), "karmada-system");
    let issued = secrets.get("berth-webhook-cert").await.unwrap().data;

    plane.kill_webhook();
    let web = policy("web", "web", json!({}));
    let refusal = plane.create(&web, false).await.unwrap_err();
    assert!(refusal.contains("failed calling webhook"), "{refusal}");
    let refusal = plane.delete(&map).await.unwrap_err();
    assert!(refusal.contains("failed calling webhook"), "{refusal}");
    // No webhook is registered for Deployments without the label, so requests for them succeed.
    let template = deployment("web");
    plane.create(&template, false).await.unwrap();
    plane.delete(&template).await.unwrap();

    plane.start_webhook();
    let created = eventually("writes after the restart", async || {
        plane.create(&web, false).await
    })
    .await;
    let labels = created.metadata.labels.unwrap_or_default();
    assert!(
        labels.contains_key("propagationpolicy.karmada.io/permanent-id"),
        "{labels:?}"
    );
    let refusal = plane.delete(&map).await.unwrap_err();
    assert!(refusal.contains("This resource is protected"), "{refusal}");
    let reused = secrets.get("berth-webhook-cert").await.unwrap().data;
    assert_eq!(
        reused, issued,
        "the restarted webhook must use the certificate of the Secret"
    );

    let api = api_of(&plane.client, &map);
    let unlabelled = json!({ "metadata": { "labels": { PROTECTED: null } } });
    let patch = Patch::Merge(unlabelled);
    api.patch("kept", &PatchParams::default(), &patch)
        .await
        .unwrap();
    plane.delete(&map).await.unwrap();
}
