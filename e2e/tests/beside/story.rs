//! What a user does, whoever does the work: place, scale, lose a cluster, delete.

use berth_api::ResourceBinding;
use serde_json::{Value, json};

use crate::manifests::{cluster_role, config_map, deployment, divided, policy, spread};
use crate::scene::Scene;

/// Names and replicas of the clusters of a binding.
pub fn targets(binding: &ResourceBinding) -> Vec<(String, i64)> {
    let clusters = binding.spec.clusters.iter();
    let mut targets: Vec<(String, i64)> = clusters
        .map(|target| (target.name.clone(), i64::from(target.replicas)))
        .collect();
    targets.sort();
    targets
}

pub fn is_fully_applied(binding: &ResourceBinding) -> bool {
    let conditions = binding.status.iter().flat_map(|status| &status.conditions);
    let mut applied = conditions.filter(|condition| condition.type_ == "FullyApplied");
    applied.any(|condition| condition.status == "True")
}

/// Waits until a Deployment is placed like this, runs there, and says so itself.
async fn runs(scene: &Scene, template: &Value, shares: &[(&str, i64)]) {
    let name = template["metadata"]["name"].as_str().unwrap();
    let expected: Vec<(String, i64)> = shares.iter().map(|(m, r)| ((*m).to_owned(), *r)).collect();
    scene
        .binding(
            &format!("{name}-deployment"),
            "placed and applied",
            |binding| targets(binding) == expected && is_fully_applied(binding),
        )
        .await;
    for (member, replicas) in shares {
        let inside = scene.member(member);
        let found = scene
            .until(&inside, template, "its share", |found| {
                found["spec"]["replicas"] == *replicas
            })
            .await;
        assert_eq!(found["metadata"]["labels"]["karmada.io/managed"], "true");
    }
    let all: i64 = shares.iter().map(|(_, replicas)| replicas).sum();
    scene
        .until(&scene.client, template, "its status", |found| {
            found["status"]["readyReplicas"] == all
        })
        .await;
}

/// The whole story. What there is before a cluster is lost is recorded under this name.
pub async fn told(scene: &Scene, name: &str) {
    let web = deployment("web", 2);
    scene.apply(&web).await;
    scene
        .apply(&policy(&web, &divided(&["member1", "member2"])))
        .await;
    runs(scene, &web, &[("member1", 1), ("member2", 1)]).await;

    scene
        .edit(&web, &json!({ "spec": { "replicas": 6 } }))
        .await;
    runs(scene, &web, &[("member1", 3), ("member2", 3)]).await;

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
        scene.until(&inside, object, "to arrive", |_| true).await;
    }

    let single = deployment("single", 2);
    scene.apply(&single).await;
    scene.apply(&policy(&single, &spread(1))).await;
    let placed = scene
        .binding("single-deployment", "in one cluster", |binding| {
            binding.spec.clusters.len() == 1 && is_fully_applied(binding)
        })
        .await;
    let before = targets(&placed)[0].0.clone();
    scene.quiet().await;
    scene.record(name).await;

    scene.taint(&before, "NoExecute").await;
    let moved = scene
        .binding(
            "single-deployment",
            "elsewhere, and nowhere else",
            |binding| {
                let targets = targets(binding);
                targets.len() == 1
                    && targets[0].0 != before
                    && binding.spec.graceful_eviction_tasks.is_empty()
                    && is_fully_applied(binding)
            },
        )
        .await;
    let after = &targets(&moved)[0].0;
    runs(scene, &single, &[(after, 2)]).await;
    berth_e2e::eventually("the old copy to go", async || {
        let there = scene.members_with(&single).await;
        if there == [after.as_str()] {
            Ok(())
        } else {
            Err(there.join(", "))
        }
    })
    .await;
    scene.quiet().await;

    for object in [&web, &single, &map, &role] {
        scene.delete(object).await;
        if scene.is_real() {
            // What kube-controller-manager would do.
            scene.delete(&binding_of(object)).await;
        }
        scene.until_nowhere(object).await;
    }
    berth_e2e::eventually("the Works to go", async || {
        let works = scene.works().await;
        let left: Vec<String> = works
            .iter()
            .filter_map(|work| work.metadata.name.clone())
            // Karmada's controllers put these into each member.
            .filter(|name| !name.starts_with("karmada-impersonator"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(", "))
        }
    })
    .await;
    scene.quiet().await;
}

/// The binding of a template, as far as it takes to delete it.
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
