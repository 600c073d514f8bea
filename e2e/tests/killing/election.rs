//! Two `berth controllers`, of which one works.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use berth_e2e::eventually;

use crate::processes::Process;
use crate::scene::{MEMBERS, Scene};
use crate::state;
use crate::story::{config_map, policy};

/// Short, and yet so long that a leader on a machine with other things to do keeps its office.
const ARGUMENTS: [&str; 4] = [
    "controllers",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=300ms",
];

fn leases(scene: &Scene) -> Api<Lease> {
    Api::namespaced(scene.client(None), "karmada-system")
}

/// Waits until somebody else than this one leads, and returns who.
async fn next_leader(scene: &Scene, before: &str) -> String {
    eventually("another leader", async || {
        let lease = leases(scene).get("karmada-controller-manager").await;
        let lease = lease.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        let holder = holder.unwrap_or_default();
        if holder.is_empty() || holder == before {
            return Err(format!("{holder:?} leads"));
        }
        Ok(holder)
    })
    .await
}

/// Waits until a ConfigMap is in a member with this value.
async fn arrives(scene: &Scene, object: &Value, value: &str) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let api = state::api(
        scene.client(Some("member1")),
        "v1",
        "ConfigMap",
        Some("default"),
    );
    eventually(&format!("{name} to arrive"), async || {
        match api.get_opt(name).await.unwrap() {
            Some(object) if object.data["data"]["a"] == value => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_when_the_leader_ends_or_is_killed() {
    let scene = Scene::start().await;
    scene.start_scheduler();
    let mut first = Process::start("first", &scene.kubeconfig(), &ARGUMENTS);
    let leader = next_leader(&scene, "").await;
    let mut second = Process::start("second", &scene.kubeconfig(), &ARGUMENTS);
    let object = config_map("c");
    scene.apply(None, &object).await;
    scene.apply(None, &policy(&object, &MEMBERS)).await;
    arrives(&scene, &object, "1").await;

    first.terminate();
    assert!(first.ended().await.success(), "{}", first.log());
    let leader = next_leader(&scene, &leader).await;
    scene
        .edit(None, &object, json!({ "data": { "a": "2" } }))
        .await;
    arrives(&scene, &object, "2").await;

    let _third = Process::start("third", &scene.kubeconfig(), &ARGUMENTS);
    second.end();
    next_leader(&scene, &leader).await;
    scene
        .edit(None, &object, json!({ "data": { "a": "3" } }))
        .await;
    arrives(&scene, &object, "3").await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_has_lost_its_office_ends() {
    let scene = Scene::start().await;
    let mut leader = Process::start("leader", &scene.kubeconfig(), &ARGUMENTS);
    next_leader(&scene, "").await;
    // Somebody else has taken it: the lease is fresh, and bears another name.
    let usurped =
        json!({ "spec": { "holderIdentity": "somebody else", "leaseDurationSeconds": 600 } });
    let taken = leases(&scene)
        .patch(
            "karmada-controller-manager",
            &PatchParams::default(),
            &Patch::Merge(usurped),
        )
        .await;
    taken.unwrap();
    let status = leader.ended().await;
    let log = leader.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("error: lost the leader election"), "{log}");
    scene.stop().await;
}
