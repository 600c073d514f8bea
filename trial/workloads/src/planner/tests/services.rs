//! Tests of Services and their EndpointSlices.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Cluster, deployment, edit_deployment, from};

fn service(cluster: &mut Cluster, name: &str, spec: &Value) {
    let metadata = cluster.metadata(name);
    let object = json!({"metadata": metadata, "spec": spec});
    cluster.cache.services.put(from(object));
}

/// Returns the EndpointSlices of a Service as JSON, sorted by name.
fn slices(cluster: &Cluster, service: &str) -> Vec<Value> {
    let slices = cluster.cache.slices.iter();
    slices
        .filter(|slice| slice.labels()["kubernetes.io/service-name"] == service)
        .map(|slice| serde_json::to_value(slice).unwrap())
        .collect()
}

#[test]
fn service_slices_list_pods_with_addresses_and_readiness() {
    let mut cluster = Cluster::with_nodes(1, "8");
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    service(
        &mut cluster,
        "web",
        &json!({"selector": {"app": "web"}, "ports": ports}),
    );
    service(&mut cluster, "by-hand", &json!({"ports": ports}));
    service(
        &mut cluster,
        "elsewhere",
        &json!({"type": "ExternalName", "externalName": "a.example", "selector": {"app": "web"}}),
    );
    cluster.plan_until_idle();
    let empty = slices(&cluster, "web");
    assert_eq!(empty.len(), 1);
    assert_eq!(empty[0]["endpoints"], json!([]));
    assert_eq!(empty[0]["metadata"]["ownerReferences"][0]["name"], "web");

    deployment(&mut cluster, "web", 2, "1");
    cluster.plan_until_idle();
    let none = &slices(&cluster, "web")[0]["endpoints"];
    assert_eq!(*none, json!([]), "no pod has an address");
    cluster.advance_until_idle();
    let full = slices(&cluster, "web");
    assert_eq!(full.len(), 1);
    assert_eq!(full[0]["metadata"]["name"], empty[0]["metadata"]["name"]);
    let port = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    assert_eq!(full[0]["ports"], port);
    let endpoints = full[0]["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 2);
    let conditions = json!({"ready": true, "serving": true, "terminating": false});
    for endpoint in endpoints {
        assert_eq!(endpoint["conditions"], conditions);
        assert_eq!(endpoint["nodeName"], "n1");
        assert_eq!(endpoint["targetRef"]["kind"], "Pod");
    }
    assert_eq!(slices(&cluster, "by-hand"), Vec::<Value>::new());
    assert_eq!(slices(&cluster, "elsewhere"), Vec::<Value>::new());

    // Slices list unready pods as not ready, and omit deleted pods.
    edit_deployment(&mut cluster, "web", |web| {
        web["metadata"]["annotations"] = json!({"simulation.berth/fails": "crash"});
        web["spec"]["replicas"] = json!(1);
    });
    cluster.plan_until_idle();
    let failing = slices(&cluster, "web");
    let endpoints = failing[0]["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 1);
    assert_eq!(endpoints[0]["conditions"]["ready"], false);
}

#[test]
fn large_services_have_several_slices() {
    let mut cluster = Cluster::with_nodes(12, "8");
    let ports = json!([{"port": 80}]);
    let spec = json!({"selector": {"app": "web"}, "ports": ports, "clusterIP": "None"});
    service(&mut cluster, "web", &spec);
    deployment(&mut cluster, "web", 110, "10m");
    cluster.advance_until_idle();
    let count = |slice: &Value| slice["endpoints"].as_array().unwrap().len();
    let mut counts: Vec<usize> = slices(&cluster, "web").iter().map(count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [10, 100]);
    let first = &slices(&cluster, "web")[0]["metadata"]["labels"];
    assert_eq!(first["service.kubernetes.io/headless"], "");
    edit_deployment(&mut cluster, "web", |web| {
        web["spec"]["replicas"] = json!(3);
    });
    cluster.advance_until_idle();
    let counts: Vec<usize> = slices(&cluster, "web").iter().map(count).collect();
    assert_eq!(counts, [3]);
}

#[test]
fn named_ports_are_resolved_by_pod() {
    let mut cluster = Cluster::with_nodes(1, "8");
    let ports = json!([
        {"name": "web", "port": 80, "targetPort": "http"},
        {"name": "none", "port": 81, "targetPort": "missing"},
    ]);
    let spec = json!({"selector": {"app": "web"}, "ports": ports});
    service(&mut cluster, "web", &spec);
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["ports"] =
            json!([{"name": "http", "containerPort": 3000, "protocol": "TCP"}]);
    });
    cluster.advance_until_idle();
    let found = slices(&cluster, "web");
    assert_eq!(found.len(), 1);
    let port = json!([{"name": "web", "port": 3000, "protocol": "TCP"}]);
    assert_eq!(found[0]["ports"], port);
}
