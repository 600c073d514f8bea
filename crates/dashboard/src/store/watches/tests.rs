use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;

/// Completes the lists of all kinds.
fn complete_lists(watches: &mut Watches) {
    watches.on_cluster(Event::InitDone);
    watches.on_namespaced_binding(Event::InitDone);
    watches.on_cluster_scoped_binding(Event::InitDone);
}

/// Returns a binding with a copy in the cluster `m1`.
fn binding() -> ResourceBinding {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}, "placement": {},
            "clusters": [{"name": "m1"}]},
        "status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true}]},
    }))
    .unwrap()
}

/// Returns the cluster `m1`.
fn cluster(ready: &str) -> Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": "m1"}, "spec": {"syncMode": "Push"},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "r", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
    .unwrap()
}

#[test]
fn the_store_has_synced_after_the_first_list_of_each_kind() {
    let shared = SharedState::default();
    let mut watches = Watches::new(shared.clone());
    let has_synced = |watches: &mut Watches| {
        assert!(!watches.on_tick(Timestamp::now()));
        shared.store.read().has_synced
    };
    // The clusters are listed twice before the first list of ClusterResourceBindings ends.
    for _ in 0..2 {
        watches.on_cluster(Event::Init);
        watches.on_cluster(Event::InitDone);
    }
    watches.on_namespaced_binding(Event::Init);
    watches.on_namespaced_binding(Event::InitDone);
    assert!(!has_synced(&mut watches));
    watches.on_cluster_scoped_binding(Event::Init);
    assert!(!has_synced(&mut watches));
    watches.on_cluster_scoped_binding(Event::InitDone);
    assert!(has_synced(&mut watches));
    // A later list does not reset the state.
    watches.on_namespaced_binding(Event::Init);
    assert!(has_synced(&mut watches));
}

#[test]
fn the_store_has_synced_when_no_row_is_outdated() {
    let shared = SharedState::default();
    let mut watches = Watches::new(shared.clone());
    let now = Timestamp::now();
    watches.on_namespaced_binding(Event::InitApply(binding()));
    watches.on_cluster(Event::InitApply(cluster("True")));
    // No row is diagnosed again before all lists are complete.
    assert!(!watches.on_tick(now));
    assert!(shared.store.read().is_outdated(now));
    complete_lists(&mut watches);
    watches.slice = Duration::ZERO;
    for _ in 0..3 {
        assert!(watches.on_tick(now));
        assert!(!shared.store.read().has_synced);
    }
    assert_eq!(shared.store.read().synced_at, Some(now));
    watches.slice = Duration::MAX;
    assert!(!watches.on_tick(now));
    assert!(shared.store.read().has_synced);
    assert!(!shared.store.read().is_outdated(now));
}

#[test]
fn a_failed_watch_is_an_outage_until_it_works_again() {
    let shared = SharedState::default();
    let watches = Watches::new(shared.clone());
    let mut versions = shared.version.subscribe();
    let failure = list_watch::Failure {
        code: Some(404),
        message: "the server could not find the requested resource".to_owned(),
    };
    watches.note(0, &Connection::Failed(failure));
    let outage = shared.store.read().outage().unwrap();
    assert_eq!(
        outage.reason,
        "the control plane does not serve Clusters: the server could not find the requested resource"
    );
    assert!(versions.has_changed().unwrap());
    versions.mark_unchanged();
    watches.note(0, &Connection::Works);
    assert_eq!(shared.store.read().outage(), None);
    assert!(versions.has_changed().unwrap());
}

#[test]
fn bindings_are_diagnosed_once_for_all_cluster_events_before_a_tick() {
    let shared = SharedState::default();
    let mut watches = Watches::new(shared.clone());
    watches.on_namespaced_binding(Event::InitApply(binding()));
    complete_lists(&mut watches);
    watches.on_tick(Timestamp::now());
    let verdict = || {
        let store = shared.store.read();
        let row = store.bindings.values().next().unwrap();
        row.workload.verdict.clone()
    };
    let before = verdict();
    for status in ["Unknown", "False", "True"] {
        watches.on_cluster(Event::Apply(cluster(status)));
        assert_eq!(verdict(), before);
    }
    watches.on_tick(Timestamp::now());
    assert_ne!(verdict(), before);
}
