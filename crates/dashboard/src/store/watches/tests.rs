use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;

#[test]
fn the_store_has_synced_after_the_first_list_of_each_kind() {
    let shared = SharedState::default();
    let has_synced = || shared.store.read().has_synced;
    let mut watches = Watches::new(shared.clone());
    // The clusters are listed twice before the first list of ClusterResourceBindings ends.
    for _ in 0..2 {
        watches.on_cluster(Event::Init);
        watches.on_cluster(Event::InitDone);
    }
    watches.on_namespaced_binding(Event::Init);
    watches.on_namespaced_binding(Event::InitDone);
    assert!(!has_synced());
    watches.on_cluster_scoped_binding(Event::Init);
    assert!(!has_synced());
    watches.on_cluster_scoped_binding(Event::InitDone);
    assert!(has_synced());
    // A later list does not reset the state.
    watches.on_namespaced_binding(Event::Init);
    assert!(has_synced());
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
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}, "placement": {},
            "clusters": [{"name": "m1"}]},
        "status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true}]},
    }))
    .unwrap();
    watches.on_namespaced_binding(Event::Apply(binding));
    let verdict = || {
        let store = shared.store.read();
        let row = store.bindings.values().next().unwrap();
        row.workload.verdict.clone()
    };
    let before = verdict();
    for status in ["Unknown", "False", "True"] {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": "m1"}, "spec": {"syncMode": "Push"},
            "status": {"conditions": [{"type": "Ready", "status": status, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap();
        watches.on_cluster(Event::Apply(cluster));
        assert_eq!(verdict(), before);
    }
    watches.on_tick(Timestamp::now());
    assert_ne!(verdict(), before);
}
