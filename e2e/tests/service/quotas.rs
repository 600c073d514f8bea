//! Tests of a scheduler that enforces FederatedResourceQuotas. The control plane has no admission webhook.

use berth_api::{FederatedResourceQuota, ResourceBinding};
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use berth_scheduler::config::QuotaEnforcement;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::assertions::{is_settled, scheduled};
use crate::objects::{binding, cluster, on_cluster};

const NAMES: [&str; 3] = ["a", "b", "c"];
const REFUSAL: &str =
    "FederatedResourceQuota(default/team) exceeded for resource cpu: requested sum 3, limit 2.";

fn enforcing() -> Options {
    Options {
        quotas: QuotaEnforcement::On,
        ..Options::embedded()
    }
}

async fn all(bare: &BareControlPlane) -> Vec<ResourceBinding> {
    let bindings = bare.bindings("default");
    bindings.list(&Default::default()).await.unwrap().items
}

fn placed(bindings: &[ResourceBinding]) -> usize {
    let with_clusters = bindings
        .iter()
        .filter(|binding| !binding.spec.clusters.is_empty());
    with_clusters.count()
}

/// Waits until two bindings are placed and the others are refused.
async fn wait_until_two_are_placed(bare: &BareControlPlane) -> Vec<ResourceBinding> {
    eventually("two bindings to be placed", async || {
        let bindings = all(bare).await;
        let is_decided = |binding: &ResourceBinding| match scheduled(binding) {
            Some(condition) if condition.reason == "QuotaExceeded" => condition.message == REFUSAL,
            _ => is_settled(binding),
        };
        assert!(placed(&bindings) <= 2, "{bindings:?}");
        if placed(&bindings) == 2 && bindings.iter().all(is_decided) {
            Ok(bindings)
        } else {
            Err(format!("{bindings:?}"))
        }
    })
    .await
}

/// Three bindings request one CPU each, and the quota allows two. The third binding is placed when another is deleted. A
/// restarted scheduler changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_alone_enforces_a_quota() {
    let bare = BareControlPlane::start(&[cluster("m1", 100)]).await;
    let quotas: Api<FederatedResourceQuota> = Api::namespaced(bare.client.clone(), "default");
    let quota = json!({ "metadata": { "name": "team" }, "spec": { "overall": { "cpu": "2" } } });
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let first = RunningScheduler::start(enforcing(), bare.client.clone());
    let bindings = NAMES.map(|name| binding(name, 1, on_cluster("m1")));
    bare.bind_all(&bindings).await;
    let before = wait_until_two_are_placed(&bare).await;

    first.stop().await.unwrap();
    let second = RunningScheduler::start(enforcing(), bare.client.clone());
    // Another namespace has no quota, and its binding is decided after the older ones.
    bare.add_namespaces(&["other".to_owned()]).await;
    let mut elsewhere = binding("d", 1, on_cluster("m1"));
    elsewhere.metadata.namespace = Some("other".to_owned());
    bare.bind(&elsewhere).await;
    eventually("the binding without a quota to be placed", async || {
        let stored = bare.bindings("other").get("d").await.unwrap();
        if is_settled(&stored) {
            Ok(())
        } else {
            Err(format!("{:?}", stored.status))
        }
    })
    .await;
    let versions = |bindings: &[ResourceBinding]| -> Vec<_> {
        bindings
            .iter()
            .map(ResourceBinding::resource_version)
            .collect()
    };
    let after = all(&bare).await;
    assert_eq!(versions(&after), versions(&before), "nothing is written");

    let of_first = after.iter().find(|binding| is_settled(binding)).unwrap();
    let waiting = after
        .iter()
        .find(|binding| binding.spec.clusters.is_empty());
    let waiting = waiting.unwrap().name_any();
    let api = bare.bindings("default");
    api.delete(&of_first.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    let bindings = wait_until_two_are_placed(&bare).await;
    assert!(bindings.iter().any(|binding| binding.name_any() == waiting));
    second.stop().await.unwrap();
    bare.stop().await;
}
