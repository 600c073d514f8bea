//! The scenario that runs with each combination of programs: it propagates templates, scales a Deployment, evicts a
//! Deployment from a tainted cluster, and deletes the templates.

use berth_api::ResourceBinding;
use berth_e2e::Objects as _;
use serde_json::{Value, json};

use crate::manifests::{cluster_role, config_map, deployment, divided, policy, spread};
use crate::scene::Scene;

/// Returns the clusters of a binding with their replicas, sorted.
pub fn targets(binding: &ResourceBinding) -> Vec<(String, i64)> {
    let clusters = binding.spec.clusters.iter();
    let mut targets: Vec<(String, i64)> = clusters
        .map(|target| (target.name.clone(), i64::from(target.replicas)))
        .collect();
    targets.sort();
    targets
}

/// Reports whether the condition `FullyApplied` of a binding is true.
pub fn is_fully_applied(binding: &ResourceBinding) -> bool {
    let conditions = binding.status.iter().flat_map(|status| &status.conditions);
    let mut applied = conditions.filter(|condition| condition.type_ == "FullyApplied");
    applied.any(|condition| condition.status == "True")
}

/// Waits until a Deployment is placed with these replicas in each member, runs in the members, and shows the ready
/// replicas in the status of its template.
async fn wait_until_running(scene: &Scene, template: &Value, shares: &[(&str, i64)]) {
    let name = template["metadata"]["name"].as_str().unwrap();
    let expected: Vec<(String, i64)> = shares.iter().map(|(m, r)| ((*m).to_owned(), *r)).collect();
    scene
        .wait_for_binding(
            &format!("{name}-deployment"),
            "placed and applied",
            |binding| targets(binding) == expected && is_fully_applied(binding),
        )
        .await;
    for (member, replicas) in shares {
        let inside = scene.member(member);
        let found = inside
            .wait_for(template, "its share", |found| {
                found["spec"]["replicas"] == *replicas
            })
            .await;
        assert_eq!(found["metadata"]["labels"]["karmada.io/managed"], "true");
    }
    let all: i64 = shares.iter().map(|(_, replicas)| replicas).sum();
    scene
        .client
        .wait_for(template, "its status", |found| {
            found["status"]["readyReplicas"] == all
        })
        .await;
}

/// Runs the whole scenario. Before it taints a cluster, it records the objects in the file `name` (see
/// [`Scene::record`]).
pub async fn run(scene: &Scene, name: &str) {
    let web = deployment("web", 2);
    scene.apply(&web).await;
    scene
        .apply(&policy(&web, &divided(&["member1", "member2"])))
        .await;
    wait_until_running(scene, &web, &[("member1", 1), ("member2", 1)]).await;

    scene
        .client
        .edit(&web, json!({ "spec": { "replicas": 6 } }))
        .await;
    wait_until_running(scene, &web, &[("member1", 3), ("member2", 3)]).await;

    let (map, role) = (config_map("settings"), cluster_role("reader"));
    for object in [&map, &role] {
        scene.apply(object).await;
        scene
            .apply(&policy(
                object,
                &json!({ "clusterAffinity": { "clusterNames": ["member3"] } }),
            ))
            .await;
    }
    let inside = scene.member("member3");
    for object in [&map, &role] {
        inside.wait_for(object, "to arrive", |_| true).await;
    }

    let single = deployment("single", 2);
    scene.apply(&single).await;
    scene.apply(&policy(&single, &spread(1))).await;
    let placed = scene
        .wait_for_binding("single-deployment", "in one cluster", |binding| {
            binding.spec.clusters.len() == 1 && is_fully_applied(binding)
        })
        .await;
    let before = targets(&placed)[0].0.clone();
    scene.wait_until_quiet().await;
    scene.record(name).await;

    scene.taint(&before, "NoExecute").await;
    let moved = scene
        .wait_for_binding("single-deployment", "moved to another cluster", |binding| {
            let targets = targets(binding);
            targets.len() == 1
                && targets[0].0 != before
                && binding.spec.graceful_eviction_tasks.is_empty()
                && is_fully_applied(binding)
        })
        .await;
    let after = &targets(&moved)[0].0;
    wait_until_running(scene, &single, &[(after, 2)]).await;
    berth_e2e::eventually("removal from the tainted cluster", async || {
        let found = scene.members_with(&single).await;
        if found == [after.as_str()] {
            Ok(())
        } else {
            Err(found.join(", "))
        }
    })
    .await;
    scene.wait_until_quiet().await;

    for object in [&web, &single, &map, &role] {
        scene.client.delete(object).await;
        if scene.is_kube_apiserver() {
            // Delete the binding too, because no garbage collector runs beside kube-apiserver.
            scene.client.delete(&binding_of(object)).await;
        }
        scene.wait_until_gone(object).await;
    }
    berth_e2e::eventually("removal of the Works", async || {
        let works = scene.works().await;
        let left: Vec<String> = works
            .iter()
            .filter_map(|work| work.metadata.name.clone())
            // Ignore the Works that Karmada's controllers create for each member.
            .filter(|name| !name.starts_with("karmada-impersonator"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(", "))
        }
    })
    .await;
    scene.wait_until_quiet().await;
}

/// Returns the binding of a template, reduced to the fields that a deletion needs.
fn binding_of(template: &Value) -> Value {
    let metadata = &template["metadata"];
    let kind = template["kind"].as_str().unwrap().to_lowercase();
    let name = format!("{}-{kind}", metadata["name"].as_str().unwrap());
    if metadata["namespace"].is_null() {
        json!({ "apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding",
            "metadata": { "name": name } })
    } else {
        json!({ "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": { "name": name, "namespace": metadata["namespace"] } })
    }
}
