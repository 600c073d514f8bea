use berth_api::{Cluster, ResourceBinding};
use berth_diagnosis::Health;
use serde_json::{Value, json};

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
    assert!(store.moves.is_empty());
    apply(&mut store, "a", &[("m2", 2)], Some(at(0)));
    store.remove_binding(&name("a"), at(0));
    let seen: Vec<(usize, usize)> = store
        .moves
        .iter()
        .map(|of| (of.before.len(), of.after.len()))
        .collect();
    assert_eq!(seen, [(1, 1), (1, 0)]);
    for number in 0..=MAX_MOVES {
        let replicas = i32::try_from(number).unwrap() + 1;
        apply(&mut store, "b", &[("m1", replicas)], Some(at(0)));
    }
    assert_eq!(store.moves.len(), MAX_MOVES);
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
    assert_eq!(row.needed_by(), ["shop/web"]);
    assert_eq!(store.load("m1").bindings, 1);
    assert!(store.moves.is_empty());
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
    store.diagnose_again(now);
    assert_eq!(store.health(now).to_string(), "2 well");
    assert_eq!(store.usable(|row| row.cpu).0.free(), 6000);
    assert!(!store.is_outdated(now));
    store.apply_cluster("m1".to_owned(), cluster("Unknown"));
    assert!(store.is_outdated(now));
    store.diagnose_again(now);
    assert_eq!(store.health(now).to_string(), "1 broken, 1 well");
    assert_eq!(store.bindings[&name("a")].workload.health, Health::Broken);
    // The free capacity of a lost cluster does not count.
    let (cpu, lost) = store.usable(|row| row.cpu);
    assert_eq!((cpu.free(), lost), (3000, 1));
    store.remove_cluster("m2");
    store.diagnose_again(now);
    assert_eq!(store.health(now).to_string(), "1 broken, 1 waiting");
}

#[test]
fn a_row_is_diagnosed_again_when_replicas_may_no_longer_be_starting() {
    let mut store = Store::default();
    store.apply_cluster("m1".to_owned(), cluster("True"));
    let mut starting = binding("a", &[("m1", 2)], json!({}));
    starting.status.aggregated_status[0].status = Some(json!({"replicas": 2, "readyReplicas": 0}));
    store.apply_binding(starting, None, at(10));
    store.diagnose_again(at(10));
    assert_eq!(store.health(at(10)).to_string(), "1 waiting");
    assert!(!store.is_outdated(at(60)));
    assert!(store.is_outdated(at(180)));
    assert_eq!(store.health(at(180)).to_string(), "1 broken");
    store.diagnose_again(at(180));
    let row = &store.bindings[&name("a")].workload;
    assert_eq!((row.health, row.later), (Health::Broken, None));
    assert!(!store.is_outdated(at(180)));
}
