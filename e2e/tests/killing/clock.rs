//! The wall clock of running controllers jumps: they neither stop nor take anything off a cluster.

use std::time::Duration;

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::eventually;
use berth_e2e::eventually::never;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::processes::Process;
use crate::scene::{MEMBERS, Scene};
use crate::state;
use crate::story::{config_map, policy};
use crate::wall_clock::Clock;

const HOUR: i64 = 3600;
/// Several rounds of everything that controllers do by the clock.
const WATCHED: Duration = Duration::from_secs(5);

/// Waits until the controllers renew their lease by a clock that is so far ahead.
async fn renews_at(scene: &Scene, offset: i64) {
    let leases: Api<Lease> = Api::namespaced(scene.client(None), "karmada-system");
    eventually(
        "the lease to be renewed by the clock that jumped",
        async || {
            let lease = leases.get("karmada-controller-manager").await;
            let spec = lease.map_err(|error| error.to_string())?.spec;
            let renewed = spec.and_then(|spec| spec.renew_time).ok_or("never")?.0;
            let ahead = renewed.as_second() - Timestamp::now().as_second();
            if (ahead - offset).abs() < HOUR / 3 {
                Ok(())
            } else {
                Err(format!("{ahead} s ahead"))
            }
        },
    )
    .await;
}

/// Reports what has been taken off a cluster, or will be.
async fn evicted(scene: &Scene) -> Result<(), String> {
    let bindings: Api<ResourceBinding> = Api::namespaced(scene.client(None), "default");
    let binding = bindings.get("c-configmap").await.unwrap();
    if binding.spec.clusters.len() != MEMBERS.len()
        || !binding.spec.graceful_eviction_tasks.is_empty()
    {
        return Err(format!("{:?}", binding.spec));
    }
    let clusters: Api<Cluster> = Api::all(scene.client(None));
    for cluster in clusters.list(&ListParams::default()).await.unwrap() {
        if !cluster.spec.taints.is_empty() {
            return Err(format!("{cluster:?}"));
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_whose_clock_jumps_neither_evict_nor_stop() {
    let scene = Scene::start().await;
    scene.start_scheduler();
    let kubeconfig = scene.kubeconfig();
    let clock = Clock::make(kubeconfig.parent().unwrap());
    let arguments = [
        "controllers",
        "--feature-gates=Failover=true",
        "--cluster-status-update-frequency=1s",
        "--leader-elect-lease-duration=8s",
        "--leader-elect-renew-deadline=6s",
        "--leader-elect-retry-period=300ms",
    ];
    let environment = clock.environment();
    let mut controllers = Process::start_in("jumping", &kubeconfig, &arguments, &environment);
    let mut object = config_map("c");
    scene.apply(None, &policy(&object, &MEMBERS)).await;
    for (value, offset) in [("1", 0), ("2", HOUR), ("3", 0), ("4", -HOUR), ("5", 0)] {
        clock.jump_to(offset);
        renews_at(&scene, offset).await;
        object["data"] = json!({ "a": value });
        scene.apply(None, &object).await;
        for member in MEMBERS {
            let api = state::api(
                scene.client(Some(member)),
                "v1",
                "ConfigMap",
                Some("default"),
            );
            eventually(
                &format!("{value} to arrive in {member}"),
                async || match api.get_opt("c").await.unwrap() {
                    Some(found) if found.data["data"]["a"] == value => Ok(()),
                    other => Err(format!("{other:?}")),
                },
            )
            .await;
        }
        never("an eviction", WATCHED, async || evicted(&scene).await).await;
        assert!(controllers.runs(), "{}", controllers.log());
    }
    scene.stop().await;
}
