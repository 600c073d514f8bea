use berth_api::well_known::PROPAGATION_POLICY_NAME;
use berth_api::{Cluster, ResourceBinding};
use berth_diagnosis::Health;
use serde_json::{Value, json};

use super::moves::{MAX_MOVES, MoveCounts};
use super::*;

const PLACED: &str = "2026-01-01T00:00:00Z";

fn name(name: &str) -> BindingKey {
    BindingKey::new("shop", name)
}

fn at(seconds: i64) -> Timestamp {
    let placed: Timestamp = PLACED.parse().unwrap();
    placed + jiff::SignedDuration::from_secs(seconds)
}

/// Returns a binding whose copies are all ready.
fn binding(binding: &str, targets: &[(&str, i32)], placement: Value) -> Binding {
    let clusters: Vec<_> = targets
        .iter()
        .map(|(name, replicas)| json!({"name": name, "replicas": replicas}))
        .collect();
    let items: Vec<_> = targets
        .iter()
        .map(|(name, replicas)| {
            json!({"clusterName": name, "applied": true, "health": "Healthy",
                "status": {"replicas": replicas, "readyReplicas": replicas}})
        })
        .collect();
    let spec = json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "replicas": 1, "clusters": clusters, "placement": placement,
    });
    let status = json!({"aggregatedStatus": items, "lastScheduledTime": PLACED, "conditions": [{
        "type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": PLACED,
    }]});
    let metadata = json!({"namespace": "shop", "name": binding, "creationTimestamp": PLACED});
    let binding = json!({"metadata": metadata, "spec": spec, "status": status});
    let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
    binding.into()
}

fn apply(store: &mut Store, of: &str, targets: &[(&str, i32)], moved_at: Option<Timestamp>) {
    let binding = binding(of, targets, json!({}));
    store.apply_binding(binding, moved_at, at(3600));
}

fn cluster(ready: &str) -> ClusterRow {
    let condition = json!({"type": "Ready", "status": ready, "reason": "r", "message": "m", "lastTransitionTime": PLACED});
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "m"}, "spec": {"syncMode": "Push"},
        "status": {"conditions": [condition], "resourceSummary": {"allocatable": {"cpu": "4"}, "allocated": {"cpu": "1"}}},
    }))
    .unwrap();
    ClusterRow::new(&cluster)
}

#[test]
fn loads_follow_the_bindings() {
    let mut store = Store::default();
    apply(&mut store, "a", &[("m1", 2), ("m2", 1)], None);
    apply(&mut store, "b", &[("m1", 3)], None);
    let load = |bindings, replicas| Load { bindings, replicas };
    assert_eq!(store.load("m1"), load(2, 5));
    apply(&mut store, "a", &[("m2", 4)], Some(at(0)));
    assert_eq!(store.load("m1"), load(1, 3));
    assert_eq!(store.load("m2"), load(1, 4));
    let listed = BTreeSet::from([name("a")]);
    store.retain_bindings(BindingKind::Namespaced, &listed, at(0));
    assert_eq!(store.load("m1"), Load::default());
    assert_eq!(store.bindings.len(), 1);
}

#[test]
fn changes_after_the_first_list_are_recorded_as_moves() {
    let mut store = Store::default();
    apply(&mut store, "a", &[("m1", 2)], None);
    apply(&mut store, "a", &[("m1", 2)], Some(at(0)));
    assert_eq!(store.moves.newest_first().count(), 0);
    apply(&mut store, "a", &[("m2", 2)], Some(at(0)));
    store.remove_binding(&name("a"), at(0));
    let seen: Vec<(usize, usize)> = store
        .moves
        .newest_first()
        .map(|of| (of.before.len(), of.after.len()))
        .collect();
    assert_eq!(seen, [(1, 0), (1, 1)]);
    for number in 0..=MAX_MOVES {
        let replicas = i32::try_from(number).unwrap() + 1;
        apply(&mut store, "b", &[("m1", replicas)], Some(at(0)));
    }
    assert_eq!(store.moves.newest_first().count(), MAX_MOVES);
    // The numbers of the last hour count all moves.
    let counts = store.moves.of_last_hour(at(0));
    let expected = MoveCounts {
        placed: 1,
        moved: MAX_MOVES + 1,
        removed: 1,
    };
    assert_eq!(counts, expected);
    assert_eq!(store.moves.of_last_hour(at(3600)), MoveCounts::default());
}

#[test]
fn the_counts_and_the_list_of_the_last_hour_have_the_same_moves() {
    let mut store = Store::default();
    for minute in 0..5 {
        apply(&mut store, "a", &[("m1", 2)], Some(at(60 * minute)));
        apply(&mut store, "a", &[("m2", 2)], Some(at(60 * minute + 59)));
    }
    for second in 3500..3900 {
        let listed = store.moves.in_last_hour(at(second)).count();
        let counts = store.moves.of_last_hour(at(second));
        assert_eq!(listed, counts.placed + counts.moved, "{second}");
    }
    assert_eq!(store.moves.in_last_hour(at(3599)).count(), 10);
    assert_eq!(store.moves.in_last_hour(at(3600)).count(), 8);
    assert_eq!(store.moves.in_last_hour(at(3840)).count(), 0);
}

#[test]
fn a_dependency_counts_as_load_and_moves_silently() {
    let mut store = Store::default();
    let mut dependency = binding("config", &[], Value::Null);
    let parent =
        json!({"namespace": "shop", "name": "web", "clusters": [{"name": "m1", "replicas": 2}]});
    dependency.spec.required_by = vec![serde_json::from_value(parent).unwrap()];
    store.apply_binding(dependency, Some(at(0)), at(3600));
    let row = &store.bindings[&name("config")];
    assert!(row.is_dependency());
    assert_eq!(row.needed_by(), ["shop/web".into()]);
    assert_eq!(store.load("m1").bindings, 1);
    assert_eq!(store.moves.newest_first().count(), 0);
}

#[test]
fn a_move_names_its_cause() {
    let moved = |before: Binding, after: Binding| {
        let mut store = Store::default();
        store.apply_binding(before, None, at(0));
        store.apply_binding(after, Some(at(1)), at(1));
        let newest = store.moves.newest_first().next().unwrap();
        newest.cause.describe()
    };
    let of = |cluster: &str| binding("a", &[(cluster, 2)], json!({}));
    assert_eq!(moved(of("m1"), of("m2")), "the scheduler decided");
    let mut scaled = of("m2");
    scaled.spec.replicas = 4;
    assert_eq!(
        moved(of("m1"), scaled),
        "the workload was scaled from 1 to 4 replicas"
    );
    let mut evicted = of("m2");
    let task = json!({"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager", "message": "disk"});
    evicted.spec.graceful_eviction_tasks = vec![serde_json::from_value(task).unwrap()];
    let cause = "TaintManager evicted it from m1 (TaintUntolerated): disk";
    assert_eq!(moved(of("m1"), evicted.clone()), cause);
    // A task that was there before is not the cause.
    let mut later = evicted.clone();
    later.spec.clusters[0].name = "m3".to_owned();
    assert_eq!(moved(evicted, later), "the scheduler decided");
    let mut requested = of("m2");
    let time = serde_json::from_value(json!(PLACED)).unwrap();
    requested.spec.reschedule_triggered_at = Some(time);
    let cause = "a new placement was requested (rescheduleTriggeredAt)";
    assert_eq!(moved(of("m1"), requested), cause);
    let mut other = of("m2");
    let annotations = [(PROPAGATION_POLICY_NAME.to_owned(), "new".to_owned())];
    other.metadata.annotations = Some(annotations.into());
    assert_eq!(
        moved(of("m1"), other),
        "the policy changed from none to shop/new"
    );
}

#[test]
fn a_move_names_the_change_before_it_that_the_scheduler_has_not_used() {
    let of = |cluster: &str, replicas: i32, scheduled: i64| {
        let mut binding = binding("a", &[(cluster, 2)], json!({}));
        binding.spec.replicas = replicas;
        let time = serde_json::from_value(json!(at(scheduled))).unwrap();
        binding.status.last_scheduled_time = Some(time);
        binding
    };
    for (steps, expected) in [
        // The detector writes the replicas, and the scheduler writes the clusters later.
        (
            &[("m1", 4, 0), ("m2", 4, 0)][..],
            "the workload was scaled from 2 to 4 replicas",
        ),
        (
            &[("m1", 4, 0), ("m1", 6, 0), ("m2", 6, 0)],
            "the workload was scaled from 2 to 6 replicas",
        ),
        // The scheduler has used the replicas, and kept the clusters.
        (
            &[("m1", 4, 0), ("m1", 4, 5), ("m2", 4, 5)],
            "the scheduler decided",
        ),
    ] {
        let mut store = Store::default();
        store.apply_binding(of("m1", 2, 0), None, at(0));
        for (cluster, replicas, scheduled) in steps {
            let binding = of(cluster, *replicas, *scheduled);
            store.apply_binding(binding, Some(at(1)), at(1));
        }
        let newest = store.moves.newest_first().next().unwrap();
        assert_eq!(newest.cause.describe(), expected, "{steps:?}");
    }
}

#[test]
fn a_copy_that_leaves_counts_in_its_cluster() {
    let mut store = Store::default();
    let mut moving = binding("a", &[("m1", 2)], json!({}));
    moving.spec.clusters[0].name = "m2".to_owned();
    store.apply_binding(moving, None, at(0));
    let load = |bindings, replicas| Load { bindings, replicas };
    assert_eq!(store.load("m1"), load(1, 0));
    assert_eq!(store.load("m2"), load(1, 2));
    let copies: Vec<(&str, i32)> = store.bindings[&name("a")].copies().collect();
    assert_eq!(copies, [("m2", 2), ("m1", 0)]);
}

#[test]
fn a_lost_cluster_changes_the_health_of_the_workloads_there() {
    let mut store = Store::default();
    let now = at(3600);
    for name in ["m1", "m2"] {
        store.apply_cluster(name.to_owned(), cluster("True"));
    }
    apply(&mut store, "a", &[("m1", 2)], None);
    apply(&mut store, "b", &[("m2", 2)], None);
    store.diagnose_again(now, Duration::MAX);
    assert_eq!(store.health(now).to_string(), "2 well");
    assert_eq!(store.usable(|row| row.cpu).0.free(), 6000);
    assert!(!store.is_outdated(now));
    store.apply_cluster("m1".to_owned(), cluster("Unknown"));
    assert!(store.is_outdated(now));
    store.diagnose_again(now, Duration::MAX);
    assert_eq!(store.health(now).to_string(), "1 broken, 1 well");
    assert_eq!(store.bindings[&name("a")].workload.health, Health::Broken);
    // The free capacity of a lost cluster does not count.
    let (cpu, lost) = store.usable(|row| row.cpu);
    assert_eq!((cpu.free(), lost), (3000, 1));
    store.remove_cluster("m2");
    store.diagnose_again(now, Duration::MAX);
    assert_eq!(store.health(now).to_string(), "1 broken, 1 waiting");
}

/// Returns a store with two ready clusters and bindings that are not diagnosed with them yet.
fn outdated_store() -> Store {
    let mut store = Store::default();
    for number in 0..100 {
        let binding = format!("a{number:02}");
        apply(&mut store, &binding, &[("m1", 2), ("m2", 1)], None);
    }
    for name in ["m1", "m2"] {
        store.apply_cluster(name.to_owned(), cluster("True"));
    }
    store
}

/// Diagnoses one binding.
fn diagnose_one(store: &mut Store, now: Timestamp) {
    let before = store.outdated.len();
    store.diagnose_again(now, Duration::from_nanos(1));
    assert_eq!(store.outdated.len(), before - 1);
}

#[test]
fn a_diagnosis_in_slices_has_the_result_of_one_pass() {
    let now = at(3600);
    let (mut whole, mut sliced) = (outdated_store(), outdated_store());
    assert!(!whole.diagnose_again(now, Duration::MAX));
    assert!(sliced.diagnose_again(now, Duration::ZERO));
    assert_eq!(sliced.outdated.len(), 100);
    assert_ne!(sliced.bindings, whole.bindings);
    while !sliced.outdated.is_empty() {
        assert!(sliced.is_outdated(now));
        diagnose_one(&mut sliced, now);
    }
    assert!(!sliced.is_outdated(now));
    assert_eq!(sliced.bindings, whole.bindings);
    assert_eq!(sliced.next_change, whole.next_change);
    assert_eq!(sliced.health(now).to_string(), "100 well");
}

#[test]
fn a_cluster_that_changes_between_slices_changes_rows_that_are_done() {
    let now = at(3600);
    let mut store = outdated_store();
    store.diagnose_again(now, Duration::ZERO);
    for _ in 0..50 {
        diagnose_one(&mut store, now);
    }
    store.apply_cluster("m1".to_owned(), cluster("Unknown"));
    while store.is_outdated(now) {
        store.diagnose_again(now, Duration::MAX);
    }
    assert_eq!(store.health(now).to_string(), "100 degraded");
}

#[test]
fn a_binding_that_changes_between_slices_is_not_diagnosed_twice() {
    let now = at(3600);
    let mut store = outdated_store();
    store.diagnose_again(now, Duration::ZERO);
    // A binding whose row stays the same, and one whose row may change by itself.
    apply(&mut store, "a00", &[("m1", 2), ("m2", 1)], None);
    let mut starting = binding("a01", &[("m1", 2)], json!({}));
    starting.status.aggregated_status[0].status = Some(json!({"replicas": 2, "readyReplicas": 0}));
    store.apply_binding(starting, None, at(10));
    assert_eq!(store.outdated.len(), 98);
    assert_eq!(
        store.next_change,
        store.bindings[&name("a01")].next_change()
    );
    store.remove_binding(&name("a02"), now);
    assert!(!store.diagnose_again(at(20), Duration::MAX));
    assert!(!store.bindings.contains_key(&name("a02")));
    assert!(store.next_change.is_some());
}

#[test]
fn a_row_is_diagnosed_again_when_replicas_may_no_longer_be_starting() {
    let mut store = Store::default();
    store.apply_cluster("m1".to_owned(), cluster("True"));
    let mut starting = binding("a", &[("m1", 2)], json!({}));
    starting.status.aggregated_status[0].status = Some(json!({"replicas": 2, "readyReplicas": 0}));
    store.apply_binding(starting, None, at(10));
    store.diagnose_again(at(10), Duration::MAX);
    assert_eq!(store.health(at(10)).to_string(), "1 waiting");
    assert!(!store.is_outdated(at(60)));
    assert!(store.is_outdated(at(180)));
    assert_eq!(store.health(at(180)).to_string(), "1 broken");
    store.diagnose_again(at(180), Duration::MAX);
    let row = &store.bindings[&name("a")].workload;
    assert_eq!((row.health, row.later), (Health::Broken, None));
    assert!(!store.is_outdated(at(180)));
}
