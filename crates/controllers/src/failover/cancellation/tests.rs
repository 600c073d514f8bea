use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::binding::BindingRecord;
use super::super::cluster::ClusterRecord;
use super::super::cluster::tests::cluster;
use super::super::graceful_eviction::tests::binding_with;
use super::super::graceful_eviction::{TaskUpdate, update_tasks};
use super::super::report::tests::{clusters, long_ago};
use super::*;

/// A time long after the end of every grace period of these tests.
const NOW: i64 = 100_000;

fn task(from: &str, replicas: i64, before: &[&str]) -> Value {
    json!({ "fromCluster": from, "replicas": replicas, "purgeMode": "Gracefully",
        "reason": "TaintUntolerated", "producer": "TaintManager",
        "creationTimestamp": "1970-01-01T00:16:40Z", "clustersBeforeFailover": before })
}

fn divided(replicas: i64, placed: Value, tasks: Value) -> Value {
    json!({ "replicas": replicas, "clusters": placed, "gracefulEvictionTasks": tasks,
        "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided" } } })
}

fn duplicated(constraints: Value, placed: Value, tasks: Value) -> Value {
    json!({ "replicas": 2, "clusters": placed, "gracefulEvictionTasks": tasks,
        "placement": { "spreadConstraints": constraints } })
}

/// Returns a binding whose schedule is observed, with these reports of health.
fn observed(spec: &Value, health: &[(&str, &str)]) -> BindingRecord {
    let items = health
        .iter()
        .map(|(cluster, health)| json!({ "clusterName": cluster, "health": health }));
    let status =
        json!({ "schedulerObservedGeneration": 3, "aggregatedStatus": items.collect::<Vec<_>>() });
    let mut binding = binding_with(spec, &status);
    binding.placement = binding.body.spec.placement.clone();
    binding
}

fn update_with(binding: &BindingRecord, clusters: &HashMap<String, ClusterRecord>) -> TaskUpdate {
    let reports = Reports::new(binding, clusters, Instant::now());
    let now = Timestamp::from_second(NOW).unwrap();
    update_tasks(&reports, Duration::from_mins(10), now)
}

/// Checks the tasks of a binding while all members are ready and have no taint.
fn update(spec: &Value, health: &[(&str, &str)]) -> TaskUpdate {
    let clusters = clusters(&[("m1", true), ("m2", true), ("m3", true)], Instant::now());
    update_with(&observed(spec, health), &clusters)
}

/// Returns the clusters of a patch, such as `m1:2`.
fn targets(update: &TaskUpdate) -> Vec<String> {
    let patch = update.patch.as_ref().unwrap();
    let clusters = patch["spec"]["clusters"].as_array().unwrap().iter();
    clusters
        .map(|cluster| format!("{}:{}", name(cluster), replicas(cluster)))
        .collect()
}

#[test]
fn replicas_that_no_cluster_has_go_back_in_the_patch_that_ends_the_task() {
    let m1 = || json!([task("m1", 2, &["m1"])]);
    let one = json!([{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }]);
    for (about, spec, expected) in [
        ("the only cluster", divided(2, json!([]), m1()), "m1:2"),
        ("scaled up meanwhile", divided(5, json!([]), m1()), "m1:2"),
        ("scaled down meanwhile", divided(1, json!([]), m1()), "m1:1"),
        (
            "partly placed, the rest is healthy",
            divided(3, json!([{ "name": "m2", "replicas": 2, "new": 1 }]), m1()),
            "m2:2 m1:1",
        ),
        ("duplicated", duplicated(json!([]), json!([]), m1()), "m1:2"),
        (
            "duplicated, beside another cluster",
            duplicated(json!([]), json!([{ "name": "m2", "replicas": 2 }]), m1()),
            "m2:2 m1:2",
        ),
        (
            "at most one cluster",
            duplicated(one, json!([]), m1()),
            "m1:2",
        ),
        (
            "no workload",
            json!({ "placement": {}, "gracefulEvictionTasks": m1() }),
            "m1:0",
        ),
        (
            "without a placement",
            json!({ "gracefulEvictionTasks": m1() }),
            "m1:0",
        ),
    ] {
        let update = update(&spec, &[("m2", "Healthy")]);
        assert_eq!(targets(&update).join(" "), expected, "{about}");
        assert_eq!(update.cancelled, ["m1"], "{about}");
        assert_eq!(update.finished, [""; 0], "{about}");
        let patch = update.patch.unwrap();
        assert_eq!(patch["spec"]["gracefulEvictionTasks"], json!([]), "{about}");
    }
}

#[test]
fn a_move_that_is_not_finished_is_undone_and_a_finished_move_ends() {
    let m1 = |before: &[&str]| json!([task("m1", 2, before)]);
    let at = |list: &[(&str, i64)]| -> Value {
        let clusters = list.iter();
        clusters
            .map(|(name, n)| json!({ "name": name, "replicas": n }))
            .collect()
    };
    let one = || json!([{ "spreadByField": "cluster", "maxGroups": 1 }]);
    for (about, spec, m2, expected) in [
        (
            "to a new cluster",
            divided(2, at(&[("m2", 2)]), m1(&["m1"])),
            "Unhealthy",
            Some("m1:2"),
        ),
        (
            "to a cluster that had a copy before",
            divided(4, at(&[("m2", 4)]), m1(&["m1", "m2"])),
            "Unhealthy",
            Some("m2:2 m1:2"),
        ),
        (
            "the former copy keeps a replica",
            divided(2, at(&[("m2", 2)]), m1(&["m1", "m2"])),
            "Unhealthy",
            Some("m2:1 m1:1"),
        ),
        (
            "only from the cluster that is not healthy",
            divided(6, at(&[("m3", 3), ("m2", 3)]), m1(&["m1", "m3"])),
            "Unhealthy",
            Some("m3:3 m2:1 m1:2"),
        ),
        (
            "the health of a former copy is unknown",
            divided(4, at(&[("m2", 4)]), m1(&["m1", "m2"])),
            "Unknown",
            Some("m2:2 m1:2"),
        ),
        (
            "finished",
            divided(4, at(&[("m2", 4)]), m1(&["m1", "m2"])),
            "Healthy",
            None,
        ),
        (
            "duplicated",
            duplicated(one(), at(&[("m2", 2)]), m1(&["m1"])),
            "Unhealthy",
            Some("m1:2"),
        ),
        (
            "duplicated, finished",
            duplicated(one(), at(&[("m2", 2)]), m1(&["m1"])),
            "Healthy",
            None,
        ),
    ] {
        let update = update(&spec, &[("m2", m2), ("m3", "Healthy")]);
        let Some(expected) = expected else {
            assert_eq!(update.finished, ["m1"], "{about}");
            continue;
        };
        assert_eq!(targets(&update).join(" "), expected, "{about}");
        assert_eq!(update.cancelled, ["m1"], "{about}");
    }
}

/// The grace period of the tasks has ended long ago.
#[test]
fn no_copy_is_lost_where_nothing_can_go_back() {
    let one = || json!([{ "spreadByField": "cluster", "maxGroups": 1 }]);
    let region = || json!([{ "spreadByField": "region", "maxGroups": 1 }]);
    let on_m2 = || json!([{ "name": "m2", "replicas": 2 }]);
    let mut failed = task("m1", 2, &["m1"]);
    failed["reason"] = json!("ApplicationFailure");
    for (about, spec) in [
        (
            "the other cluster had its copy before",
            duplicated(one(), on_m2(), json!([task("m1", 2, &["m1", "m2"])])),
        ),
        (
            "the former clusters are unknown",
            duplicated(one(), on_m2(), json!([task("m1", 2, &[])])),
        ),
        (
            "another constraint, former clusters unknown",
            duplicated(region(), on_m2(), json!([task("m1", 2, &[])])),
        ),
        (
            "an application that is healthy again",
            divided(2, on_m2(), json!([failed])),
        ),
    ] {
        let update = update(&spec, &[("m1", "Healthy"), ("m2", "Unhealthy")]);
        assert_eq!((update.patch, update.next), (None, None), "{about}");
    }
}

#[test]
fn all_clusters_get_their_replicas_back_at_once() {
    let tasks = json!([task("m1", 2, &["m1", "m2"]), task("m2", 3, &["m2", "m1"])]);
    let update = update(&divided(5, json!([]), tasks), &[]);
    assert_eq!(targets(&update), ["m1:2", "m2:3"]);
    assert_eq!(update.cancelled, ["m1", "m2"]);
    // The second eviction also moved the replicas of the first. They do not go back twice.
    let tasks = json!([task("m1", 2, &["m1", "m2"]), task("m2", 4, &["m2", "m1"])]);
    let update = super::tests::update(&divided(4, json!([]), tasks), &[]);
    assert_eq!(targets(&update), ["m1:2", "m2:2"]);
}

#[test]
fn an_eviction_whose_cause_remains_ends_after_its_grace_period() {
    let now = Instant::now();
    let taints =
        json!([{ "key": "down", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z" }]);
    let m1 = |ready: &str, taints: &Value| {
        let record = ClusterRecord::new(
            cluster("m1", ready, 1, taints),
            None,
            Timestamp::UNIX_EPOCH,
            long_ago(now),
        );
        HashMap::from([("m1".to_owned(), record)])
    };
    let mut leaving = m1("True", &json!([]));
    leaving.get_mut("m1").unwrap().is_leaving = true;
    let spec = divided(2, json!([]), json!([task("m1", 2, &["m1"])]));
    let with = |field: &str, value: Value| {
        let mut spec = spec.clone();
        spec["gracefulEvictionTasks"][0][field] = value;
        spec
    };
    let tolerating = |seconds: Option<i64>| {
        let mut spec = spec.clone();
        spec["placement"]["clusterTolerations"] =
            json!([{ "key": "down", "operator": "Exists", "tolerationSeconds": seconds }]);
        spec
    };
    let elsewhere = {
        let mut spec = spec.clone();
        spec["placement"]["clusterAffinity"] = json!({ "clusterNames": ["m2"] });
        spec
    };
    let healthy = m1("True", &json!([]));
    for (about, spec, clusters, is_cancelled) in [
        ("the taint is gone", spec.clone(), &healthy, true),
        (
            "the member is not ready",
            spec.clone(),
            &m1("False", &json!([])),
            true,
        ),
        (
            "the taint is there",
            spec.clone(),
            &m1("True", &taints),
            false,
        ),
        (
            "it is tolerated",
            tolerating(None),
            &m1("True", &taints),
            true,
        ),
        (
            "it is no longer tolerated",
            tolerating(Some(60)),
            &m1("True", &taints),
            false,
        ),
        (
            "the cluster is being deleted",
            spec.clone(),
            &leaving,
            false,
        ),
        ("the cluster is gone", spec.clone(), &HashMap::new(), false),
        (
            "a task of a user",
            with("reason", json!("Manual")),
            &healthy,
            false,
        ),
        (
            "an application that is not known to be healthy",
            with("reason", json!("ApplicationFailure")),
            &healthy,
            false,
        ),
    ] {
        let update = update_with(&observed(&spec, &[]), clusters);
        assert_eq!(!update.cancelled.is_empty(), is_cancelled, "{about}");
        assert_eq!(update.finished.is_empty(), is_cancelled, "{about}");
    }
    // The placement no longer selects the cluster: the old copy stays until the new copies are healthy.
    let update = update_with(&observed(&elsewhere, &[]), &healthy);
    assert_eq!(update.patch, None);
    // A task with `suppressDeletion` is never cancelled.
    let update = update_with(
        &observed(&with("suppressDeletion", json!(true)), &[]),
        &healthy,
    );
    assert_eq!(update.patch, None);
    let update = update_with(
        &observed(&with("suppressDeletion", json!(false)), &[]),
        &healthy,
    );
    assert_eq!(update.finished, ["m1"]);
}

#[test]
fn the_last_report_of_a_member_that_is_not_ready_ends_no_eviction() {
    let mut spec = divided(2, json!([{ "name": "m2", "replicas": 2 }]), json!([]));
    let mut task = task("m1", 2, &["m1"]);
    task["creationTimestamp"] = json!(Timestamp::from_second(NOW - 10).unwrap());
    task["reason"] = json!("Manual");
    spec["gracefulEvictionTasks"] = json!([task]);
    let binding = observed(&spec, &[("m2", "Healthy")]);
    for (is_ready, finished) in [(false, &[][..]), (true, &["m1"])] {
        let clusters = clusters(&[("m1", true), ("m2", is_ready)], Instant::now());
        assert_eq!(update_with(&binding, &clusters).finished, finished);
    }
}

#[test]
fn no_eviction_ends_while_dispatching_to_its_cluster_is_suspended() {
    for (suspended, finished) in [("m1", &[][..]), ("m2", &["m1"])] {
        let mut spec = divided(2, json!([{ "name": "m2", "replicas": 2 }]), json!([]));
        let mut task = task("m1", 2, &["m1"]);
        task["reason"] = json!("Manual");
        spec["gracefulEvictionTasks"] = json!([task]);
        spec["suspension"] = json!({ "dispatchingOnClusters": { "clusterNames": [suspended] } });
        assert_eq!(update(&spec, &[("m2", "Healthy")]).finished, finished);
    }
}
