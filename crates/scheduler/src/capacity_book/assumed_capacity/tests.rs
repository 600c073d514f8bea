//! Tests of single steps of the book. The module `histories` tests random histories.

mod histories;

use berth_api::ResourceBinding;
use serde_json::{Value, json};

use super::*;

fn binding(clusters: Value, healthy: &[&str]) -> Binding {
    let status: Vec<Value> = healthy
        .iter()
        .map(|name| json!({ "clusterName": name, "health": "Healthy" }))
        .collect();
    serde_json::from_value::<ResourceBinding>(json!({
        "metadata": { "name": "b", "namespace": "n" },
        "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" }, "replicas": 4,
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } }, "clusters": clusters },
        "status": { "aggregatedStatus": status },
    }))
    .unwrap()
    .into()
}

fn target(name: &str, replicas: i32) -> TargetCluster {
    TargetCluster {
        name: name.to_owned(),
        replicas,
        components: Vec::new(),
    }
}

/// Returns the replicas that are assumed on a cluster.
fn replicas(assumed: &AssumedCapacity, cluster: &str, now: Instant) -> i32 {
    let total = assumed.total(now);
    total
        .of(cluster)
        .iter()
        .flat_map(|workload| &workload.components)
        .map(|(replicas, _)| replicas)
        .sum()
}

#[test]
fn only_the_new_replicas_of_a_decision_are_assumed() {
    let (mut assumed, now) = (AssumedCapacity::default(), Instant::now());
    let running = binding(json!([{ "name": "m1", "replicas": 3 }]), &[]);
    assumed.decided(&running, &[target("m1", 4), target("m2", 2)], now);
    assert_eq!(
        (replicas(&assumed, "m1", now), replicas(&assumed, "m2", now)),
        (1, 2)
    );
    assumed.complete(&running.key, DecisionFate::Stored);
    // The binding is scaled again before the first report, so its share grows by the new replicas.
    let placed = binding(
        json!([{ "name": "m1", "replicas": 4 }, { "name": "m2", "replicas": 2 }]),
        &[],
    );
    assumed.decided(&placed, &[target("m1", 6), target("m2", 1)], now);
    let on =
        |assumed: &AssumedCapacity| (replicas(assumed, "m1", now), replicas(assumed, "m2", now));
    assert_eq!(
        on(&assumed),
        (3, 2),
        "the replica in m2 stays if the write fails"
    );
    assumed.complete(&running.key, DecisionFate::Stored);
    let scaled = binding(
        json!([{ "name": "m1", "replicas": 6 }, { "name": "m2", "replicas": 1 }]),
        &[],
    );
    assumed.observe(&placed, &scaled, now);
    assert_eq!(on(&assumed), (3, 1));
}

#[test]
fn a_failed_write_releases_its_share() {
    let (mut assumed, now) = (AssumedCapacity::default(), Instant::now());
    let new = binding(json!([]), &[]);
    assumed.decided(&new, &[target("m1", 4)], now);
    assumed.complete(&new.key, DecisionFate::Dropped);
    assert_eq!(replicas(&assumed, "m1", now), 0);
    assumed.decided(&new, &[target("m1", 2)], now);
    assumed.complete(&new.key, DecisionFate::Stored);
    let placed = binding(json!([{ "name": "m1", "replicas": 2 }]), &[]);
    assumed.decided(&placed, &[target("m1", 4)], now);
    assumed.complete(&new.key, DecisionFate::Dropped);
    assert_eq!(
        replicas(&assumed, "m1", now),
        2,
        "the capacity of the earlier decision stays assumed"
    );
}

#[test]
fn a_report_an_expiry_or_the_deletion_of_the_binding_releases_a_share() {
    let now = Instant::now();
    let decided = || {
        let mut assumed = AssumedCapacity::default();
        assumed.decided(
            &binding(json!([]), &[]),
            &[target("m1", 2), target("m2", 2)],
            now,
        );
        assumed.complete(&binding(json!([]), &[]).key, DecisionFate::Stored);
        assumed
    };
    let on = |assumed: &AssumedCapacity, now| {
        (replicas(assumed, "m1", now), replicas(assumed, "m2", now))
    };
    // A report releases the share of a workload only if the workload became healthy before the report.
    let mut assumed = decided();
    assumed.cluster_reported("m1", "");
    let placed = |healthy| {
        let clusters = json!([{ "name": "m1", "replicas": 2 }, { "name": "m2", "replicas": 2 }]);
        binding(clusters, healthy)
    };
    assumed.observe(&binding(json!([]), &[]), &placed(&[]), now);
    assumed.observe(&placed(&[]), &placed(&["m1"]), now);
    assert_eq!(on(&assumed, now), (2, 2));
    let (unhealthy, any_healthy) = assumed.unhealthy_total(now);
    let on_each = ["m1", "m2"].map(|cluster| unhealthy.of(cluster).len());
    assert_eq!(
        (on_each, any_healthy),
        ([0, 1], true),
        "the last report of m1 may include the healthy workload"
    );
    assumed.cluster_reported("m2", "");
    assert_eq!(on(&assumed, now), (2, 2));
    assert_eq!(
        on(&assumed, now + EXPIRY_ONCE_READY),
        (0, 2),
        "the share of a healthy workload expires earlier"
    );
    assert_eq!(
        assumed.next_expiry(),
        Some(now + EXPIRY_ONCE_READY),
        "the next expiry is the expiry of the healthy workload's share"
    );
    assumed.cluster_reported("m1", "");
    assert_eq!(on(&assumed, now), (0, 2));
    let mut assumed = decided();
    assert_eq!(replicas(&assumed, "m1", now + EXPIRY), 0);
    assert_eq!(assumed.next_expiry(), Some(now + EXPIRY));
    assert!(assumed.expire(now).is_empty());
    let expired = assumed.expire(now + EXPIRY);
    assert_eq!(expired, ["m1", "m2"].map(str::to_owned).into());
    assert!(assumed.entries.is_empty());
    let mut assumed = decided();
    assumed.remove(&binding(json!([]), &[]).key);
    assert_eq!(replicas(&assumed, "m1", now), 0);
}

#[test]
fn at_start_recent_placements_are_assumed() {
    let now = Instant::now();
    let placed = binding(
        json!([{ "name": "m1", "replicas": 3 }, { "name": "m2", "replicas": 1 }]),
        &["m2"],
    );
    let mut assumed = AssumedCapacity::default();
    assumed.restore(&placed, Duration::from_mins(4), now);
    let on = |assumed: &AssumedCapacity, now| {
        (replicas(assumed, "m1", now), replicas(assumed, "m2", now))
    };
    assert_eq!(on(&assumed, now), (3, 1));
    assert_eq!(
        on(&assumed, now + Duration::from_mins(1)),
        (0, 0),
        "the lifetime of a share includes the time before the start"
    );
    assumed.cluster_reported("m1", "");
    assumed.cluster_reported("m2", "");
    assert_eq!(
        on(&assumed, now),
        (3, 0),
        "the report includes the healthy workload"
    );
    let mut assumed = AssumedCapacity::default();
    assumed.restore(&placed, EXPIRY, now);
    assert_eq!(on(&assumed, now), (0, 0));
}

/// Returns a placed binding with the ready replicas that its cluster reports.
fn running(replicas: i32, ready: i32, version: u64) -> Binding {
    let mut binding = binding(json!([{ "name": "m1", "replicas": replicas }]), &["m1"]);
    binding.status.aggregated_status[0].status = Some(json!({ "readyReplicas": ready }));
    binding.metadata.resource_version = Some(version.to_string());
    binding
}

/// The status of a scaled workload stays healthy, and the report of the cluster was written before the new replicas.
#[test]
fn a_report_releases_the_replicas_that_were_ready_before_it() {
    let (mut assumed, now) = (AssumedCapacity::default(), Instant::now());
    let key = running(3, 3, 1).key;
    assumed.decided(&running(3, 3, 1), &[target("m1", 4)], now);
    assumed.complete(&key, DecisionFate::Stored);
    assumed.observe(&running(3, 3, 1), &running(4, 3, 2), now);
    assumed.cluster_reported("m1", "3");
    assert_eq!(replicas(&assumed, "m1", now), 1, "3 of 4 are ready");
    assumed.observe(&running(4, 3, 2), &running(4, 4, 5), now);
    assumed.cluster_reported("m1", "4");
    assert_eq!(replicas(&assumed, "m1", now), 1, "the report is too old");
    assumed.cluster_reported("m1", "6");
    assert_eq!(replicas(&assumed, "m1", now), 0);
}

#[test]
fn a_change_by_another_client_is_assumed_and_released() {
    let (mut assumed, now) = (AssumedCapacity::default(), Instant::now());
    let of = |clusters: Value| binding(clusters, &[]);
    let none = || of(json!([]));
    let four = || of(json!([{ "name": "m1", "replicas": 4 }]));
    let one = || of(json!([{ "name": "m1", "replicas": 1 }]));
    // The scheduler that was the leader before has placed the workload.
    assumed.observe(&none(), &four(), now);
    assert_eq!(replicas(&assumed, "m1", now), 4);
    assumed.observe(&four(), &one(), now);
    assert_eq!(replicas(&assumed, "m1", now), 1);
    let mut evicted = none();
    let tasks = json!([{ "fromCluster": "m1", "reason": "R", "producer": "P" }]);
    evicted.spec.graceful_eviction_tasks = serde_json::from_value(tasks).unwrap();
    assumed.observe(&one(), &evicted, now);
    assumed.decided(&evicted, &[target("m2", 1)], now);
    assert_eq!(
        replicas(&assumed, "m1", now),
        1,
        "the old replica runs until the eviction ends"
    );
    assumed.complete(&none().key, DecisionFate::Dropped);
    assumed.observe(&evicted, &none(), now);
    assert_eq!(replicas(&assumed, "m1", now), 0);
    assumed.observe(&none(), &four(), now);
    assumed.observe(&four(), &none(), now);
    assert_eq!(replicas(&assumed, "m1", now), 0);
}

#[test]
fn a_write_without_response_stays_assumed_until_the_next_decision() {
    let (mut assumed, now) = (AssumedCapacity::default(), Instant::now());
    let new = binding(json!([]), &[]);
    let lose_response = |assumed: &mut AssumedCapacity| {
        assumed.decided(&new, &[target("m1", 4)], now);
        assumed.result_unknown(&new.key);
        assumed.complete(&new.key, DecisionFate::Dropped);
    };
    lose_response(&mut assumed);
    assert_eq!(replicas(&assumed, "m1", now), 4);
    let stored = binding(json!([{ "name": "m1", "replicas": 4 }]), &[]);
    assumed.observe(&new, &stored, now);
    assert_eq!(replicas(&assumed, "m1", now), 4, "the write has succeeded");
    let mut assumed = AssumedCapacity::default();
    lose_response(&mut assumed);
    assert_eq!(assumed.total_for(&new.key, now), Assumed::default());
    assumed.decided(&new, &[target("m2", 1)], now);
    assumed.complete(&new.key, DecisionFate::Stored);
    assert_eq!(
        (replicas(&assumed, "m1", now), replicas(&assumed, "m2", now)),
        (0, 1),
        "the write has failed, and the workload goes elsewhere"
    );
    let mut assumed = AssumedCapacity::default();
    lose_response(&mut assumed);
    let mut later = binding(json!([]), &[]);
    later.metadata.resource_version = Some("2".to_owned());
    assumed.observe(&new, &later, now);
    assert_eq!(replicas(&assumed, "m1", now), 0, "the write has failed");
}

/// Replicas in m1 never become ready, and the workload is scaled in m2 once a minute.
#[test]
fn later_decisions_about_a_workload_do_not_prolong_a_share() {
    let (mut assumed, start) = (AssumedCapacity::default(), Instant::now());
    let mut stored = binding(json!([]), &[]);
    for minute in 0..10_i32 {
        let now = start + Duration::from_mins(u64::try_from(minute).unwrap());
        assumed.expire(now);
        let targets = [target("m1", 4), target("m2", minute % 2)];
        assumed.decided(&stored, &targets, now);
        assumed.complete(&stored.key, DecisionFate::Stored);
        let next = binding(json!(targets), &[]);
        assumed.observe(&stored, &next, now);
        stored = next;
        let expected = if minute < 5 { 4 } else { 0 };
        assert_eq!(replicas(&assumed, "m1", now), expected, "minute {minute}");
    }
}

/// Two bursts of workloads are decided between two reports. Each burst alone fits into m1.
#[test]
fn the_second_burst_sees_the_capacity_of_the_first() {
    let now = Instant::now();
    let free = |assumed: &AssumedCapacity| 10 - replicas(assumed, "m1", now);
    let mut assumed = AssumedCapacity::default();
    for index in 0..3_i32 {
        let mut first = binding(json!([]), &[]);
        first.key = BindingKey::new("n", &format!("w{index}"));
        assumed.decided(&first, &[target("m1", 3)], now);
        assumed.complete(&first.key, DecisionFate::Stored);
    }
    assert_eq!(free(&assumed), 1);
    assert_eq!(
        assumed.total(now).of("m1").len(),
        1,
        "equal requests are one workload"
    );
}
