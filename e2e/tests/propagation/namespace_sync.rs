//! A test of the propagation of namespaces to all members, including a member that joins later.

use berth_controllers::detector::DetectorOptions;
use berth_controllers::monitor::Monitor;
use berth_controllers::namespace_sync;
use berth_e2e::Objects as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// In both members, the namespace has the label that a ClusterOverridePolicy adds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_created_in_and_deleted_from_all_members() {
    let mut fleet = Fleet::without_clusters(2).await;
    for member in ["m1", "m2"] {
        // The test runs no cluster controller, which otherwise creates this namespace.
        fleet
            .apply(namespace(&format!("karmada-es-{member}")))
            .await;
    }
    fleet.join(0).await;
    fleet.start_controllers();
    let cancel = CancellationToken::new();
    let options = DetectorOptions::parse("", &["kube-.*".to_owned()]).unwrap();
    let skipped = options.skipped_namespaces;
    let syncing = tokio::spawn(namespace_sync::run(
        fleet.client.clone(),
        skipped,
        Monitor::default(),
        cancel.clone(),
    ));

    let shop = namespace("shop");
    let label = json!({ "labelsOverrider": [{ "operator": "add", "value": { "fleet": "yes" } }] });
    fleet
        .apply(
            json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterOverridePolicy",
            "metadata": { "name": "label" }, "spec": {
                "resourceSelectors": [{ "apiVersion": "v1", "kind": "Namespace", "name": "shop" }],
                "overrideRules": [{ "overriders": label }] } }),
        )
        .await;
    fleet.apply(shop.clone()).await;
    let [m1, m2] = &fleet.members[..] else {
        panic!("the fleet must have two members")
    };
    let labelled = |namespace: &Value| namespace["metadata"]["labels"]["fleet"] == "yes";
    m1.wait_for(&shop, "the label of the policy", labelled)
        .await;
    assert_eq!(m2.get(&shop).await, None);

    fleet.join(1).await;
    m2.wait_for(&shop, "the label of the policy", labelled)
        .await;

    fleet.delete(&shop).await;
    for member in [m1, m2] {
        berth_e2e::eventually("deletion of the namespace", async || {
            match member.get(&shop).await {
                // A kube-apiserver without a namespace controller never completes the deletion.
                Some(left) if left["metadata"]["deletionTimestamp"].is_null() => Err(left),
                _ => Ok(()),
            }
        })
        .await;
    }
    cancel.cancel();
    syncing.await.unwrap().unwrap();
    fleet.stop().await;
}
