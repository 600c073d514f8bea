//! Tests of the feature gates for overcommit protection and workload affinity. The scheduler must respect both in
//! concurrent decisions.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::ResourceBinding;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::assertions::{is_settled, scheduled, targets};
use crate::objects::{aggregated, binding, cluster};

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::embedded();
    change(&mut options);
    options
}

fn with_overcommit_protection() -> Options {
    options(|options| options.gates.scheduling_overcommit_protection = true)
}

/// Waits until `count` bindings have a condition `Scheduled`, and returns all bindings.
async fn wait_until_decided(bare: &BareControlPlane, count: usize) -> Vec<ResourceBinding> {
    eventually("all bindings to be decided", async || {
        let stored = bare.all_bindings().await;
        let decided = stored.iter().filter(|b| scheduled(b).is_some()).count();
        if decided == count {
            Ok(stored)
        } else {
            Err(format!("{decided} of {count}"))
        }
    })
    .await
}

/// Returns the number of placed replicas by cluster.
fn placed_replicas(bindings: &[ResourceBinding]) -> BTreeMap<String, i32> {
    let mut replicas_by_cluster = BTreeMap::new();
    for (cluster, replicas) in bindings.iter().flat_map(targets) {
        *replicas_by_cluster.entry(cluster).or_default() += replicas;
    }
    replicas_by_cluster
}

/// Returns the number of bindings that are not placed.
fn waiting(bindings: &[ResourceBinding]) -> usize {
    bindings
        .iter()
        .filter(|binding| !is_settled(binding))
        .count()
}

async fn report(bare: &BareControlPlane, cluster: &str, summary: Value) {
    let patch = Patch::Merge(json!({ "status": { "resourceSummary": summary } }));
    let clusters = bare.clusters();
    clusters
        .patch_status(cluster, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn wait_until_waiting(bare: &BareControlPlane, count: usize) {
    eventually(&format!("{count} bindings to wait"), async || {
        let now = waiting(&bare.all_bindings().await);
        if now == count {
            Ok(())
        } else {
            Err(format!("{now} wait"))
        }
    })
    .await;
}

/// The clusters have capacity for 150 of the 200 bindings. Capacity is freed by reports and by a deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_concurrent_bindings_do_not_overcommit_a_cluster() {
    let capacity = BTreeMap::from([("m1", 70), ("m2", 50), ("m3", 30)]);
    let clusters: Vec<_> = capacity
        .iter()
        .map(|(name, cpus)| cluster(name, *cpus))
        .collect();
    let bare = BareControlPlane::start(&clusters).await;
    let first = RunningScheduler::start(with_overcommit_protection(), bare.remote_client().await);
    let bindings: Vec<_> = (0..200)
        .map(|index| binding(&format!("w{index}"), 1, aggregated()))
        .collect();
    bare.bind_all(&bindings).await;
    let placed = wait_until_decided(&bare, 200).await;
    let expected = capacity
        .iter()
        .map(|(name, cpus)| ((*name).to_owned(), i32::try_from(*cpus).unwrap()));
    assert_eq!(placed_replicas(&placed), expected.collect());
    assert_eq!(waiting(&placed), 50);
    println!(
        "200 concurrent bindings on capacity for 150: {:?}, 50 wait",
        placed_replicas(&placed)
    );

    // After a restart, the scheduler still counts the replicas that no cluster has reported yet, so nothing more fits.
    first.stop().await.unwrap();
    let second = RunningScheduler::start(with_overcommit_protection(), bare.remote_client().await);
    bare.bind(&binding("one-more", 1, aggregated())).await;
    let placed = wait_until_decided(&bare, 201).await;
    assert_eq!(waiting(&placed), 51);

    // Ten replicas in m1 run, and m1 reports them. The scheduler does not count reported replicas twice.
    let on_m1 = placed.iter().filter(|b| targets(b).contains_key("m1"));
    let healthy = Patch::Merge(json!({ "status": { "aggregatedStatus": [
        { "clusterName": "m1", "applied": true, "health": "Healthy" } ] } }));
    let api = bare.bindings("default");
    for binding in on_m1.take(10) {
        let name = binding.name_any();
        api.patch_status(&name, &PatchParams::default(), &healthy)
            .await
            .unwrap();
    }
    // A report counts only if it arrives after the scheduler has received the health of all ten replicas. The test
    // cannot observe this moment. Therefore it repeats the report, as a real cluster does.
    let mut stored_gigabytes = 0;
    eventually("46 bindings to wait", async || {
        stored_gigabytes += 1;
        let summary = json!({
            "allocatable": { "cpu": "75", "ephemeral-storage": format!("{stored_gigabytes}G") },
            "allocated": { "cpu": "10" },
        });
        report(&bare, "m1", summary).await;
        match waiting(&bare.all_bindings().await) {
            46 => Ok(()),
            now => Err(format!("{now} wait")),
        }
    })
    .await;
    assert_eq!(placed_replicas(&bare.all_bindings().await)["m1"], 75);

    // The deletion of a binding that no cluster has reported frees capacity.
    let deleted = placed
        .iter()
        .find(|b| targets(b).contains_key("m2"))
        .unwrap();
    api.delete(&deleted.name_any(), &Default::default())
        .await
        .unwrap();
    wait_until_waiting(&bare, 45).await;
    assert_eq!(placed_replicas(&bare.all_bindings().await)["m2"], 50);
    second.stop().await.unwrap();
    bare.stop().await;
}

/// Six bindings of an anti-affinity group are placed in different clusters. Six bindings of an affinity group are
/// placed in one cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn affinity_groups_apply_to_concurrent_bindings() {
    let clusters: Vec<_> = (1..=6).map(|n| cluster(&format!("m{n}"), 1000)).collect();
    let bare = BareControlPlane::start(&clusters).await;
    let gated = options(|options| options.gates.workload_affinity = true);
    let scheduler = RunningScheduler::start(gated, bare.remote_client().await);
    let one_cluster = json!({ "spreadConstraints": [
        { "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 } ] });
    let mut bindings = Vec::new();
    for index in 0..6 {
        let mut apart = binding(&format!("apart{index}"), 1, one_cluster.clone());
        apart.spec.workload_affinity_groups =
            serde_json::from_value(json!({ "antiAffinityGroup": "zk" })).unwrap();
        let mut together = binding(&format!("together{index}"), 1, one_cluster.clone());
        together.spec.workload_affinity_groups =
            serde_json::from_value(json!({ "affinityGroup": "web" })).unwrap();
        bindings.extend([apart, together]);
    }
    bare.bind_all(&bindings).await;
    let placed = wait_until_decided(&bare, 12).await;
    let clusters_of = |prefix: &str| -> BTreeSet<String> {
        let members = placed.iter().filter(|b| b.name_any().starts_with(prefix));
        members
            .flat_map(|binding| targets(binding).into_keys())
            .collect()
    };
    assert_eq!(waiting(&placed), 0);
    assert_eq!(
        clusters_of("apart").len(),
        6,
        "anti-affinity must use six clusters"
    );
    assert_eq!(
        clusters_of("together").len(),
        1,
        "affinity must use one cluster"
    );

    // The seventh binding of the anti-affinity group is unschedulable.
    let mut seventh = binding("apart6", 1, one_cluster);
    seventh.spec.workload_affinity_groups =
        serde_json::from_value(json!({ "antiAffinityGroup": "zk" })).unwrap();
    bare.bind(&seventh).await;
    let placed = wait_until_decided(&bare, 13).await;
    assert_eq!(waiting(&placed), 1);
    scheduler.stop().await.unwrap();
    bare.stop().await;
}
