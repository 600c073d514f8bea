use berth_api::binding::BindingSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::store::BindingRow;

#[test]
fn a_binding_is_absent_only_after_the_first_lists() {
    let name = |name: &str| BindingKey::new("", name);
    let spec: BindingSpec = serde_json::from_value(json!({
        "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "web" },
    }))
    .unwrap();
    let mut store = Store::default();
    let row = BindingRow::new(&ObjectMeta::default(), &spec, None);
    store.apply_binding(name("web"), row, None);
    for (has_synced, of_listed, of_other) in [
        (false, Presence::PresentBeforeSync, Presence::Unknown),
        (true, Presence::Present, Presence::Absent),
    ] {
        store.has_synced = has_synced;
        assert_eq!(Presence::of(&name("web"), &store), of_listed);
        assert_eq!(Presence::of(&name("other"), &store), of_other);
    }
}
