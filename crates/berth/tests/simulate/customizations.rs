//! Tests of simulations in which a ResourceInterpreterCustomization computes the replicas of a template, and of the
//! note about interpreter webhooks.

use berth_test_requirements::needs;

use crate::live_diff::Plane;
use crate::program::{Files, app, simulate_with_input};

const FLEET: &str = "
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: east}
spec: {syncMode: Push, apiEndpoint: 'https://127.0.0.1:1'}
status: {apiEnablements: [{groupVersion: example.com/v1, resources: [{name: tasks, kind: Task}]}]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: west}
spec: {syncMode: Push, apiEndpoint: 'https://127.0.0.1:1'}
status: {apiEnablements: [{groupVersion: example.com/v1, resources: [{name: tasks, kind: Task}]}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tasks.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: tasks, singular: task, kind: Task, listKind: TaskList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Task
metadata: {name: web, namespace: shop}
spec: {size: 3}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: example.com/v1, kind: Task}
  placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted,
    weightPreference: {staticWeightList: [
      {targetCluster: {clusterNames: [east]}, weight: 2}, {targetCluster: {clusterNames: [west]}, weight: 1}]}}}
";

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
    let clusters = |text: &str| {
        let output = simulate_with_input(&["-f", "-", "-o", "json"], text).json();
        output[0]["clusters"].to_string()
    };
    let script = customization("example.com/v1", "Task", "object.spec.size");
    assert_eq!(
        clusters(&format!("{FLEET}---\n{script}")),
        r#"[{"name":"east","replicas":2},{"name":"west","replicas":1}]"#
    );
    let without = clusters(FLEET);
    assert!(!without.contains(r#""replicas":2"#), "{without}");
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
    let output = simulate_with_input(&["-f", "-"], &text).out();
    let note = "the webhooks of ResourceInterpreterWebhookConfiguration tasks are not called";
    assert!(output.contains(note), "{output}");
    let reason = "failed calling webhook \"tasks/tasks.example.com\" for InterpretReplica";
    assert!(output.contains(reason), "{output}");
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
