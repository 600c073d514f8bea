//! Jumps of the wall clock under running controllers: they keep working and evict nothing.

use std::time::Duration;

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::eventually;
use berth_e2e::eventually::never;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::processes::Process;
use crate::scenario::{config_map, policy};
use crate::scene::{MEMBERS, Scene};
use crate::state;
use crate::wall_clock::Clock;

const HOUR: i64 = 3600;
/// Covers several rounds of all periodic work of the controllers.
const OBSERVATION_TIME: Duration = Duration::from_secs(5);

/// Waits until the controllers renew their lease with a clock that is `offset` seconds ahead.
async fn wait_for_renewal_at(scene: &Scene, offset: i64) {
    let leases: Api<Lease> = Api::namespaced(scene.client(None), "karmada-system");
    eventually(
        "a renewal of the lease after the clock jumped",
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

/// Returns an error if a binding or a cluster shows an eviction.
async fn check_no_eviction(scene: &Scene) -> Result<(), String> {
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
async fn clock_jumps_neither_stop_controllers_nor_evict() {
    let scene = Scene::start().await;
    scene.start_scheduler();
    let kubeconfig = scene.kubeconfig();
    let clock = Clock::make(kubeconfig.parent().unwrap());
    let arguments = [
        "controllers",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--feature-gates=Failover=true",
        "--cluster-status-update-frequency=1s",
        "--leader-elect-lease-duration=8s",
        "--leader-elect-renew-deadline=6s",
        "--leader-elect-retry-period=300ms",
    ];
    let environment = clock.environment();
    let mut controllers =
        Process::start_with_environment("jumping", &kubeconfig, &arguments, &environment);
    let mut object = config_map("c");
    scene.apply(None, &policy(&object, &MEMBERS)).await;
    for (value, offset) in [("1", 0), ("2", HOUR), ("3", 0), ("4", -HOUR), ("5", 0)] {
        clock.jump_to(offset);
        wait_for_renewal_at(&scene, offset).await;
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
        never("an eviction", OBSERVATION_TIME, async || {
            check_no_eviction(&scene).await
        })
        .await;
        assert!(controllers.is_running(), "{}", controllers.log());
    }
    scene.stop().await;
}
