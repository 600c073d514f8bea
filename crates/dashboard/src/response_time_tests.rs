//! A test that limits the response times of the dashboard with 5,000 clusters and 50,000 bindings, or 10,000 bindings in
//! a debug build. The measured pages are the view of a binding and the page "What if". The option `--nocapture` prints
//! the times.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::go_json::placement_json;
use berth_api::placement::Placement;
use berth_api::well_known::APPLIED_PLACEMENT;
use berth_engine::EngineOptions;
use berth_plan::scheduler_configuration::DecisionConfiguration;
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::{Clients, Dashboard};

const CLUSTERS: usize = 5000;
const BINDINGS: usize = if cfg!(debug_assertions) {
    10_000
} else {
    50_000
};
/// Number of placements that most bindings use.
const COMMON_PLACEMENTS: usize = 3;

/// Maximum time for the view of a binding in a release build on an idle machine. The view of the changes may take 10
/// times as long, and the page "What if" 20 times.
const MAX_VIEW_TIME: Duration = Duration::from_millis(200);

/// Factor by which debug builds and loaded machines may be slower.
const TOLERANCE: u32 = 10;

fn cluster(index: usize) -> Value {
    let groups = (0..25).map(|group| {
        let resources =
            (0..3).map(|of| json!({"name": format!("things{of}"), "kind": format!("Thing{of}")}));
        let resources: Vec<Value> = resources.collect();
        json!({"groupVersion": format!("group{group}.example.com/v1"), "resources": resources})
    });
    let apps = json!({"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]});
    let groups: Vec<Value> = groups.chain([apps]).collect();
    let taints = if index.is_multiple_of(10) {
        json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}])
    } else {
        json!([])
    };
    json!({
        "metadata": {"name": format!("member-{index:04}"), "resourceVersion": "1", "generation": 1,
            "labels": {"tier": format!("t{}", index % 7)}},
        "spec": {"syncMode": "Push", "provider": "cloud", "region": format!("region-{}", index % 20), "taints": taints},
        "status": {"kubernetesVersion": "v1.36.2", "apiEnablements": groups,
            "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "resourceSummary": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1100"},
                "allocated": {"cpu": "16", "memory": "64Gi", "pods": "200"}}},
    })
}

/// Returns the placements of the first five bindings. Each other binding has one of the first [`COMMON_PLACEMENTS`]
/// placements.
fn placements() -> [Value; 5] {
    let divided = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}});
    let by = |property: &str, groups: usize| json!({"spreadByField": property, "minGroups": groups, "maxGroups": groups});
    [
        json!({"replicaScheduling": divided}),
        json!({"replicaScheduling": divided, "spreadConstraints": [by("cluster", 3)]}),
        json!({"replicaScheduling": divided, "spreadConstraints": [by("region", 3), by("cluster", 30)]}),
        json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}),
        json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "none"}}}, "replicaScheduling": divided}),
    ]
}

fn binding(index: usize, placement: &Value) -> Value {
    let clusters = [0, 1, 2].map(|offset| {
        let name = format!("member-{:04}", (index * 3 + offset) % CLUSTERS);
        json!({"name": name, "replicas": 2})
    });
    let reports = clusters.each_ref().map(|cluster| {
        json!({"clusterName": cluster["name"], "applied": true, "health": "Healthy",
            "status": {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2}})
    });
    let typed: Placement = serde_json::from_value(placement.clone()).unwrap();
    let applied = placement_json(&typed).unwrap();
    json!({
        "metadata": {"name": format!("web-{index:05}"), "namespace": "team", "resourceVersion": "1", "generation": 1,
            "annotations": {APPLIED_PLACEMENT: applied}},
        "spec": {"replicas": 6, "clusters": clusters, "placement": placement,
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "team",
                "name": format!("web-{index:05}"), "uid": index.to_string()},
            "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}}},
        "status": {"schedulerObservedGeneration": 1, "lastScheduledTime": "2026-01-01T00:00:00Z",
            "aggregatedStatus": reports, "conditions": [{"type": "Scheduled", "status": "True",
            "reason": "Success", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "FullyApplied", "status": "True", "reason": "FullyAppliedSuccess", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

fn list(items: &[Value]) -> Bytes {
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
    list.to_string().into()
}

/// Returns a client of a control plane whose objects never change.
fn control_plane() -> Client {
    let placements = placements();
    let clusters: Vec<Value> = (0..CLUSTERS).map(cluster).collect();
    let bindings: Vec<Value> = (0..BINDINGS)
        .map(|index| {
            let of = if index < placements.len() {
                index
            } else {
                index % COMMON_PLACEMENTS
            };
            binding(index, &placements[of])
        })
        .collect();
    let lists = Arc::new((list(&clusters), list(&bindings)));
    let bindings = Arc::new(bindings);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (lists, bindings) = (Arc::clone(&lists), Arc::clone(&bindings));
        async move {
            let (path, query) = (
                request.uri().path(),
                request.uri().query().unwrap_or_default(),
            );
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let (_, name) = path.rsplit_once('/').unwrap_or_default();
            let body = match name {
                "clusters" => lists.0.clone(),
                "resourcebindings" => lists.1.clone(),
                _ => match name
                    .strip_prefix("web-")
                    .and_then(|index| index.parse::<usize>().ok())
                {
                    Some(index) => bindings[index].to_string().into(),
                    None => list(&[]),
                },
            };
            Ok::<_, Infallible>(Response::new(Full::new(body)))
        }
    });
    Client::new(service, "default")
}

/// Returns the response to a request with this cookie, and the time until the response is complete.
async fn get(address: &str, cookie: &str, path: &str) -> (String, Duration) {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    (response, start.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_large_fleet_are_fast() {
    let client = control_plane();
    let clients = Clients {
        forwarding: client.clone(),
        control_plane: client,
    };
    let configuration = DecisionConfiguration::of_flags(EngineOptions::default());
    let address = ([127, 0, 0, 1], 0).into();
    let dashboard = Dashboard::listen(address, clients, configuration, None)
        .await
        .unwrap();
    let url = dashboard.url();
    let (address, token) = url
        .trim_start_matches("http://")
        .split_once("/?token=")
        .unwrap();
    let (_, port) = address.split_once(':').unwrap();
    let cookie = format!("berth-dashboard-{port}={token}");
    let cancel = CancellationToken::new();
    let served = tokio::spawn(dashboard.serve(cancel.clone()));
    let start = Instant::now();
    while get(address, &cookie, "/")
        .await
        .0
        .contains("The dashboard is still reading the clusters and bindings")
    {
        assert!(
            start.elapsed() < Duration::from_mins(2),
            "the lists are not read"
        );
    }
    println!("read after {:?}", start.elapsed());
    for index in 0..placements().len() {
        for (view, expected, max_time) in [
            ("", "Clusters by stage", MAX_VIEW_TIME),
            (
                "/changes",
                "What would change the decision",
                10 * MAX_VIEW_TIME,
            ),
            ("/objects", "No events.", MAX_VIEW_TIME),
        ] {
            let path = format!("/bindings/team/web-{index:05}{view}");
            let (page, elapsed) = get(address, &cookie, &path).await;
            println!("{path}: {elapsed:?}, {} bytes", page.len());
            assert!(
                page.starts_with("HTTP/1.1 200") && page.contains(expected),
                "{page}"
            );
            assert!(page.len() < 300_000, "{path} has {} bytes", page.len());
            assert!(elapsed < TOLERANCE * max_time, "{path}: {elapsed:?}");
        }
    }
    for change in [
        "lose&cluster=member-0001",
        "taint&cluster=member-0001&taint=a:NoExecute",
        "join&name=new&cluster=member-0001",
    ] {
        let path = format!("/what-if?change={change}&run=1");
        let (page, elapsed) = get(address, &cookie, &path).await;
        println!("{path}: {elapsed:?}, {} bytes", page.len());
        assert!(
            page.contains(&format!("{},000 bindings looked at", BINDINGS / 1000)),
            "{page}"
        );
        assert!(page.len() < 300_000, "{path} has {} bytes", page.len());
        assert!(
            elapsed < 20 * MAX_VIEW_TIME * TOLERANCE,
            "{path}: {elapsed:?}"
        );
    }
    cancel.cancel();
    served.await.unwrap().unwrap();
}
