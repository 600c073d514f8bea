use std::collections::BTreeMap;

use berth_api::Cluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::explainer::BindingName;
use crate::query::Query;
use crate::store::{BindingRow, ClusterRow, Store};

const HOSTILE: &str = "<script>alert(\"1\")</script>";

/// Returns a store whose texts all contain markup.
fn store() -> Store {
    let mut store = Store::default();
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": {"name": HOSTILE},
        "spec": {"syncMode": "Push", "provider": HOSTILE,
            "taints": [{"key": HOSTILE, "value": HOSTILE, "effect": "NoSchedule"}]},
        "status": {"kubernetesVersion": HOSTILE, "resourceSummary": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocated": {"cpu": "1"}}},
    }))
    .unwrap();
    store
        .clusters
        .insert(HOSTILE.to_owned(), ClusterRow::new(&cluster));
    let spec = json!({
        "resource": {"apiVersion": "v1", "kind": HOSTILE, "name": HOSTILE},
        "clusters": [{"name": HOSTILE, "replicas": 2}],
    });
    let status = json!({"conditions": [{
        "type": "Scheduled", "status": "False", "reason": HOSTILE, "message": HOSTILE,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let row = BindingRow::new(
        &ObjectMeta::default(),
        &serde_json::from_value(spec).unwrap(),
        Some(&serde_json::from_value(status).unwrap()),
    );
    let name = BindingName {
        namespace: Some(HOSTILE.to_owned()),
        name: HOSTILE.to_owned(),
    };
    store.apply_binding(name, row, Some(jiff::Timestamp::UNIX_EPOCH));
    store
}

#[test]
fn no_view_contains_markup_of_objects_or_queries() {
    let store = store();
    let pairs: BTreeMap<String, String> = [("policy", ""), ("q", HOSTILE)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    for (view, page) in [
        ("fleet", fleet::page(&store, &fleet::View::new(&pairs))),
        ("bindings", bindings::page(&store, &Query::new(&pairs))),
        ("live", live::page(&store)),
    ] {
        let Document(page) = page;
        assert!(!page.contains("<script>"), "{view}: {page}");
        assert!(page.contains("&lt;script&gt;"), "{view}: {page}");
        assert!(!page.contains("style=\""), "{view}: the policy forbids it");
    }
}

#[test]
fn the_fleet_shows_free_capacity_and_load() {
    let Document(page) = fleet::page(&store(), &fleet::View::new(&BTreeMap::new()));
    for expected in [
        "1 of 4 allocated, 3 free",
        "8 GiB free of 8 GiB",
        "Not ready",
        "no condition Ready",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}

#[test]
fn every_page_has_a_language_a_title_and_a_current_tab() {
    let Document(page) = live::page(&Store::default());
    for expected in [
        "<html lang=\"en\">",
        "<title>Live · Berth</title>",
        "href=\"/live\" aria-current=\"page\"",
        "href=\"#content\"",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}
