//! Tests of a scheduler with ClusterQueues: limits, status, metrics of the queue, and a kind that appears later.

use berth_api::ClusterQueue;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use berth_scheduler::config::ClusterQueues;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::assertions::{is_settled, scheduled};
use crate::objects::{binding, cluster, on_cluster};

const REFUSAL: &str = "ClusterQueue team: 3 of 2 cpu would be in use";

/// Waits until the status of the queue contains these fields.
async fn wait_for_status(queues: &Api<ClusterQueue>, expected: &Value) {
    eventually("the status of the queue", async || {
        let queue = queues.get("team").await.unwrap();
        let mut status = json!(queue.status.unwrap_or_default());
        let conditions = status["conditions"].take();
        status.as_object_mut().unwrap().remove("conditions");
        if status == *expected && conditions[0]["type"] == "Active" {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
}

/// Three bindings request one CPU each, and the queue of their namespace allows two. The third binding is placed when
/// the nominal quota grows. A restarted scheduler counts what runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_holds_bindings_until_its_quota_has_room() {
    let bare = BareControlPlane::start(&[cluster("m1", 100)]).await;
    let queues: Api<ClusterQueue> = Api::all(bare.client.clone());
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": "default" } });
    let quotas = json!([{ "name": "cpu", "nominalQuota": "2" }]);
    let queue = json!({ "metadata": { "name": "team" },
        "spec": { "namespaceSelector": selector, "quotas": quotas } });
    let queue = serde_json::from_value(queue).unwrap();
    queues.create(&PostParams::default(), &queue).await.unwrap();
    let options = || Options {
        cluster_queues: ClusterQueues::On,
        ..Options::embedded()
    };
    let first = RunningScheduler::start(options(), bare.client.clone());
    bare.bind_all(&["a", "b", "c"].map(|name| binding(name, 1, on_cluster("m1"))))
        .await;
    let usage = |total: &str| json!([{ "name": "cpu", "total": total, "borrowed": "0" }]);
    let status = json!({ "pendingBindings": 1, "admittedBindings": 2, "usage": usage("2") });
    wait_for_status(&queues, &status).await;
    let bindings = bare.all_bindings().await;
    let refused = bindings
        .iter()
        .find(|binding| !is_settled(binding))
        .unwrap();
    let condition = scheduled(refused).unwrap();
    assert_eq!(
        (&*condition.reason, &*condition.message),
        ("QuotaExceeded", REFUSAL)
    );

    first.stop().await.unwrap();
    let second = RunningScheduler::start(options(), bare.client.clone());
    let quotas = json!([{ "name": "cpu", "nominalQuota": "3" }]);
    let patch = Patch::Merge(json!({ "spec": { "quotas": quotas } }));
    queues
        .patch("team", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let status = json!({ "pendingBindings": 0, "admittedBindings": 3, "usage": usage("3") });
    wait_for_status(&queues, &status).await;
    assert!(bare.all_bindings().await.iter().all(is_settled));
    second.stop().await.unwrap();
    bare.stop().await;
}
