use std::sync::Arc;

use berth_api::binding::BindingStatus;
use berth_api::{Binding, BindingKey, Work};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::{Index, WorkKey};

/// Returns a binding of the policy `p` with these clusters, which its scheduler has observed.
fn binding(name: &str, replicas: i32, clusters: &[&str]) -> Binding {
    let targets: Vec<Value> = clusters
        .iter()
        .map(|name| json!({ "name": name }))
        .collect();
    let spec = json!({ "resource": { "apiVersion": "v1", "kind": "K", "name": name }, "replicas": replicas,
        "clusters": targets, "placement": { "clusterAffinity": { "clusterNames": clusters } } });
    let labels = [
        ("propagationpolicy.karmada.io/permanent-id", "p"),
        ("resourcebinding.karmada.io/permanent-id", name),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Binding {
        key: BindingKey::new("n", name),
        metadata: ObjectMeta {
            generation: Some(1),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        spec: serde_json::from_value(spec).unwrap(),
        status: BindingStatus {
            scheduler_observed_generation: Some(1),
            ..BindingStatus::default()
        },
    }
}

fn insert_work(
    index: &mut Index,
    binding: &str,
    cluster: &str,
    version: u64,
    replicas: i32,
    ready: i32,
) {
    let namespace = format!("karmada-es-{cluster}");
    let work = json!({
        "metadata": { "name": binding, "namespace": namespace, "resourceVersion": version.to_string(), "uid": "u",
            "labels": { "resourcebinding.karmada.io/permanent-id": binding } },
        "spec": { "workload": { "manifests": [{ "spec": { "replicas": replicas } }] } },
        "status": { "manifestStatuses": [{ "status": { "readyReplicas": ready }, "identifier": {
            "ordinal": 0, "version": "v1", "kind": "K", "resource": "", "name": binding } }] } });
    let work: Work = serde_json::from_value(work).unwrap();
    index.insert_work(WorkKey::new(&namespace, binding).unwrap(), Arc::new(work));
}

#[test]
fn a_resource_is_needed_where_its_workload_has_not_gone_yet() {
    for (what, workload, expected) in [
        ("leaving", binding("web", 2, &["m2"]), true),
        ("staying", binding("web", 2, &["m1", "m2"]), false),
        ("without pods", binding("web", 0, &["m2"]), false),
        (
            "with the old placement",
            Binding {
                spec: binding("web", 2, &["m1"]).spec,
                ..binding("web", 2, &["m2"])
            },
            true,
        ),
        (
            "not scheduled yet",
            Binding {
                status: BindingStatus::default(),
                ..binding("web", 2, &["m1", "m2"])
            },
            true,
        ),
    ] {
        let mut index = Index::default();
        let clusters: Vec<String> = workload
            .spec
            .clusters
            .iter()
            .map(|t| t.name.clone())
            .collect();
        let mut settings = binding("settings", 0, &["m2"]);
        if what != "with the old placement" {
            settings.spec.placement.clone_from(&workload.spec.placement);
        }
        let settings = Arc::new(settings);
        index.insert_binding(Arc::clone(&settings), "");
        index.insert_binding(Arc::new(workload), "");
        insert_work(&mut index, "settings", "m1", 1, 0, 0);
        insert_work(&mut index, "web", "m1", 1, 2, 2);
        let needed = index.sync_input(&settings).needed_in;
        assert_eq!(needed.contains("m1"), expected, "{what}: {clusters:?}");
        index.remove_work(&WorkKey::new("karmada-es-m1", "web").unwrap());
        assert!(index.sync_input(&settings).needed_in.is_empty(), "{what}");
    }
}

#[test]
fn a_report_is_older_than_changed_replicas_until_the_next_one() {
    let mut index = Index::default();
    let web = Arc::new(binding("web", 4, &["m1"]));
    index.insert_binding(Arc::clone(&web), "");
    let unreported = |index: &Index| index.sync_input(&web).unreported.get("m1").copied();
    for (version, replicas, ready, expected) in [
        (1, 4, 4, None),
        (2, 1, 4, Some(1)),
        (3, 4, 4, Some(1)),
        (4, 4, 1, None),
        (5, 6, 2, Some(4)),
        (6, 6, 6, None),
    ] {
        insert_work(&mut index, "web", "m1", version, replicas, ready);
        assert_eq!(unreported(&index), expected, "version {version}");
    }
}
