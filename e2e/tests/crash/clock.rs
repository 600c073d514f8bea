//! Jumps of the wall clock while controllers run. The controllers must keep working and evict no binding.

use std::net::{Ipv4Addr, TcpListener};

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::eventually;
use berth_e2e::objects::api;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::http::scrape;
use crate::processes::Process;
use crate::scenario::{config_map, policy};
use crate::scene::{MEMBERS, Scene};
use crate::wall_clock::Clock;

const HOUR: i64 = 3600;
/// The number of status reports for each member that the test awaits after a jump. The cluster monitor has the same
/// period as the reports, so it runs about as often in this time.
const ROUNDS: u64 = 4;

/// Waits until the renewal time in the lease of the controllers is about `offset` seconds ahead of the real time.
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

/// Returns the number of status reports for a member from the metrics of the controllers.
fn reports(metrics: &str, member: &str) -> u64 {
    let sample =
        format!("cluster_sync_status_duration_seconds_count{{member_cluster=\"{member}\"}} ");
    let mut values = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(&sample));
    values.next().map_or(0, |value| value.parse().unwrap())
}

/// Waits until the controllers have reported the status of each member [`ROUNDS`] more times.
async fn wait_for_reports(port: u16) {
    let mut first = None;
    eventually("status reports of all members", async || {
        let metrics = scrape(port).await.map_err(|error| error.to_string())?;
        let now = MEMBERS.map(|member| reports(&metrics, member));
        let first = *first.get_or_insert(now);
        if std::iter::zip(first, now).all(|(first, now)| now >= first + ROUNDS) {
            Ok(())
        } else {
            Err(format!("{first:?} became {now:?}"))
        }
    })
    .await;
}

/// Checks that the binding has all its clusters and no eviction task, and that the clusters have no taints.
async fn assert_no_eviction(scene: &Scene) {
    let bindings: Api<ResourceBinding> = Api::namespaced(scene.client(None), "default");
    let binding = bindings.get("c-configmap").await.unwrap();
    let spec = binding.spec;
    assert_eq!(spec.clusters.len(), MEMBERS.len(), "{spec:?}");
    assert!(spec.graceful_eviction_tasks.is_empty(), "{spec:?}");
    let clusters: Api<Cluster> = Api::all(scene.client(None));
    for cluster in clusters.list(&ListParams::default()).await.unwrap() {
        assert!(cluster.spec.taints.is_empty(), "{cluster:?}");
    }
}

/// Checks that the controllers apply changes, report the status of members and evict no binding after the clock jumps
/// an hour ahead, back, and an hour behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_jumps_neither_stop_controllers_nor_evict() {
    let scene = Scene::start().await;
    scene.start_scheduler();
    let kubeconfig = scene.kubeconfig();
    let clock = Clock::make(kubeconfig.parent().unwrap());
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let metrics = format!("--metrics-bind-address=127.0.0.1:{port}");
    let arguments = [
        "controllers",
        &metrics,
        "--health-probe-bind-address=0",
        "--feature-gates=Failover=true",
        "--cluster-status-update-frequency=300ms",
        "--cluster-monitor-period=300ms",
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
            let api = api(
                &scene.client(Some(member)),
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
        wait_for_reports(port).await;
        assert_no_eviction(&scene).await;
        assert!(
            controllers.program.exit_status().is_none(),
            "{}",
            controllers.program.log()
        );
    }
    scene.stop().await;
}
