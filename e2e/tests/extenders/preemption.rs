//! The verb `preempt` of extenders. The plugin DefaultPreemption proposes bindings to evict, which are the victims. An
//! extender spares a victim if it leaves the victim out of its response.

use std::sync::{Arc, Mutex};

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::{BareControlPlane, SchedulerFixture, eventually, sample};
use berth_scheduler::framework::Registry;
use http::StatusCode;
use serde_json::{Value, json};

use berth_test_servers::{FakeExtender, ScriptedResponse};

/// Returns a ready cluster with capacity for four replicas.
fn cluster(name: &str) -> Cluster {
    sample::cluster_with_capacity(name, 4, 110)
}

/// Returns a binding with four replicas, each of which requests one CPU.
fn binding(name: &str, priority: i32, clusters: &[&str]) -> ResourceBinding {
    let affinity = json!({ "clusterAffinity": { "clusterNames": clusters } });
    let spec = json!({
        "replicas": 4,
        "schedulePriority": { "priority": priority },
        "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
        "placement": sample::merged(sample::by_available_replicas(), affinity),
    });
    sample::binding(name, json!({ "spec": spec }))
}

/// Starts a scheduler with two clusters. The binding `least` with priority 0 fills m1, and the binding `less` with
/// priority 1 fills m2. Then creates the binding `high`, which fits into neither cluster.
async fn start_with_full_clusters(extender: Value) -> SchedulerFixture {
    let bare = BareControlPlane::start(&[cluster("m1"), cluster("m2")]).await;
    let configuration = json!({
        "extenders": [extender],
        "profiles": [{ "plugins": { "multiPoint": { "enabled": [{ "name": "DefaultPreemption" }] } } }],
    });
    let fixture = SchedulerFixture::start_on(bare, Registry::new(), configuration);
    for (name, priority, cluster) in [("least", 0, "m1"), ("less", 1, "m2")] {
        let placed = fixture.schedule(&binding(name, priority, &[cluster])).await;
        assert_eq!(placed.unwrap(), [cluster]);
    }
    fixture.bare.bind(&binding("high", 9, &["m1", "m2"])).await;
    fixture
}

/// Returns the configuration of an extender that serves the verb `preempt`. `more` sets further fields.
fn preempt_config(extender: &FakeExtender, more: Value) -> Value {
    let mut config = json!({ "urlPrefix": extender.url, "preemptVerb": "preempt" });
    for (field, value) in more.as_object().unwrap() {
        config[field] = value.clone();
    }
    config
}

/// Waits until the message in the condition of the binding `high` contains `text`, and returns the message.
async fn wait_for_message(fixture: &SchedulerFixture, text: &str) -> String {
    eventually(text, async || match fixture.outcome("high").await {
        Err((_, message)) if message.contains(text) => Ok(message),
        other => Err(format!("{other:?}")),
    })
    .await
}

/// Returns the clusters of the graceful eviction tasks of a binding.
async fn eviction_tasks(fixture: &SchedulerFixture, name: &str) -> Vec<String> {
    let stored = fixture.bare.bindings("default").get(name).await.unwrap();
    let tasks = stored.spec.graceful_eviction_tasks.into_iter();
    tasks.map(|task| task.from_cluster).collect()
}

/// Waits until a binding has exactly one graceful eviction task, for this cluster.
async fn wait_for_eviction(fixture: &SchedulerFixture, name: &str, cluster: &str) {
    eventually(&format!("the eviction of {name}"), async || {
        let tasks = eviction_tasks(fixture, name).await;
        if tasks == [cluster] {
            Ok(())
        } else {
            Err(format!("{tasks:?}"))
        }
    })
    .await;
}

/// Checks that a binding keeps its cluster and has no eviction task.
async fn assert_kept(fixture: &SchedulerFixture, name: &str, cluster: &str) {
    assert_eq!(
        eviction_tasks(fixture, name).await,
        Vec::<String>::new(),
        "{name}"
    );
    assert_eq!(fixture.outcome(name).await.unwrap(), [cluster], "{name}");
}

/// Returns the proposed victims in a request, each in the form `BINDING@CLUSTER`.
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

/// Checks that the scheduler evicts `less` from m2 if the extender spares `least` in m1.
#[tokio::test(flavor = "multi_thread")]
async fn a_victim_that_an_extender_spares_is_replaced_by_another() {
    let extender = FakeExtender::responding_with(|_, body| {
        let mut left = body["clusterNameToVictims"].clone();
        left.as_object_mut().unwrap().remove("m1");
        json!({ "clusterNameToVictims": left })
    })
    .await;
    let fixture = start_with_full_clusters(preempt_config(&extender, json!({}))).await;
    wait_for_message(&fixture, "preempts default/less in m2").await;
    wait_for_eviction(&fixture, "less", "m2").await;
    assert_kept(&fixture, "least", "m1").await;
    let requests = extender.requests();
    assert_eq!(victims(&requests[0].body), ["least@m1"]);
    assert_eq!(victims(&requests[1].body), ["less@m2"]);
    assert_eq!(requests[0].body["binding"]["metadata"]["name"], "high");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_binding_is_evicted_if_an_extender_spares_all_victims() {
    let extender =
        FakeExtender::responding_with(|_, _| json!({ "clusterNameToVictims": {} })).await;
    let fixture = start_with_full_clusters(preempt_config(&extender, json!({}))).await;
    let message = wait_for_message(&fixture, "not enough to schedule").await;
    assert!(!message.contains("preempts"), "{message}");
    let proposed: Vec<_> = extender
        .requests()
        .iter()
        .flat_map(|request| victims(&request.body))
        .collect();
    assert_eq!(proposed, ["least@m1", "less@m2"]);
    assert_kept(&fixture, "least", "m1").await;
    assert_kept(&fixture, "less", "m2").await;
    fixture.stop().await;
}

/// Starts an extender that responds with status 500 until the test sets the returned flag. After that, the extender
/// accepts all victims.
async fn failing_extender() -> (FakeExtender, Arc<Mutex<bool>>) {
    let healthy = Arc::new(Mutex::new(false));
    let is_healthy = Arc::clone(&healthy);
    let fake = FakeExtender::with_async_script(move |_, body| {
        let response: ScriptedResponse = if *is_healthy.lock().unwrap() {
            let all = json!({ "clusterNameToVictims": body["clusterNameToVictims"] });
            (StatusCode::OK, all.to_string())
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "{}".to_owned())
        };
        Box::pin(async move { response })
    })
    .await;
    (fake, healthy)
}

/// Checks that a failed call evicts no binding and is reported in the condition, and that the preemption succeeds when
/// the extender works again.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_preempt_call_is_reported_and_retried() {
    let (extender, healthy) = failing_extender().await;
    let fixture = start_with_full_clusters(preempt_config(&extender, json!({}))).await;
    let failed = format!(
        "preemption failed: plugin \"DefaultPreemption\" failed at PostFilter: extender {}: the response status is 500",
        extender.url
    );
    wait_for_message(&fixture, &failed).await;
    assert_kept(&fixture, "least", "m1").await;
    assert_kept(&fixture, "less", "m2").await;
    *healthy.lock().unwrap() = true;
    wait_for_message(&fixture, "preempts default/least in m1").await;
    wait_for_eviction(&fixture, "least", "m1").await;
    fixture.stop().await;
}

/// Checks that the scheduler evicts the proposed victim if the call of an ignorable extender fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_preempt_call_of_an_ignorable_extender_spares_no_victim() {
    let (extender, _) = failing_extender().await;
    let fixture =
        start_with_full_clusters(preempt_config(&extender, json!({ "ignorable": true }))).await;
    wait_for_message(&fixture, "preempts default/least in m1").await;
    wait_for_eviction(&fixture, "least", "m1").await;
    assert_kept(&fixture, "less", "m2").await;
    assert!(!extender.requests().is_empty());
    fixture.stop().await;
}
