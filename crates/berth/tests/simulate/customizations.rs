//! Tests of simulations in which a ResourceInterpreterCustomization computes the replicas of a template, and of the
//! note about interpreter webhooks.

use berth_test_requirements::needs;
use berth_test_transcripts::assert_snapshot;

use crate::live_diff::Plane;
use crate::program::{Files, app, simulated};

const FLEET: &str = include_str!("manifests/fleet_with_tasks.yaml");

fn customization(api_version: &str, kind: &str, replicas: &str) -> String {
    format!(
        "apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {{name: custom}}
spec:
  target: {{apiVersion: {api_version}, kind: {kind}}}
  customizations:
    replicaResource:
      luaScript: function GetReplicas(object) return {replicas} end
"
    )
}

#[test]
fn customizations_in_the_manifests_compute_replicas() {
    let script = customization("example.com/v1", "Task", "object.spec.size");
    let with_script = format!("{FLEET}---\n{script}");
    assert_snapshot!(simulated(&[
        ("with a script", "-f -", &with_script),
        ("without a script", "-f -", FLEET),
    ]));
}

/// Returns a ResourceInterpreterWebhookConfiguration whose webhook interprets a kind.
fn webhooks(name: &str, group: &str, kind: &str) -> String {
    format!(
        "apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterWebhookConfiguration
metadata: {{name: {name}}}
webhooks:
- name: {name}.example.com
  clientConfig: {{url: 'https://127.0.0.1:1'}}
  rules: [{{operations: ['*'], apiGroups: [{group}], apiVersions: [v1], kinds: [{kind}]}}]
  interpreterContextVersions: [v1alpha1]
"
    )
}

#[test]
fn a_note_says_that_interpreter_webhooks_are_not_called() {
    let webhooks = webhooks("tasks", "example.com", "Task");
    let text = format!("{FLEET}---\n{webhooks}");
    assert_snapshot!(simulated(&[("a webhook", "-f -", &text)]));
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn one_note_lists_interpreter_webhooks_from_manifests_and_the_control_plane() {
    let plane = Plane::start().await;
    let webhooks = webhooks("apps", "apps", "Deployment");
    let files = Files::new(&[(
        "change.yaml",
        &format!("{webhooks}---\n{}", app("web", 2, "{}")),
    )]);
    let note = "the webhooks of ResourceInterpreterWebhookConfiguration apps are not called";
    let reason = "failed calling webhook \"apps/apps.example.com\" for InterpretReplica";
    for is_applied in [false, true] {
        if is_applied {
            plane.apply(&webhooks).await;
        }
        let output = plane.simulate(&["-f", &files.path("change.yaml")]).await;
        let output = output.out();
        assert_eq!(output.matches(note).count(), 1, "{is_applied}: {output}");
        assert!(output.contains(reason), "{is_applied}: {output}");
    }
    plane.server.stop().await;
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn customizations_in_the_control_plane_compute_replicas() {
    let plane = Plane::start().await;
    let placement = "{clusterAffinity: {clusterNames: [member3]}, replicaScheduling: {replicaSchedulingType: Divided, \
        replicaDivisionPreference: Weighted}}";
    let expected = |replicas| [("member3".to_owned(), replicas)];
    let script = customization("apps/v1", "Deployment", "object.spec.replicas + 1");
    let new = app("web", 2, placement);
    let both = plane.predicted_of(&format!("{script}---\n{new}")).await;
    assert_eq!(both["web-deployment"], expected(3));
    plane.apply(&script).await;
    assert_eq!(
        plane.predicted_of(&new).await["web-deployment"],
        expected(3)
    );
    plane.apply(&new).await;
    plane
        .wait_for_binding("web-deployment", |binding| binding.spec.replicas == 3)
        .await;
    // A changed customization affects existing templates.
    let script = customization("apps/v1", "Deployment", "object.spec.replicas + 3");
    assert_eq!(
        plane.predicted_of(&script).await["web-deployment"],
        expected(5)
    );
}
