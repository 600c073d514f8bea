//! A test of malformed bindings and clusters, which must not affect other bindings.

use berth_e2e::{BareControlPlane, eventually};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::assertions::events;
use crate::fault_fixture::short_timeouts;
use crate::objects::{by_available_replicas, fleet, mixed, on_cluster, raw_binding};

/// Removes the schemas of bindings and clusters, so that the server stores any JSON object.
async fn remove_schemas(bare: &BareControlPlane) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let api: Api<CustomResourceDefinition> = Api::all(bare.client.clone());
    for name in [
        "resourcebindings.work.karmada.io",
        "clusters.cluster.karmada.io",
    ] {
        let mut definition = api.get(name).await.unwrap();
        definition.metadata.managed_fields = None;
        for version in &mut definition.spec.versions {
            version.schema = serde_json::from_value(json!({ "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } }))
            .unwrap();
        }
        api.replace(name, &PostParams::default(), &definition)
            .await
            .unwrap();
    }
}

async fn create(bare: &BareControlPlane, kind: &str, group: &str, version: &str, object: Value) {
    let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match kind {
        "Cluster" => Api::all_with(bare.client.clone(), &resource),
        _ => Api::namespaced_with(bare.client.clone(), "default", &resource),
    };
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let status = object.get("status").cloned();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    if let Some(status) = status {
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

async fn bind(bare: &BareControlPlane, object: Value) {
    create(
        bare,
        "ResourceBinding",
        "work.karmada.io",
        "v1alpha2",
        object,
    )
    .await;
}

/// Waits until the status or an event of a binding contains `text`.
async fn wait_for_error(bare: &BareControlPlane, name: &str, text: &str) {
    eventually(&format!("an error on {name}"), async || {
        let raw: Api<DynamicObject> = Api::namespaced_with(
            bare.client.clone(),
            "default",
            &ApiResource::erase::<berth_api::ResourceBinding>(&()),
        );
        let status = raw.get(name).await.unwrap().data["status"].to_string();
        let messages: Vec<_> = events(bare)
            .await
            .into_iter()
            .filter(|event| event.involved_object.name.as_deref() == Some(name))
            .filter_map(|event| event.message)
            .collect();
        if status.contains(text) || messages.iter().any(|message| message.contains(text)) {
            Ok(())
        } else {
            Err(format!("status {status}, events {messages:?}"))
        }
    })
    .await;
}

/// Each malformed binding has an error in its status or an event. All valid bindings are placed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_objects_do_not_affect_other_bindings() {
    let bare = BareControlPlane::start(&fleet(4)).await;
    remove_schemas(&bare).await;

    let mut potatoes = raw_binding("potatoes", 3, by_available_replicas());
    potatoes["spec"]["replicaRequirements"]["resourceRequest"]["cpu"] = json!("12potatoes");
    bind(&bare, potatoes).await;
    bind(&bare, raw_binding("a-text", 3, json!("everywhere"))).await;
    let wrong_type = json!({ "replicaScheduling": { "replicaSchedulingType": 7 } });
    bind(&bare, raw_binding("a-number", 3, wrong_type)).await;
    let mut huge = raw_binding("huge", 3, on_cluster("m2"));
    huge["metadata"]["annotations"] = json!({ "note": "x".repeat(200_000) });
    huge["spec"]["resource"]["fieldPath"] = json!("y".repeat(800_000));
    bind(&bare, huge).await;
    let mut rotten = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "rotten" }, "spec": { "syncMode": "Push" },
        "status": { "resourceSummary": { "allocatable": { "cpu": "12potatoes" } } },
    });
    create(
        &bare,
        "Cluster",
        "cluster.karmada.io",
        "v1alpha1",
        rotten.take(),
    )
    .await;
    let unreadable = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "unreadable" }, "spec": { "syncMode": 1, "taints": "none" },
    });
    create(
        &bare,
        "Cluster",
        "cluster.karmada.io",
        "v1alpha1",
        unreadable,
    )
    .await;

    // The valid bindings are created after the malformed objects.
    let bindings = mixed("fine", 20);
    let mut readable = Vec::new();
    for index in 1..=4 {
        readable.push(bare.clusters().get(&format!("m{index}")).await.unwrap());
    }
    let mut expected = engine_decisions_on(&readable, &bindings);
    bare.bind_all(&bindings).await;
    let scheduler = berth_e2e::RunningScheduler::start(short_timeouts(), bare.client.clone());
    wait_for_error(&bare, "potatoes", "12potatoes").await;
    wait_for_error(&bare, "a-text", "everywhere").await;
    wait_for_error(&bare, "a-number", "7").await;
    expected.insert("huge".to_owned(), [("m2".to_owned(), 3)].into());
    let names: Vec<String> = expected.keys().cloned().collect();
    eventually("the others to be placed", async || {
        for name in &names {
            let raw: Api<DynamicObject> = Api::namespaced_with(
                bare.client.clone(),
                "default",
                &ApiResource::erase::<berth_api::ResourceBinding>(&()),
            );
            let stored = raw.get(name).await.unwrap();
            let placed: crate::assertions::Targets = stored.data["spec"]["clusters"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|c| {
                    let replicas = c["replicas"].as_i64().unwrap_or_default();
                    (
                        c["name"].as_str().unwrap_or_default().to_owned(),
                        i32::try_from(replicas).unwrap(),
                    )
                })
                .collect();
            if placed != expected[name] {
                return Err(format!("{name} is on {placed:?}, not {:?}", expected[name]));
            }
        }
        Ok(())
    })
    .await;
    scheduler.stop().await.unwrap();
    bare.stop().await;
}

fn engine_decisions_on(
    clusters: &[berth_api::Cluster],
    bindings: &[berth_api::ResourceBinding],
) -> std::collections::BTreeMap<String, crate::assertions::Targets> {
    let mut fleet = berth_engine::Fleet::new();
    for cluster in clusters {
        fleet.apply(cluster);
    }
    bindings
        .iter()
        .map(|binding| {
            let name = binding.metadata.name.clone().unwrap_or_default();
            (
                name,
                crate::assertions::engine_decision(&mut fleet, binding),
            )
        })
        .collect()
}
