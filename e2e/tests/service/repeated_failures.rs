//! Tests of retries that fail for an unchanged reason. Such a retry writes nothing and adds no event.

use std::collections::BTreeMap;

use berth_api::ResourceBinding;
use berth_e2e::{BareControlPlane, eventually};
use kube::ResourceExt;
use serde_json::json;

use crate::assertions::{events, wait_for_events};
use crate::metrics_access::{addresses, get};
use crate::objects::{aggregated, binding, fleet, on_cluster};
use crate::process;
use crate::requeue_events::{patch_cluster, wait_for_failure};

/// Number of retries to wait for.
const RETRIES: u64 = 2;

/// Returns the number of attempts to schedule all bindings, with any result.
async fn attempts(address: &str) -> u64 {
    let (_, text) = get(&format!("http://{address}/metrics"), None).await;
    text.lines()
        .filter(|line| line.starts_with("karmada_scheduler_schedule_attempts_total{"))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(_, count)| count.parse::<u64>().unwrap())
        .sum()
}

/// Schedules a binding that fails for the given reason, and changes a cluster until the binding has been retried.
/// Checks that the retries change neither the binding nor its event.
async fn assert_reported_once(failing: ResourceBinding, reason: &str) {
    let bare = BareControlPlane::start(&fleet(3)).await;
    let arguments = [
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
    ];
    let program = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    let (_, metrics) = addresses(&program).await;
    let name = failing.name_any();
    bare.bind_all(&[failing]).await;
    wait_for_failure(&bare, &name, reason).await;
    let bindings = bare.bindings("default");
    let reported = bindings.get(&name).await.unwrap().resource_version();
    let first = attempts(&metrics).await;

    let mut memory = 100;
    eventually("retries", async || {
        let now = attempts(&metrics).await;
        if now >= first + RETRIES {
            return Ok(());
        }
        memory += 1;
        // The bindings request CPUs only. Therefore the number of replicas that fit and the message do not change.
        let allocatable = json!({ "memory": format!("{memory}Gi") });
        let status = json!({ "resourceSummary": { "allocatable": allocatable } });
        patch_cluster(&bare, "m1", json!({ "status": status })).await;
        Err(format!("{now} attempts, {first} at first"))
    })
    .await;

    // One process sends its writes and events in order, so an event about the marker follows all earlier events.
    bare.bind_all(&[binding("marker", 1, on_cluster("m1"))])
        .await;
    let marker = BTreeMap::from([("marker".to_owned(), BTreeMap::new())]);
    wait_for_events(&bare, &marker, "ScheduleBindingSucceed").await;
    let counts: Vec<_> = events(&bare)
        .await
        .into_iter()
        .filter(|event| event.involved_object.kind.as_deref() == Some("ResourceBinding"))
        .filter(|event| event.involved_object.name.as_deref() == Some(&name))
        .map(|event| event.count)
        .collect();
    assert_eq!(counts, [Some(1)]);
    let stored = bindings.get(&name).await.unwrap();
    assert_eq!(stored.resource_version(), reported);
    drop(program);
    bare.stop().await;
}

/// The reason is `Unschedulable`: the cluster is too small for the replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_lack_of_capacity_is_reported_once() {
    let mut on_m1 = aggregated();
    on_m1["clusterAffinity"] = json!({ "clusterNames": ["m1"] });
    assert_reported_once(binding("too-large", 1_000_000, on_m1), "Unschedulable").await;
}

/// The reason is `SchedulerError`: the spread constraint requires more clusters than exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_error_is_reported_once() {
    let spread_out = json!({ "spreadConstraints": [
        { "spreadByField": "cluster", "minGroups": 4, "maxGroups": 5 }] });
    assert_reported_once(binding("spread-out", 1, spread_out), "SchedulerError").await;
}
