use kube::runtime::watcher::Event;

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
