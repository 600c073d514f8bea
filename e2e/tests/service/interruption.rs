//! Tests of schedulers that end before all of their bindings are placed or all of their results are written.

use std::time::Instant;

use berth_api::well_known::APPLIED_PLACEMENT;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::assertions::{
    assert_each_placed_once, engine_decisions, is_settled, targets, wait_until_all_placed,
};
use crate::objects::{binding, fleet, mixed};
use crate::process::{self, ANY_PORT};

const BINDINGS: u32 = 1000;

/// The first process has placed some of 1000 bindings when it receives the signal. Each placed binding then has its
/// status, too. The second process places the other bindings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_completes_the_work_interrupted_by_sigterm() {
    let bare = BareControlPlane::start(&fleet(4)).await;
    let bindings = mixed("w", BINDINGS);
    let expected = engine_decisions(&bare, &bindings).await;
    bare.bind_all(&bindings).await;
    let arguments = [
        "--leader-elect=false",
        "--kube-api-qps=0",
        ANY_PORT[0],
        ANY_PORT[1],
    ];
    let mut first = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    eventually("some bindings to be placed", async || {
        let stored = bare.all_bindings().await;
        let placed = stored.iter().filter(|b| is_settled(b)).count();
        if placed >= 50 {
            Ok(())
        } else {
            Err(format!("{placed}"))
        }
    })
    .await;
    first.signal("TERM");
    let signalled = Instant::now();
    let status = first.wait_for_exit().await;
    let took = signalled.elapsed();
    assert!(status.success(), "{status}\n{}", first.log());
    let stored = bare.all_bindings().await;
    let placed = stored.iter().filter(|binding| is_settled(binding)).count();
    let written = stored
        .iter()
        .filter(|b| b.metadata.generation == Some(2))
        .count();
    assert!(
        placed < stored.len(),
        "the signal came too late to interrupt anything"
    );
    assert_eq!(placed, written, "a binding has clusters but no status");

    let restarted = Instant::now();
    let _second = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    let all = wait_until_all_placed(&bare, &expected).await;
    assert_each_placed_once(&all);
    println!(
        "SIGTERM after {placed} of {BINDINGS} bindings: ended within {took:.1?}, nothing half-written; \
         the next process placed the rest in {:.1?}",
        restarted.elapsed()
    );
    bare.stop().await;
}

/// A scheduler has moved a binding to its second affinity group, and has not written the status. The next scheduler
/// writes the status and keeps the clusters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_status_after_a_group_change_is_written() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let placement = json!({
        "clusterAffinities": [
            { "affinityName": "a", "clusterNames": ["m1"] },
            { "affinityName": "b", "clusterNames": ["m2"] },
        ],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated" },
    });
    bare.bind(&binding("moved", 2, placement)).await;
    let api = bare.bindings("default");
    let first = RunningScheduler::start(Options::embedded(), bare.remote_client().await);
    let settled = eventually("the binding to be placed", async || {
        let stored = api.get("moved").await.unwrap();
        if is_settled(&stored) {
            Ok(stored)
        } else {
            Err(format!("{:?}", stored.status))
        }
    })
    .await;
    first.stop().await.unwrap();
    assert_eq!(targets(&settled), [("m1".to_owned(), 2)].into());

    // This write simulates a scheduler that moves the binding to the second affinity group and ends before it writes
    // the status.
    let result = json!({
        "metadata": { "annotations": {
            APPLIED_PLACEMENT: settled.metadata.annotations.as_ref().unwrap()[APPLIED_PLACEMENT] } },
        "spec": { "clusters": [{ "name": "m2", "replicas": 2 }] },
    });
    let parameters = PatchParams::default();
    api.patch("moved", &parameters, &Patch::Merge(result))
        .await
        .unwrap();

    let second = RunningScheduler::start(Options::embedded(), bare.remote_client().await);
    let corrected = eventually("the status to be written", async || {
        let stored = api.get("moved").await.unwrap();
        let status = stored.status.clone().unwrap_or_default();
        if status.scheduler_observed_generation == stored.metadata.generation {
            Ok(stored)
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await;
    second.stop().await.unwrap();
    assert_eq!(targets(&corrected), [("m2".to_owned(), 2)].into());
    let status = corrected.status.unwrap();
    assert_eq!(
        status.scheduler_observing_affinity_name.as_deref(),
        Some("b")
    );
    bare.stop().await;
}
