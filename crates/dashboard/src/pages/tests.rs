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
        "status": {"conditions": [{"type": "EvictionsPaused", "status": "True", "reason": "r", "message": HOSTILE,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "kubernetesVersion": HOSTILE, "resourceSummary": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocated": {"cpu": "1"}}},
    }))
    .unwrap();
    store
        .clusters
        .insert(HOSTILE.to_owned(), ClusterRow::new(&cluster));
    let spec = json!({
        "resource": {"apiVersion": "v1", "kind": HOSTILE, "name": HOSTILE},
        "clusters": [{"name": HOSTILE, "replicas": 2}],
        "gracefulEvictionTasks": [{"fromCluster": HOSTILE, "reason": HOSTILE, "producer": HOSTILE, "message": HOSTILE}],
    });
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": HOSTILE,
        "message": HOSTILE, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status =
        json!({"conditions": [condition("Scheduled", "False"), condition("Migrating", "True")]});
    let metadata = json!({"annotations": {"migration.berth/evicted-from": format!("{HOSTILE}2")}});
    let binding = json!({"metadata": metadata, "spec": spec, "status": status});
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
        (
            "binding",
            binding::page(
                &store,
                &BindingKey::new(HOSTILE, HOSTILE),
                &Err(HOSTILE.to_owned()),
            ),
        ),
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

/// Returns a store with a binding on `m2`, which has evictions paused, and with these fields of the binding's spec.
fn store_with_move(tasks: &serde_json::Value, reason: Option<&str>) -> Store {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut store = Store::default();
    for (name, conditions) in [
        (
            "m2",
            vec![condition("EvictionsPaused", "r", "3 of 4 are lost")],
        ),
        ("m3", Vec::new()),
    ] {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {"conditions": conditions},
        }))
        .unwrap();
        store
            .clusters
            .insert(name.to_owned(), ClusterRow::new(&cluster));
    }
    let conditions: Vec<_> = reason
        .map(|reason| condition("Migrating", reason, "0 of 2 are ready; m1 keeps 2"))
        .into_iter()
        .collect();
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"annotations": {"migration.berth/evicted-from": "m1"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "clusters": [{"name": "m2", "replicas": 2}], "gracefulEvictionTasks": tasks},
        "status": {"conditions": conditions},
    }))
    .unwrap();
    let row = BindingRow::of(&binding.into());
    store.apply_binding(BindingKey::new("shop", "web"), row, None);
    store
}

#[test]
fn the_list_of_bindings_has_a_badge_for_a_move() {
    let task =
        json!([{"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
    for (tasks, reason, expected) in [
        (json!([]), None, None),
        (task.clone(), None, Some("title=\"leaves m1\">Moving<")),
        (
            json!([]),
            Some("WaitingForReplicas"),
            Some("title=\"0 of 2 are ready; m1 keeps 2\">Moving<"),
        ),
        (
            task,
            Some("LastHealthyCopy"),
            Some("title=\"0 of 2 are ready; m1 keeps 2\">Last copy<"),
        ),
    ] {
        let store = store_with_move(&tasks, reason);
        let moving = usize::from(expected.is_some());
        assert_eq!(store.totals.moving, moving, "{reason:?}");
        let filter = [("state".to_owned(), "moving".to_owned())];
        let query = Query::new(&filter.into());
        assert_eq!(query.select(&store).total, moving, "{reason:?}");
        let Document(page) = bindings::page(&store, &Query::new(&BTreeMap::new()));
        assert!(
            page.contains(&format!("{moving} moving in total")),
            "{page}"
        );
        assert!(page.contains(expected.unwrap_or_default()), "{page}");
        assert_eq!(page.contains("title="), expected.is_some(), "{page}");
    }
}

#[test]
fn the_page_of_a_binding_shows_its_unfinished_moves() {
    let tasks = json!([{"fromCluster": "m1", "replicas": 2, "reason": "TaintUntolerated", "producer": "TaintManager",
        "creationTimestamp": "2026-01-01T00:00:00Z", "gracePeriodSeconds": 90}]);
    let in_any_case = [
        "May return to: m1",
        "Evictions from m2 are paused: 3 of 4 are lost",
    ];
    let if_moving = [
        "Unfinished moves",
        "waiting for replicas to become ready: 0 of 2 are ready; m1 keeps 2",
        "since 2026-01-01T00:00:00Z (WaitingForReplicas)",
        "TaintManager",
        "2026-01-01T00:01:30Z",
    ];
    for (store, is_moving) in [
        (store_with_move(&tasks, Some("WaitingForReplicas")), true),
        (store_with_move(&json!([]), None), false),
    ] {
        let name = BindingKey::new("shop", "web");
        let Document(page) = binding::page(&store, &name, &Err("no record".to_owned()));
        for expected in in_any_case {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        for expected in if_moving {
            assert_eq!(page.contains(expected), is_moving, "{expected}: {page}");
        }
    }
}

#[test]
fn the_fleet_marks_clusters_from_which_evictions_are_paused() {
    let store = store_with_move(&json!([]), None);
    let Document(page) = fleet::page(&store, &fleet::View::new(&BTreeMap::new()));
    let badge = "title=\"3 of 4 are lost\">Evictions paused<";
    let banner = "Evictions from m2 are paused: 3 of 4 are lost";
    assert_eq!(page.matches(badge).count(), 1, "{page}");
    assert_eq!(page.matches(banner).count(), 1, "{page}");
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
