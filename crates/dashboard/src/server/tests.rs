use berth_api::ResourceBinding;
use serde_json::json;

use super::*;

#[test]
fn a_binding_is_absent_only_after_the_first_lists() {
    let name = |name: &str| BindingKey::new("", name);
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web" }, "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "web" } },
    }))
    .unwrap();
    let mut store = Store::default();
    store.apply_binding(binding.into(), None, jiff::Timestamp::UNIX_EPOCH);
    for (has_synced, of_listed, of_other) in [
        (false, Presence::PresentBeforeSync, Presence::Unknown),
        (true, Presence::Present, Presence::Absent),
    ] {
        store.has_synced = has_synced;
        let presence = |binding: &BindingKey| Presence::of(store.bindings.get(binding), &store);
        assert_eq!(presence(&name("web")), of_listed);
        assert_eq!(presence(&name("other")), of_other);
    }
}
