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
