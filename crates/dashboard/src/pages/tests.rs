use std::collections::BTreeMap;

use berth_api::{BindingKey, Cluster, ResourceBinding};
use serde_json::json;

use super::*;
use crate::binding_query::{PAGE_SIZE, Query};
use crate::store::{BindingRow, ClusterRow, Store};

const HOSTILE: &str = "<script>alert(\"1\")</script>";

/// Returns a store whose objects contain HTML markup in all texts.
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
    let binding = json!({"metadata": {}, "spec": spec, "status": status});
    let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
    let row = BindingRow::of(&binding.into());
    let name = BindingKey::new(HOSTILE, HOSTILE);
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
        assert!(
            !page.contains("style=\""),
            "{view}: the content security policy forbids style attributes"
        );
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
fn the_frame_of_a_page_has_a_language_a_title_and_a_current_tab() {
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

/// Returns a store with 5,000 clusters and 50,000 bindings. Each binding is placed on three clusters.
fn large_store() -> Store {
    let mut store = Store::default();
    for index in 0..5000 {
        let name = format!("member-{index:04}");
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"syncMode": "Push", "provider": "cloud", "region": format!("region-{}", index % 20)},
            "status": {"kubernetesVersion": "v1.36.2", "resourceSummary": {
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1100"}, "allocated": {"cpu": "16"}}},
        }))
        .unwrap();
        store.clusters.insert(name, ClusterRow::new(&cluster));
    }
    for index in 0..50_000 {
        let clusters = [0, 1, 2].map(|offset| {
            let name = format!("member-{:04}", (index * 3 + offset) % 5000);
            json!({"name": name, "replicas": 1 + index % 4})
        });
        let resource = format!("web-{index:05}");
        let spec = json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": resource},
            "replicas": 3 + 3 * (index % 4), "clusters": clusters,
        });
        let binding = json!({"metadata": {}, "spec": spec});
        let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
        let row = BindingRow::of(&binding.into());
        let namespace = format!("team-{:03}", index % 500);
        let name = BindingKey::new(&namespace, &format!("{resource}-deployment"));
        store.apply_binding(name, row, Some(jiff::Timestamp::UNIX_EPOCH));
    }
    store
}

#[test]
fn pages_of_a_large_fleet_are_bounded() {
    let store = large_store();
    for (url, most_rows) in [
        ("fleet", 2 * PAGE_SIZE),
        ("fleet?q=region-7&page=3", 2 * PAGE_SIZE),
        ("bindings", PAGE_SIZE),
        ("bindings?q=web-4&sort=replicas&page=20", PAGE_SIZE),
        ("bindings?q=matches-nothing", 0),
        ("bindings?cluster=member-0042&sort=clusters", PAGE_SIZE),
        ("live", PAGE_SIZE),
    ] {
        let (view, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let pairs: BTreeMap<String, String> = pairs.collect();
        let start = std::time::Instant::now();
        let Document(page) = match view {
            "fleet" => fleet::page(&store, &fleet::View::new(&pairs)),
            "bindings" => bindings::page(&store, &Query::new(&pairs)),
            _ => live::page(&store),
        };
        let elapsed = start.elapsed();
        println!("{url}: {elapsed:?}, {} bytes", page.len());
        let (_, body) = page.split_once("<tbody>").unwrap_or_default();
        let rows = body.matches("<tr").count();
        assert!(rows <= most_rows, "{url} has {rows} rows");
        assert_eq!(rows > 0, most_rows > 0, "{url} has {rows} rows");
        assert!(page.len() < 300_000, "{url} has {} bytes", page.len());
        // A debug build is too slow for this limit.
        let is_optimized = !cfg!(debug_assertions);
        assert!(!is_optimized || elapsed.as_secs() < 1, "{url}: {elapsed:?}");
    }
}
