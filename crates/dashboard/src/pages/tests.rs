use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::{Binding, BindingKey, Cluster, ResourceBinding};
use berth_component_base::list_watch;
use serde_json::json;

use super::*;
use crate::binding_query::{PAGE_SIZE, Query};
use crate::store::{BindingRow, ClusterRow, PolicyName, Store};

const HOSTILE: &str = "<script>alert(\"1\")</script>";

/// Returns a cluster with HTML markup in all texts.
fn cluster_object() -> Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": HOSTILE},
        "spec": {"syncMode": "Push", "provider": HOSTILE,
            "taints": [{"key": HOSTILE, "value": HOSTILE, "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "EvictionsPaused", "status": "True", "reason": "r", "message": HOSTILE,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "kubernetesVersion": HOSTILE, "resourceSummary": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocated": {"cpu": "1"}}},
    }))
    .unwrap()
}

/// Returns a store whose objects contain HTML markup in all texts.
fn store() -> Store {
    let mut store = Store::default();
    store.apply_cluster(HOSTILE.to_owned(), ClusterRow::new(&cluster_object()));
    let spec = json!({
        "resource": {"apiVersion": "v1", "kind": HOSTILE, "name": HOSTILE},
        "clusters": [{"name": HOSTILE, "replicas": 2}], "placement": {},
        "gracefulEvictionTasks": [{"fromCluster": HOSTILE, "reason": HOSTILE, "producer": HOSTILE, "message": HOSTILE}],
    });
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": HOSTILE,
        "message": HOSTILE, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status =
        json!({"conditions": [condition("Scheduled", "False"), condition("Migrating", "True")]});
    let metadata = json!({"namespace": HOSTILE, "name": HOSTILE, "annotations": {
        "migration.berth/evicted-from": format!("{HOSTILE}2"),
        "propagationpolicy.karmada.io/name": HOSTILE}});
    let binding = json!({"metadata": metadata, "spec": spec, "status": status});
    let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
    store.apply_binding(binding.into(), Some(Timestamp::now()), Timestamp::now());
    store.has_synced = true;
    store
}

#[test]
fn no_view_contains_markup_of_objects_or_queries() {
    let store = store();
    let pairs: BTreeMap<String, String> = [("policy", ""), ("q", HOSTILE)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let policy = PolicyName {
        namespace: Some(HOSTILE.into()),
        name: HOSTILE.into(),
    };
    let object = cluster_object();
    for (view, page) in [
        ("overview", overview::page(&store)),
        ("cluster", cluster::page(&store, HOSTILE, Some(&object))),
        ("policies", policies::list(&store)),
        ("policy", policies::page(&store, &policy)),
        ("fleet", fleet::page(&store, &fleet::View::new(&pairs))),
        ("bindings", bindings::page(&store, &Query::new(&pairs))),
        (
            "quotas",
            quotas::list(
                &store,
                &Ok(vec![hostile_quota()]),
                &Ok(vec![hostile_queue()]),
            ),
        ),
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

fn hostile_quota() -> berth_api::FederatedResourceQuota {
    serde_json::from_value(json!({
        "metadata": {"namespace": HOSTILE, "name": HOSTILE},
        "spec": {"overall": {HOSTILE: "1"}},
    }))
    .unwrap()
}

fn hostile_queue() -> berth_api::ClusterQueue {
    serde_json::from_value(json!({
        "metadata": {"name": HOSTILE},
        "spec": {"cohortName": HOSTILE, "quotas": [{"name": "cpu", "nominalQuota": "2"}]},
        "status": {"usage": [{"name": "cpu", "total": "3", "borrowed": "1"}]},
    }))
    .unwrap()
}

#[test]
fn the_page_of_quotas_shows_the_usage_and_the_waiting_workloads() {
    let quota = |name: &str| {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"overall": {"cpu": "40"}}, "status": {"overallUsed": {"cpu": "39"}},
        }))
        .unwrap()
    };
    let mut refused = deployment("web", &[]);
    refused.status.conditions = serde_json::from_value(json!([{"type": "Scheduled", "status": "False",
        "reason": "QuotaExceeded", "lastTransitionTime": PLACED,
        "message": "FederatedResourceQuota(shop/team) exceeded for resource cpu: requested sum 41, limit 40."}]))
    .unwrap();
    let mut store = Store::default();
    store.apply_binding(refused, None, Timestamp::now());
    let Document(page) = quotas::list(&store, &Ok(vec![quota("team")]), &Ok(vec![hostile_queue()]));
    for expected in [
        "shop/team",
        "cpu: 39 of 40",
        "width=\"975\"",
        "quota shop/team: ",
        "href=\"/bindings/",
        "cpu: 3 of 2, 1 borrowed",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let Document(page) = quotas::list(&store, &Ok(vec![quota("other")]), &Ok(Vec::new()));
    assert!(!page.contains("href=\"/bindings/"), "{page}");
    let Document(page) = quotas::list(&store, &Err("forbidden".to_owned()), &Ok(Vec::new()));
    assert!(page.contains("The quotas cannot be read: forbidden"));
}

const PLACED: &str = "2026-01-01T00:00:00Z";

/// Returns a cluster with this status of the condition Ready, in one of two regions.
fn cluster_row(index: usize, ready: &str) -> ClusterRow {
    let condition = json!({"type": "Ready", "status": ready, "reason": "r", "message": "no heartbeat",
        "lastTransitionTime": PLACED});
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "m"},
        "spec": {"syncMode": "Push", "provider": "cloud", "region": format!("region-{}", index % 2)},
        "status": {"kubernetesVersion": format!("v1.3{}", index % 3), "conditions": [condition], "resourceSummary": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocated": {"cpu": "1"}}},
    }))
    .unwrap();
    ClusterRow::new(&cluster)
}

/// Returns a binding of a Deployment with two replicas in each of these clusters, of which this number is ready.
fn deployment(name: &str, clusters: &[(&str, i64)]) -> Binding {
    let targets: Vec<_> = clusters
        .iter()
        .map(|(name, _)| json!({"name": name, "replicas": 2}))
        .collect();
    let items: Vec<_> = clusters
        .iter()
        .map(|(name, ready)| {
            let health = if *ready == 2 { "Healthy" } else { "Unhealthy" };
            json!({"clusterName": name, "applied": true, "health": health,
                "status": {"replicas": 2, "readyReplicas": ready}})
        })
        .collect();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "Success", "message": "", "lastTransitionTime": PLACED});
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": PLACED,
            "annotations": {"propagationpolicy.karmada.io/name": "web"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
            "replicas": 2, "clusters": targets, "placement": {}},
        "status": {"lastScheduledTime": PLACED, "aggregatedStatus": items,
            "conditions": [condition("Scheduled"), condition("FullyApplied")]},
    }))
    .unwrap();
    binding.into()
}

/// Returns a store with 12 clusters, of which m11 is lost, and with a workload of each of the three healths.
fn small_store() -> Store {
    let now = Timestamp::now();
    let mut store = Store::default();
    for index in 0..12 {
        let ready = if index == 11 { "Unknown" } else { "True" };
        store.apply_cluster(format!("m{index:02}"), cluster_row(index, ready));
    }
    for (name, clusters) in [
        ("good", &[("m00", 2), ("m01", 2)][..]),
        ("partly", &[("m00", 2), ("m01", 1)]),
        ("crashing", &[("m02", 0)]),
    ] {
        store.apply_binding(deployment(name, clusters), None, now);
    }
    let names: Vec<String> = (0..10).map(|index| format!("m{index:02}")).collect();
    let clusters = names.iter().map(|name| (name.as_str(), 2));
    let clusters: Vec<(&str, i64)> = clusters.chain([("m11", 2)]).collect();
    store.apply_binding(deployment("wide", &clusters), None, now);
    store.has_synced = true;
    store.synced_at = Some(now);
    store
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Asserts that a page contains these texts in this order.
fn contains_in_order(page: &str, texts: &[&str]) {
    let mut rest = page;
    for text in texts {
        let at = rest.find(text);
        let at = at.unwrap_or_else(|| panic!("{text:?} is missing or too early: {page}"));
        rest = &rest[at + text.len()..];
    }
}

#[test]
fn the_overview_tells_whether_the_fleet_is_well_and_lists_the_worst() {
    let Document(page) = overview::page(&small_store());
    contains_in_order(
        &page,
        &[
            "3 workloads need attention, and 1 cluster is not ready",
            "4 workloads: 1 broken, 2 degraded, 1 well; 11 of 12 clusters ready",
            "href=\"/bindings?health=broken\"><span class=\"value\">1<",
            "href=\"/bindings?health=well\"><span class=\"value\">1<",
            "href=\"/fleet?state=not-ready\"><span class=\"value\">1<",
            // 11 of the 12 clusters have 3 free cores.
            "33 free of 44",
            "1 lost cluster is not counted",
            "Needs attention",
            "shop/crashing",
            "0 of 2 replicas are ready in m02",
            "Next: ",
            "shop/partly",
            "Nothing moves.",
            "0 placed, 0 moved or scaled, 0 removed, since the dashboard started",
        ],
    );
    let mut store = small_store();
    for name in ["partly", "crashing", "wide"] {
        store.remove_binding(&BindingKey::new("shop", name), Timestamp::now());
    }
    store.remove_cluster("m11");
    let Document(page) = overview::page(&store);
    contains_in_order(
        &page,
        &["The fleet is well", "all workloads are well", "3 removed"],
    );
}

#[test]
fn the_list_of_workloads_begins_with_problems_and_has_their_reasons() {
    let store = small_store();
    let Document(page) = bindings::page(&store, &Query::new(&BTreeMap::new()));
    contains_in_order(
        &page,
        &[
            "<b>4</b> of 4 workloads match; 1 broken, 2 degraded, 1 well in total",
            "shop/crashing",
            "badge worst\">broken<",
            ">0/2<",
            "NotReady",
            "badge warning\">degraded<",
            "shop/good",
            "badge good\">well<",
            ">4/4<",
        ],
    );
    for expected in [
        "<option value=\"NotReady\">NotReady (2)</option>",
        "href=\"/policies/shop/web\"",
        "href=\"/clusters/m02\"",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let query = Query::new(&pairs(&[("reason", "StaleStatus")]));
    let Document(page) = bindings::page(&store, &query);
    contains_in_order(&page, &["<b>1</b> of 4", "shop/wide"]);
}

#[test]
fn a_dependency_is_shown_as_a_dependency() {
    let mut store = small_store();
    let mut dependency = deployment("settings", &[("m00", 2)]);
    dependency.spec.placement = None;
    let parent =
        json!({"namespace": "shop", "name": "good", "clusters": [{"name": "m00", "replicas": 2}]});
    dependency.spec.required_by = vec![serde_json::from_value(parent).unwrap()];
    dependency.spec.clusters.clear();
    dependency.status.conditions.clear();
    store.apply_binding(dependency, None, Timestamp::now());
    let query = Query::new(&pairs(&[("q", "settings")]));
    let Document(page) = bindings::page(&store, &query);
    contains_in_order(
        &page,
        &[
            "shop/settings",
            "dependency of shop/good",
            "badge good\">well<",
        ],
    );
    let name = BindingKey::new("shop", "settings");
    let Document(page) = binding::page(&store, &name, &Err("no placement".to_owned()));
    contains_in_order(&page, &["<b>policy</b>", "dependency of shop/good"]);
}

#[test]
fn the_fleet_shows_free_capacity_of_clusters_that_are_ready() {
    let store = small_store();
    let Document(page) = fleet::page(&store, &fleet::View::new(&BTreeMap::new()));
    contains_in_order(
        &page,
        &[
            "11 of 12 ready. Usable: 33 of 44 cores and 88 GiB of 88 GiB free",
            "the capacity of 1 cluster that is not ready is not counted",
            "cloud / region-0",
            "title=\"m00: ready\"",
            "cloud / region-1",
            "title=\"m11: not ready\"",
            // The table begins with the problems.
            "<tbody>",
            "m11",
            "Not ready",
            "no heartbeat",
            "not usable; last 4",
            "m00",
            "1 of 4 allocated, 3 free",
            "8 GiB free of 8 GiB",
        ],
    );
}

#[test]
fn the_map_has_a_tile_for_each_cluster_in_three_colours_and_sizes() {
    let store = small_store();
    for (colour, expected) in [
        (
            "",
            &["1 not ready", "cell worst\"", "title=\"m11: not ready\""][..],
        ),
        (
            "load",
            &[
                "unknown: 1",
                "title=\"m00: 25 % used\"",
                "title=\"m11: load unknown\"",
            ],
        ),
        (
            "version",
            &["v1.30: 4", "cell v2\"", "title=\"m11: v1.32\""],
        ),
    ] {
        let view = fleet::View::new(&pairs(&[("colour", colour)]));
        let Document(page) = fleet::page(&store, &view);
        contains_in_order(&page, expected);
        assert_eq!(page.matches("title=\"m").count(), 12, "{page}");
    }
    let view = fleet::View::new(&pairs(&[("state", "not-ready")]));
    let Document(page) = fleet::page(&store, &view);
    assert_eq!(page.matches("href=\"/clusters/m11\"").count(), 2, "{page}");
    assert!(!page.contains("href=\"/clusters/m00\""), "{page}");
    for (clusters, expected) in [
        (61, "class=\"map medium\""),
        (1000, "class=\"map\""),
        (
            1501,
            "<b>cloud / region-0</b><span class=\"sub\">751 of 751 ready</span>",
        ),
    ] {
        let mut store = Store::default();
        for index in 0..clusters {
            store.apply_cluster(format!("m{index:04}"), cluster_row(index, "True"));
        }
        let Document(page) = fleet::page(&store, &fleet::View::new(&BTreeMap::new()));
        assert!(page.contains(expected), "{clusters}");
        assert!(page.len() < 300_000, "{clusters}: {} bytes", page.len());
    }
}

#[test]
fn links_of_the_map_select_exactly_and_keep_the_other_filters() {
    let mut store = Store::default();
    for (index, region) in ["eu-1", "eu-10", ""].into_iter().enumerate() {
        let mut row = cluster_row(index, "True");
        region.clone_into(&mut row.region);
        store.apply_cluster(format!("m{index}"), row);
    }
    let page = |filters: &[(&str, &str)]| fleet::page(&store, &fleet::View::new(&pairs(filters))).0;
    let all = page(&[("colour", "version"), ("state", "ready"), ("q", "cloud")]);
    let kept = "/fleet?q=cloud&amp;state=ready&amp;colour=version";
    for expected in [
        format!("href=\"{kept}&amp;provider=cloud&amp;region=eu%2D1\""),
        format!("href=\"{kept}&amp;provider=cloud&amp;region=\""),
        format!("href=\"{kept}&amp;version=v1%2E31\""),
    ] {
        assert!(all.contains(&expected), "{expected}: {all}");
    }
    for (filters, matching) in [
        (&[("region", "eu-1")][..], 1),
        (&[("region", "eu-1"), ("q", "m0")], 1),
        (&[("region", "eu-1"), ("q", "m1")], 0),
        (&[("region", "")], 1),
        (&[("q", "eu-1")], 2),
        (&[("version", "v1.3")], 0),
        (&[("version", "v1.30"), ("provider", "cloud")], 1),
    ] {
        let expected = format!("<b>{matching}</b> of 3 clusters match");
        assert!(page(filters).contains(&expected), "{filters:?}");
    }
    let filtered = page(&[("region", "eu-1"), ("sort", "name")]);
    contains_in_order(
        &filtered,
        &[
            "<input type=\"hidden\" name=\"region\" value=\"eu-1\">",
            "href=\"/fleet?sort=name\"",
            "region: eu-1",
        ],
    );
}

#[test]
fn the_tiles_of_regions_have_the_colours_of_the_legend() {
    let mut store = Store::default();
    for index in 0..1501 {
        let ready = if index == 2 { "Unknown" } else { "True" };
        store.apply_cluster(format!("m{index:04}"), cluster_row(index, ready));
    }
    for (colour, edge, parts) in [
        ("", "worst", &["part worst", "part good"][..]),
        ("load", "neutral", &["part neutral", "part good"]),
        ("version", "v0", &["part v0", "part v1", "part v2"]),
    ] {
        let view = fleet::View::new(&pairs(&[("colour", colour)]));
        let Document(page) = fleet::page(&store, &view);
        let edge = format!("class=\"cell named {edge}\"");
        contains_in_order(&page, &[&edge, "cloud / region-0"]);
        contains_in_order(&page, parts);
    }
}

#[test]
fn the_page_of_a_workload_begins_with_the_verdict_and_shows_the_way() {
    let store = small_store();
    let explained = Err("no report".to_owned());
    let page = |name| binding::page(&store, &BindingKey::new("shop", name), &explained).0;
    contains_in_order(
        &page("crashing"),
        &[
            "class=\"verdict broken\"",
            "badge worst\">broken<",
            "0 of 2 replicas are ready in m02; placed and applied",
            "<b>Next: </b>",
            "<code class=\"inline\">kubectl ",
            "NotReady, for ",
            "station neutral\"><b>template</b>",
            "station neutral\"><b>policy</b>",
            "href=\"/policies/shop/web\"",
            "station good\"><b>scheduling</b>",
            "station good\"><b>apply</b>",
            "station worst\" aria-current=\"step\"><b>run</b>",
            "href=\"/clusters/m02\"",
            "badge worst\">not ready<",
            "There is no explanation: no report",
            "No moves since",
        ],
    );
    let wide = page("wide");
    contains_in_order(
        &wide,
        &[
            "verdict degraded",
            "m11 is not ready: nothing is known about its 2 replicas",
            "Copies by cluster",
            "?/2",
            "<summary>and 10 more, all well</summary>",
            "m00",
        ],
    );
    assert!(!wide.contains("<details open"), "{wide}");
    contains_in_order(&page("good"), &["verdict well", "2 clusters, all well"]);
}

#[test]
fn the_history_of_a_workload_names_the_command_that_undoes_an_eviction() {
    let mut store = small_store();
    let now = Timestamp::now();
    for cluster in ["m01", "m02", "m03", "m04"] {
        let mut moved = deployment("crashing", &[(cluster, 2)]);
        // The workload was evicted from m02 only. The scheduler moved it from m01.
        let annotations = moved.metadata.annotations.get_or_insert_default();
        annotations.insert("migration.berth/evicted-from".to_owned(), "m02".to_owned());
        store.apply_binding(moved, Some(now), now);
    }
    let name = BindingKey::new("shop", "crashing");
    let Document(page) = binding::page(&store, &name, &Err("no report".to_owned()));
    let undo = "berth uncordon --bring-back m02";
    let effect = "for the whole cluster";
    contains_in_order(
        &page,
        &["History", "1 removed, 1 added", undo, effect, "1 removed"],
    );
    assert_eq!(page.matches("uncordon").count(), 2, "{page}");
    assert_eq!(page.matches(effect).count(), 2, "{page}");
}

#[test]
fn the_history_of_a_scaled_workload_names_the_command_for_kinds_of_apps() {
    let command = "kubectl --namespace shop scale deployment crashing --replicas=";
    for (api_version, expected) in [("apps/v1", 1), ("example.com/v1", 0)] {
        let mut store = small_store();
        let now = Timestamp::now();
        let mut scaled = deployment("crashing", &[("m01", 7)]);
        scaled.spec.resource.api_version = api_version.to_owned();
        scaled.spec.replicas += 1;
        store.apply_binding(scaled, Some(now), now);
        let name = BindingKey::new("shop", "crashing");
        let Document(page) = binding::page(&store, &name, &Err("no report".to_owned()));
        assert!(page.contains("the workload was scaled from"), "{page}");
        assert_eq!(page.matches(command).count(), expected, "{page}");
    }
}

#[test]
fn the_live_page_names_the_number_of_changes_that_it_leaves_out() {
    let mut store = small_store();
    let now = Timestamp::now();
    let mut move_to = |cluster: &str| {
        let moved = deployment("crashing", &[(cluster, 2)]);
        store.apply_binding(moved, Some(now), now);
        live::page(&store).0
    };
    let note = "The newest 100 of ";
    let mut page = String::new();
    for _ in 0..PAGE_SIZE / 2 {
        move_to("m01");
        page = move_to("m03");
    }
    assert!(!page.contains(note), "{page}");
    let page = move_to("m01");
    assert!(page.contains("The newest 100 of 101 changes."), "{page}");
}

#[test]
fn the_page_of_a_cluster_shows_its_workloads_and_what_would_leave() {
    let store = small_store();
    let object: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "m11"}, "spec": {"syncMode": "Push"},
        "status": {"conditions": [{"type": "CompleteAPIEnablements", "status": "False", "reason": "Partial",
            "message": "one group fails", "lastTransitionTime": PLACED}]},
    }))
    .unwrap();
    let Document(page) = cluster::page(&store, "m11", Some(&object));
    contains_in_order(
        &page,
        &[
            "verdict broken",
            "Not ready",
            "no heartbeat",
            "cloud / region-1",
            "href=\"/what-if?change=lose&amp;cluster=m11&amp;run=1\"",
            "not usable while the cluster is not ready",
            "CompleteAPIEnablements",
            "one group fails",
            "shop/wide",
            "badge warning\">unknown<",
            "?/2",
            "badge warning\">degraded<",
        ],
    );
    let Document(page) = cluster::page(&store, "m10", None);
    contains_in_order(&page, &["verdict well", "No workload has a copy here."]);
    let Document(page) = cluster::page(&store, "other", None);
    assert!(page.contains("Not found"), "{page}");
}

#[test]
fn the_pages_of_policies_show_where_their_workloads_are_and_how_well() {
    let store = small_store();
    let Document(page) = policies::list(&store);
    contains_in_order(
        &page,
        &[
            "href=\"/policies/shop/web\"",
            "PropagationPolicy",
            "1 broken",
            "2 degraded",
            "1 well",
        ],
    );
    let policy = |name: &str| PolicyName {
        namespace: Some("shop".into()),
        name: name.into(),
    };
    let Document(page) = policies::page(&store, &policy("web"));
    contains_in_order(
        &page,
        &[
            "PropagationPolicy shop/web",
            "href=\"/bindings?policy=shop%2Fweb&amp;health=broken\"><span class=\"value\">1<",
            "Deployment (4) in the namespace shop",
            "Where it went",
            "href=\"/clusters/m01\"",
            "shop/crashing",
        ],
    );
    let Document(page) = policies::page(&store, &policy("other"));
    assert!(page.contains("Not found"), "{page}");
}

#[test]
fn without_the_control_plane_no_page_looks_live() {
    let failed = |code| {
        list_watch::Connection::Failed(list_watch::Failure {
            code,
            message: "no answer".to_owned(),
        })
    };
    let mut store = small_store();
    let Document(page) = overview::page(&store);
    assert!(!page.contains("data-source"), "{page}");
    let since = Timestamp::now() - jiff::SignedDuration::from_mins(3);
    store.connections.note(2, &failed(None), since);
    let Document(page) = overview::page(&store);
    contains_in_order(
        &page,
        &[
            "data-state=\"partial\" data-source=\"partial\">cluster-scoped workloads outdated: from 3 min ago<",
            "The page shows the cluster-scoped workloads of ",
            "The other data are current.",
        ],
    );
    for watch in [0, 1] {
        store.connections.note(watch, &failed(None), since);
    }
    let Document(page) = overview::page(&store);
    contains_in_order(
        &page,
        &[
            "data-state=\"lost\" data-source=\"lost\">outdated: data from 3 min ago<",
            "the control plane cannot be reached: no answer",
            "Next: ",
            "3 min ago",
            "3 workloads need attention",
        ],
    );
    // Without any data, an error page takes the place of all pages.
    let mut store = Store::default();
    store.connections.note(0, &failed(Some(404)), since);
    let data = DataState::of(&store);
    let Document(page) = no_data(&data, data.without_data().unwrap());
    contains_in_order(
        &page,
        &[
            "data-source=\"lost\">no data for 3 min<",
            "<h1>No data</h1>",
            "the control plane does not serve Clusters",
            "install the CustomResourceDefinitions",
        ],
    );
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
        store.apply_cluster(name.to_owned(), ClusterRow::new(&cluster));
    }
    let conditions: Vec<_> = reason
        .map(|reason| condition("Migrating", reason, "0 of 2 are ready; m1 keeps 2"))
        .into_iter()
        .collect();
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": {"migration.berth/evicted-from": "m1"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "placement": {},
            "clusters": [{"name": "m2", "replicas": 2}], "gracefulEvictionTasks": tasks},
        "status": {"conditions": conditions},
    }))
    .unwrap();
    store.apply_binding(binding.into(), None, Timestamp::now());
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
        let query = Query::new(&pairs(&[("health", "moving")]));
        let selected = query.select(&store, Timestamp::now());
        assert_eq!(selected.total, moving, "{reason:?}");
        let Document(page) = bindings::page(&store, &Query::new(&BTreeMap::new()));
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

/// Number of bindings of the large fleet.
const LARGE: usize = 50_000;

/// Returns the binding of a Deployment that is applied in three clusters. In every 50th binding, one cluster has fewer
/// ready replicas.
fn large_binding(index: usize) -> Binding {
    let replicas = 1 + index % 4;
    let names = [0, 1, 2].map(|offset| format!("member-{:04}", (index * 3 + offset) % 5000));
    let clusters = names
        .each_ref()
        .map(|name| json!({"name": name, "replicas": replicas}));
    let items = names.each_ref().map(|name| {
        let is_bad = index.is_multiple_of(50) && *name == names[1];
        let ready = if is_bad { replicas - 1 } else { replicas };
        json!({"clusterName": name, "applied": true, "health": if is_bad { "Unhealthy" } else { "Healthy" },
            "status": {"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
                "updatedReplicas": replicas, "observedGeneration": 2, "generation": 2,
                "resourceTemplateGeneration": 2,
                "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.", "lastTransitionTime": PLACED}]}})
    });
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": PLACED});
    let resource = format!("web-{index:05}");
    let namespace = format!("team-{:03}", index % 500);
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": format!("{resource}-deployment"), "creationTimestamp": PLACED,
            "annotations": {"propagationpolicy.karmada.io/name": format!("policy-{}", index % 3),
                "propagationpolicy.karmada.io/namespace": namespace}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": resource,
                "uid": format!("00000000-0000-4000-8000-{index:012}"), "resourceVersion": index.to_string()},
            "replicas": 3 * replicas, "clusters": clusters,
            "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
            "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "web"}}},
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}},
        "status": {"schedulerObservedGeneration": 2, "lastScheduledTime": PLACED, "aggregatedStatus": items,
            "conditions": [condition("Scheduled", "Success", "Binding has been scheduled successfully."),
                condition("FullyApplied", "FullyAppliedSuccess", "All works have been successfully applied")]},
    }))
    .unwrap();
    binding.into()
}

/// Maximum number of bytes that the store needs for a binding with three clusters.
const MAX_ROW: usize = 4096;

/// Returns the resident memory of the process in bytes, or `None` if it is unknown.
fn resident_memory() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let resident: usize = pages.split(' ').nth(1)?.parse().ok()?;
    Some(resident * 4096)
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
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1100"},
                "allocated": {"cpu": "16", "memory": "64Gi", "pods": "200"}},
                "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                    "lastTransitionTime": PLACED}]},
        }))
        .unwrap();
        store.apply_cluster(name, ClusterRow::new(&cluster));
    }
    for index in 0..LARGE {
        let binding = large_binding(index);
        store.apply_binding(binding, Some(Timestamp::UNIX_EPOCH), Timestamp::now());
    }
    store.has_synced = true;
    store
}

#[test]
fn pages_of_a_large_fleet_are_bounded() {
    let before = resident_memory();
    let mut store = large_store();
    if let (Some(before), Some(after)) = (before, resident_memory()) {
        let bytes = after.saturating_sub(before) / LARGE;
        println!("{bytes} bytes for each binding");
    }
    let largest = store.bindings.values().map(BindingRow::size).max();
    println!("{largest:?} bytes at most in a row and its encoded binding");
    assert!(largest.unwrap() < MAX_ROW, "{largest:?}");
    let start = std::time::Instant::now();
    store.diagnose_again(Timestamp::now(), Duration::MAX);
    println!("all bindings diagnosed: {:?}", start.elapsed());
    let start = std::time::Instant::now();
    store.remove_cluster("member-0007");
    store.diagnose_again(Timestamp::now(), Duration::MAX);
    println!("one cluster removed: {:?}", start.elapsed());
    let policy = PolicyName {
        namespace: Some("team-042".into()),
        name: "policy-1".into(),
    };
    for (url, most_rows) in [
        ("overview", PAGE_SIZE),
        ("cluster", 2 * PAGE_SIZE),
        ("policies", 200),
        ("policy", 2 * PAGE_SIZE),
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
            "overview" => overview::page(&store),
            "cluster" => cluster::page(&store, "member-0042", None),
            "policies" => policies::list(&store),
            "policy" => policies::page(&store, &policy),
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
