//! The gates that let decisions count with each other: assumed capacity, and groups of workloads.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::ResourceBinding;
use berth_e2e::{Bare, Running, eventually};
use berth_scheduler::Options;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::objects::{aggregated, binding, cluster};
use crate::watching::{is_settled, scheduled, targets};

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::embedded();
    change(&mut options);
    options
}

fn protected() -> Options {
    options(|options| options.gates.scheduling_overcommit_protection = true)
}

/// What the scheduler has said about a number of bindings.
async fn all_decided(bare: &Bare, count: usize) -> Vec<ResourceBinding> {
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

fn used(bindings: &[ResourceBinding]) -> BTreeMap<String, i32> {
    let mut used = BTreeMap::new();
    for (cluster, replicas) in bindings.iter().flat_map(targets) {
        *used.entry(cluster).or_default() += replicas;
    }
    used
}

fn waiting(bindings: &[ResourceBinding]) -> usize {
    bindings
        .iter()
        .filter(|binding| !is_settled(binding))
        .count()
}

async fn report(bare: &Bare, cluster: &str, summary: Value) {
    let patch = Patch::Merge(json!({ "status": { "resourceSummary": summary } }));
    let clusters = bare.clusters();
    clusters
        .patch_status(cluster, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn waiting_are(bare: &Bare, count: usize) {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_do_not_overcommit_a_cluster() {
    let room = BTreeMap::from([("m1", 70), ("m2", 50), ("m3", 30)]);
    let clusters: Vec<_> = room
        .iter()
        .map(|(name, cpus)| cluster(name, *cpus))
        .collect();
    let bare = Bare::start(&clusters).await;
    let first = Running::start(protected(), bare.remote_client().await);
    let bindings: Vec<_> = (0..200)
        .map(|index| binding(&format!("w{index}"), 1, aggregated()))
        .collect();
    bare.bind_all(&bindings).await;
    let placed = all_decided(&bare, 200).await;
    let wanted = room
        .iter()
        .map(|(name, cpus)| ((*name).to_owned(), i32::try_from(*cpus).unwrap()));
    assert_eq!(used(&placed), wanted.collect());
    assert_eq!(waiting(&placed), 50);
    println!(
        "200 bindings at once on room for 150: {:?}, 50 wait",
        used(&placed)
    );

    // A restart forgets nothing: the clusters do not report yet, and still nothing more fits.
    first.stop().await.unwrap();
    let second = Running::start(protected(), bare.remote_client().await);
    bare.bind(&binding("one-more", 1, aggregated())).await;
    let placed = all_decided(&bare, 201).await;
    assert_eq!(waiting(&placed), 51);

    // Ten of a cluster run now and are reported; what is reported is not counted twice.
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
    // Nobody can tell from outside when the scheduler has seen the health of all ten, and only a report after
    // that counts: it comes again, as those of a real cluster do.
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
    assert_eq!(used(&bare.all_bindings().await)["m1"], 75);

    // What is deleted before it was ever reported makes room.
    let gone = placed
        .iter()
        .find(|b| targets(b).contains_key("m2"))
        .unwrap();
    api.delete(&gone.name_any(), &Default::default())
        .await
        .unwrap();
    waiting_are(&bare, 45).await;
    assert_eq!(used(&bare.all_bindings().await)["m2"], 50);
    second.stop().await.unwrap();
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_workloads_keep_together_and_apart_when_they_come_at_once() {
    let clusters: Vec<_> = (1..=6).map(|n| cluster(&format!("m{n}"), 1000)).collect();
    let bare = Bare::start(&clusters).await;
    let gated = options(|options| options.gates.workload_affinity = true);
    let scheduler = Running::start(gated, bare.remote_client().await);
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
    let placed = all_decided(&bare, 12).await;
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
        "each on a cluster of its own"
    );
    assert_eq!(clusters_of("together").len(), 1, "all on one cluster");

    // A seventh has nowhere to go.
    let mut seventh = binding("apart6", 1, one_cluster);
    seventh.spec.workload_affinity_groups =
        serde_json::from_value(json!({ "antiAffinityGroup": "zk" })).unwrap();
    bare.bind(&seventh).await;
    let placed = all_decided(&bare, 13).await;
    assert_eq!(waiting(&placed), 1);
    scheduler.stop().await.unwrap();
    bare.stop().await;
}
