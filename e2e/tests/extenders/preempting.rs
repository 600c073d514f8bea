//! Extenders with a preempt verb beside DefaultPreemption: what may go is what they leave of it.

use std::sync::{Arc, Mutex};

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::{Bare, eventually};
use http::StatusCode;
use serde_json::{Value, json};

use crate::fake::{Answer, Fake};
use crate::scene::{Plane, Scene};

/// A ready cluster with room for four replicas.
fn cluster(name: &str) -> Cluster {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [
                { "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] },
            ],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
            "resourceSummary": { "allocatable": { "cpu": "4", "pods": "110" }, "allocated": { "cpu": "0" } },
        },
    }))
    .unwrap()
}

/// A binding of four replicas with a core each.
fn binding(name: &str, priority: i32, clusters: &[&str]) -> ResourceBinding {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default",
            "labels": { "propagationpolicy.karmada.io/permanent-id": "p" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default",
                "name": name, "uid": format!("uid-of-{name}") },
            "replicas": 4,
            "schedulePriority": { "priority": priority },
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "placement": {
                "clusterAffinity": { "clusterNames": clusters },
                "replicaScheduling": { "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": { "dynamicWeight": "AvailableReplicas" } },
            },
        },
    }))
    .unwrap()
}

/// Two full clusters, the least important binding in m1 and a more important one in m2; a binding that matters more
/// than both is created last.
async fn contended(extender: Value) -> Scene {
    let bare = Bare::start(&[cluster("m1"), cluster("m2")]).await;
    let scene = Plane { bare }.with_configuration(json!({
        "extenders": [extender],
        "profiles": [{ "plugins": { "multiPoint": { "enabled": [{ "name": "DefaultPreemption" }] } } }],
    }));
    for (name, priority, cluster) in [("least", 0, "m1"), ("less", 1, "m2")] {
        let placed = scene.place(&binding(name, priority, &[cluster])).await;
        assert_eq!(placed.unwrap(), [cluster]);
    }
    scene.bare.bind(&binding("high", 9, &["m1", "m2"])).await;
    scene
}

fn preempts(extender: &Fake, more: Value) -> Value {
    let mut config = json!({ "urlPrefix": extender.url, "preemptVerb": "preempt" });
    for (field, value) in more.as_object().unwrap() {
        config[field] = value.clone();
    }
    config
}

/// Waits until the condition of the binding that matters has these words.
async fn says(scene: &Scene, words: &str) -> String {
    eventually(words, async || match scene.outcome("high").await {
        Err((_, message)) if message.contains(words) => Ok(message),
        other => Err(format!("{other:?}")),
    })
    .await
}

async fn tasks(scene: &Scene, name: &str) -> Vec<String> {
    let stored = scene.bare.bindings("default").get(name).await.unwrap();
    let tasks = stored.spec.graceful_eviction_tasks.into_iter();
    tasks.map(|task| task.from_cluster).collect()
}

async fn is_evicted(scene: &Scene, name: &str, cluster: &str) {
    eventually(&format!("the eviction of {name}"), async || {
        let tasks = tasks(scene, name).await;
        if tasks == [cluster] {
            Ok(())
        } else {
            Err(format!("{tasks:?}"))
        }
    })
    .await;
}

async fn is_spared(scene: &Scene, name: &str, cluster: &str) {
    assert_eq!(tasks(scene, name).await, Vec::<String>::new(), "{name}");
    assert_eq!(scene.outcome(name).await.unwrap(), [cluster], "{name}");
}

fn victims(body: &Value) -> Vec<String> {
    let clusters = body["clusterNameToVictims"].as_object().unwrap().iter();
    let named = |(cluster, victims): (&String, &Value)| {
        let bindings = victims["bindings"].as_array().unwrap().clone();
        let name = |binding: Value| binding["name"].as_str().unwrap().to_owned();
        let cluster = cluster.clone();
        bindings
            .into_iter()
            .map(move |binding| format!("{}@{cluster}", name(binding)))
    };
    clusters.flat_map(named).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_an_extender_spares_stays_and_another_one_goes() {
    let extender = Fake::answering(|_, body| {
        let mut left = body["clusterNameToVictims"].clone();
        left.as_object_mut().unwrap().remove("m1");
        json!({ "clusterNameToVictims": left })
    })
    .await;
    let scene = contended(preempts(&extender, json!({}))).await;
    says(&scene, "preempts default/less in m2").await;
    is_evicted(&scene, "less", "m2").await;
    is_spared(&scene, "least", "m1").await;
    let came = extender.came();
    assert_eq!(victims(&came[0].body), ["least@m1"]);
    assert_eq!(victims(&came[1].body), ["less@m2"]);
    assert_eq!(came[0].body["binding"]["metadata"]["name"], "high");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_an_extender_spares_all_nobody_goes() {
    let extender = Fake::answering(|_, _| json!({ "clusterNameToVictims": {} })).await;
    let scene = contended(preempts(&extender, json!({}))).await;
    let message = says(&scene, "not enough to schedule").await;
    assert!(!message.contains("preempts"), "{message}");
    let asked: Vec<_> = extender
        .came()
        .iter()
        .flat_map(|came| victims(&came.body))
        .collect();
    assert_eq!(asked, ["least@m1", "less@m2"]);
    is_spared(&scene, "least", "m1").await;
    is_spared(&scene, "less", "m2").await;
    scene.stop().await;
}

/// An extender that answers 500 until the test lets it answer that all may go.
async fn broken() -> (Fake, Arc<Mutex<bool>>) {
    let well = Arc::new(Mutex::new(false));
    let is_well = Arc::clone(&well);
    let fake = Fake::taking_its_time(move |_, body| {
        let answer: Answer = if *is_well.lock().unwrap() {
            let all = json!({ "clusterNameToVictims": body["clusterNameToVictims"] });
            (StatusCode::OK, all.to_string())
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "{}".to_owned())
        };
        Box::pin(async move { answer })
    })
    .await;
    (fake, well)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_is_told_of_and_asked_again() {
    let (extender, well) = broken().await;
    let scene = contended(preempts(&extender, json!({}))).await;
    let failed = format!(
        "no room was made: plugin \"DefaultPreemption\" failed at PostFilter: extender {}: the response status is 500",
        extender.url
    );
    says(&scene, &failed).await;
    is_spared(&scene, "least", "m1").await;
    is_spared(&scene, "less", "m2").await;
    *well.lock().unwrap() = true;
    says(&scene, "preempts default/least in m1").await;
    is_evicted(&scene, "least", "m1").await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_and_is_ignorable_spares_nobody() {
    let (extender, _) = broken().await;
    let scene = contended(preempts(&extender, json!({ "ignorable": true }))).await;
    says(&scene, "preempts default/least in m1").await;
    is_evicted(&scene, "least", "m1").await;
    is_spared(&scene, "less", "m2").await;
    assert!(!extender.came().is_empty());
    scene.stop().await;
}
