//! Fields of immutable specs that a member sets by default: later changes of the template still arrive. Also tests the
//! status of a Pod whose containers restart.

use berth_e2e::Objects as _;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::policy;

/// A claim gets the default storage class of the member, and the containers of a Pod get the resources of a LimitRange.
/// Updates without these fields would be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_the_member_in_immutable_specs_are_kept() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    m1.apply(
        json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "defaults" },
        "spec": { "limits": [{ "type": "Container", "default": { "cpu": "1" } }] } }),
    )
    .await;
    let classes = kube::api::Api::all(m1.client.clone());
    let class: k8s_openapi::api::storage::v1::StorageClass = serde_json::from_value(json!({
        "metadata": { "name": "standard",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
        "provisioner": "example.com/disks" }))
    .unwrap();
    classes
        .create(&kube::api::PostParams::default(), &class)
        .await
        .unwrap();
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "disk" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "task" },
        "spec": { "restartPolicy": "OnFailure", "containers": [{ "name": "main", "image": "busybox" }] } });
    for (object, defaulted) in [
        (&claim, "/spec/storageClassName"),
        (&pod, "/spec/containers/0/resources/limits/cpu"),
    ] {
        fleet.apply(object.clone()).await;
        fleet.apply(policy(object, &["m1"])).await;
        let created = m1.wait_until_exists(object).await;
        assert!(created.pointer(defaulted).is_some(), "{created}");
        let label = json!({ "metadata": { "labels": { "tier": "gold" } } });
        fleet.edit(object, label).await;
        let edited = m1
            .wait_for(object, "the label", |object| {
                object["metadata"]["labels"]["tier"] == "gold"
            })
            .await;
        assert_eq!(edited.pointer(defaulted), created.pointer(defaulted));
    }
    fleet
        .wait_for_fully_applied("disk-persistentvolumeclaim", "True")
        .await;
    fleet.wait_for_fully_applied("task-pod", "True").await;

    // The container fails, and runs again.
    let report = async |state: Value, part: &str| {
        let status = json!({ "phase": "Running", "containerStatuses": [{ "name": "main", "image": "busybox",
            "imageID": "", "ready": false, "restartCount": 0, "state": state }] });
        m1.report_status(&pod, status).await;
        fleet
            .wait_for(&pod, "the state", |pod| {
                let reported = &pod["status"]["containerStatuses"][0];
                reported["name"] == "main" && !reported["state"][part].is_null()
            })
            .await;
    };
    report(json!({ "terminated": { "exitCode": 1 } }), "terminated").await;
    let started = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    report(started, "running").await;
    fleet.stop().await;
}
