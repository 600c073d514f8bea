//! A test of the migration in `docs/migrate.md`: Berth's scheduler replaces Karmada's scheduler, and Karmada's
//! scheduler then replaces Berth's scheduler. At the end, Berth's scheduler also runs as a second scheduler.

use std::collections::BTreeMap;

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::manifests::{deployment, divided, policy, spread};
use crate::program::{Provider, karmada_programs};
use crate::scenario::{is_fully_applied, targets};
use crate::scene::Scene;

/// Creates a Deployment with a policy that names this scheduler, and waits until the binding is placed and applied.
async fn place(scene: &Scene, name: &str, placement: &Value, scheduler: &str) {
    let template = deployment(name, 4);
    let mut rule = policy(&template, placement);
    rule["spec"]["schedulerName"] = json!(scheduler);
    scene.apply(&template).await;
    scene.apply(&rule).await;
    scene
        .wait_for_binding(
            &format!("{name}-deployment"),
            "placed and applied",
            |binding| {
                !binding.spec.clusters.is_empty()
                    && binding.spec.scheduler_name.as_deref() == Some(scheduler)
                    && is_fully_applied(binding)
            },
        )
        .await;
}

/// Returns the clusters and replicas of the bindings of these Deployments, and the generations of all Works.
async fn placements(
    scene: &Scene,
    names: &[&str],
) -> (Vec<Vec<(String, i64)>>, BTreeMap<String, i64>) {
    let mut placed = Vec::new();
    for name in names {
        let name = format!("{name}-deployment");
        let binding = scene.wait_for_binding(&name, "to exist", |_| true).await;
        placed.push(targets(&binding));
    }
    let works = scene.works().await.into_iter().map(|work| {
        let metadata = work.metadata;
        let namespace = metadata.namespace.unwrap_or_default();
        let name = metadata.name.unwrap_or_default();
        (
            format!("{namespace}/{name}"),
            metadata.generation.unwrap_or_default(),
        )
    });
    (placed, works.collect())
}

/// Checks that the placements and the Works stay the same when the scheduler is replaced, and that a second scheduler
/// places the bindings with its name.
#[needs(karmada)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_of_schedulers_and_back_moves_nothing() {
    const DEFAULT: &str = "default-scheduler";
    let karmada = Provider::Karmada(karmada_programs());
    let mut scene = Box::pin(Scene::start(&karmada, &Provider::Berth)).await;
    let names = ["divided", "one", "everywhere"];
    place(
        &scene,
        "divided",
        &divided(&["member1", "member2"]),
        DEFAULT,
    )
    .await;
    place(&scene, "one", &spread(1), DEFAULT).await;
    place(&scene, "everywhere", &json!({}), DEFAULT).await;
    scene.wait_until_quiet().await;
    let (placed, works) = placements(&scene, &names).await;

    for (next, new) in [(&Provider::Berth, "berth"), (&karmada, "karmada")] {
        scene.replace_scheduler(next);
        // Place a new workload, because the new scheduler handles it after all existing bindings.
        place(&scene, new, &spread(1), DEFAULT).await;
        scene.wait_until_quiet().await;
        let (now, mut works_now) = placements(&scene, &names).await;
        assert_eq!(now, placed, "{new}");
        works_now.retain(|name, _| works.contains_key(name));
        assert_eq!(works_now, works, "{new}");
    }

    scene.start_second_scheduler("my-scheduler");
    place(
        &scene,
        "mine",
        &divided(&["member2", "member3"]),
        "my-scheduler",
    )
    .await;
    scene.stop().await;
}
