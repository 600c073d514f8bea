//! A scenario of random user actions in the control plane and in members. The final state depends only on the seed and
//! never on timing, so that a test can compare the final states of two runs.

use std::time::Duration;

use berth_api::well_known::RESOURCE_BINDING_PERMANENT_ID;
use berth_e2e::objects::api;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::numbers::Numbers;
use crate::scene::{MEMBERS, Scene};
use crate::state::TAKEN;

/// The number of actions in a scenario.
const STEPS: usize = 60;
/// The exclusive upper bound of the pause between two actions, in milliseconds.
const PAUSE: u64 = 80;
const DEPLOYMENTS: u64 = 5;
const CONFIG_MAPS: u64 = 3;

/// Runs random actions, which the generator `numbers` chooses.
pub(crate) async fn run(scene: &Scene, numbers: &mut Numbers) {
    // An object in member3 that Berth did not create has the same name as a template.
    let taken = config_map(TAKEN);
    scene.apply(Some("member3"), &taken).await;
    scene.apply(None, &taken).await;
    scene.apply(None, &policy(&taken, &MEMBERS)).await;
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } });
    scene.apply(None, &namespace).await;
    let role = cluster_role();
    scene
        .apply(None, &policy(&role, &["member1", "member2"]))
        .await;
    scene.apply(None, &role).await;
    for step in 0..STEPS {
        act(scene, numbers, step).await;
        tokio::time::sleep(Duration::from_millis(numbers.below(PAUSE))).await;
    }
    // Resume all suspended dispatching, because the state of a suspended member would depend on timing.
    for template in templates() {
        let resumed = json!({ "spec": { "suspension": null } });
        scene
            .edit(None, &policy(&template, &MEMBERS), resumed)
            .await;
    }
}

/// Runs one random action.
async fn act(scene: &Scene, numbers: &mut Numbers, step: usize) {
    let all = templates();
    let template = numbers.one_of(&all);
    let member = *numbers.one_of(&MEMBERS);
    let policy_of = |members: &[&str]| policy(template, members);
    match numbers.below(14) {
        // These two actions create or update a template and its policy, in either order.
        0..=2 => {
            scene.apply(None, template).await;
            scene
                .apply(None, &policy_of(&random_members(numbers)))
                .await;
        }
        3 => {
            scene
                .apply(None, &policy_of(&random_members(numbers)))
                .await;
            scene.apply(None, template).await;
        }
        4 => {
            let labels = json!({ "metadata": { "labels": { "step": step.to_string() } } });
            scene.edit(None, template, labels).await;
        }
        5..=6 => {
            // A multiple of six is divisible by any number of members. The placement of a remainder would depend on the
            // previous placement.
            let replicas = json!({ "spec": { "replicas": 6 * (1 + numbers.below(4)) } });
            let deployment = deployment(numbers.below(DEPLOYMENTS));
            scene.edit(None, &deployment, replicas).await;
        }
        7 => {
            scene.delete(None, template).await;
            scene.wait_until_gone(template).await;
        }
        8 => scene.delete(Some(member), template).await,
        9 => {
            let drift = match template["kind"].as_str() {
                Some("Deployment") => json!({ "spec": { "replicas": 1, "paused": true } }),
                Some("ConfigMap") => json!({ "data": { "a": "other" } }),
                _ => json!({ "stringData": { "a": "other" } }),
            };
            scene.edit(Some(member), template, drift).await;
        }
        10 => delete_work(scene, numbers, member).await,
        11 => {
            let image = format!("example.com/app:{step}");
            scene
                .apply(None, &override_policy(template, member, &image))
                .await;
        }
        12 => {
            scene
                .delete(None, &override_policy(template, member, ""))
                .await;
        }
        _ => {
            let suspended =
                json!({ "spec": { "suspension": { "dispatching": numbers.below(2) == 0 } } });
            scene.edit(None, &policy_of(&MEMBERS), suspended).await;
        }
    }
}

/// Deletes a random Work of a binding in the execution namespace of a member.
async fn delete_work(scene: &Scene, numbers: &mut Numbers, member: &str) {
    let namespace = format!("karmada-es-{member}");
    let works = api(
        &scene.client(None),
        "work.karmada.io/v1alpha1",
        "Work",
        Some(&namespace),
    );
    let number = numbers.below(100);
    // Keep the Works of namespaces: as in Karmada, the controllers recreate such a Work only when a namespace or
    // cluster changes.
    let of_bindings = ListParams::default().labels(RESOURCE_BINDING_PERMANENT_ID);
    let all = works.list(&of_bindings).await.unwrap().items;
    if let Some(work) = all.get(usize::try_from(number).unwrap() % all.len().max(1)) {
        let deleted = works
            .delete(&work.name_any(), &DeleteParams::default())
            .await;
        // The deletion may fail because a controller has deleted the Work first.
        drop(deleted);
    }
}

/// Returns a random, non-empty subset of the members.
fn random_members(numbers: &mut Numbers) -> Vec<&'static str> {
    let choice = 1 + numbers.below(7);
    let members = MEMBERS.iter().enumerate();
    members
        .filter(|(index, _)| choice >> index & 1 == 1)
        .map(|(_, member)| *member)
        .collect()
}

fn templates() -> Vec<Value> {
    let deployments = (0..DEPLOYMENTS).map(deployment);
    let maps = (0..CONFIG_MAPS).map(|number| config_map(&format!("c{number}")));
    let secret = json!({ "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "s", "namespace": "default" }, "data": { "a": "MQ==" } });
    deployments.chain(maps).chain([secret]).collect()
}

fn deployment(number: u64) -> Value {
    let name = format!("d{number}");
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "replicas": 6, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name },
                    "annotations": { "simulation.berth/start-delay": "0s" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] } } } })
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default" }, "data": { "a": "1" } })
}

fn cluster_role() -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "r" },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] })
}

/// Returns a policy that propagates a template to members and divides the replicas equally among them.
pub(crate) fn policy(template: &Value, members: &[&str]) -> Value {
    let (kind, name) = (&template["kind"], &template["metadata"]["name"]);
    let weights: Vec<Value> = members
        .iter()
        .map(|member| json!({ "targetCluster": { "clusterNames": [member] }, "weight": 1 }))
        .collect();
    let mut policy = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": template["apiVersion"], "kind": kind, "name": name }],
            "placement": {
                "clusterAffinity": { "clusterNames": members },
                "replicaScheduling": { "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": { "staticWeightList": weights } } } } });
    if kind == "ClusterRole" {
        policy["kind"] = json!("ClusterPropagationPolicy");
        policy["metadata"] = json!({ "name": name });
    }
    policy
}

/// Returns a policy that, in one member, overrides the image of a Deployment, or adds a label to an object of another
/// kind.
fn override_policy(template: &Value, member: &str, image: &str) -> Value {
    let name = template["metadata"]["name"].as_str().unwrap_or_default();
    let overriders = if template["kind"] == "Deployment" {
        json!({ "plaintext": [{ "path": "/spec/template/spec/containers/0/image",
            "operator": "replace", "value": image }] })
    } else {
        json!({ "labelsOverrider": [{ "operator": "add", "value": { "in": member } }] })
    };
    json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "name": format!("{name}-in-{member}"), "namespace": "default" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": template["apiVersion"],
                "kind": template["kind"], "name": name }],
            "overrideRules": [{ "targetCluster": { "clusterNames": [member] },
                "overriders": overriders }] } })
}
