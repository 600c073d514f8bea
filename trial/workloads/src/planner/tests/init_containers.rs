//! Tests of the statuses of init containers.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Cluster, deployment, edit_deployment};

fn status(cluster: &Cluster) -> Value {
    let pod = cluster
        .cache
        .pods
        .iter()
        .max_by_key(|pod| pod.creation_timestamp());
    serde_json::to_value(&pod.unwrap().status).unwrap()
}

fn initialized(status: &Value) -> &Value {
    let conditions = status["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|c| c["type"] == "Initialized");
    &condition.unwrap()["status"]
}

#[test]
fn init_containers_complete_before_the_pod_runs() {
    let mut cluster = Cluster::with_nodes(1, "8").without_images("^missing$");
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["spec"]["initContainers"] = json!([
            {"name": "first", "image": "one"},
            {"name": "sidecar", "image": "one", "restartPolicy": "Always"},
        ]);
    });
    cluster.plan_until_idle();
    let starting = status(&cluster);
    assert_eq!(
        starting["initContainerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    assert_eq!(initialized(&starting), "False");
    cluster.advance_until_idle();
    let running = status(&cluster);
    let init = &running["initContainerStatuses"];
    assert_eq!(
        init[0]["state"]["terminated"]["reason"], "Completed",
        "{running}"
    );
    assert_eq!(init[0]["ready"], true);
    assert!(init[1]["state"]["running"].is_object(), "{running}");
    assert_eq!(init[1]["ready"], true);
    assert_eq!(initialized(&running), "True");
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);

    // A missing image of an init container stops the pod.
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["strategy"] = json!({"type": "Recreate"});
        d["spec"]["template"]["spec"]["initContainers"][1]["image"] = json!("missing");
    });
    cluster.advance_until_idle();
    let stopped = status(&cluster);
    let init = &stopped["initContainerStatuses"];
    assert_eq!(
        init[0]["state"]["terminated"]["reason"], "Completed",
        "{stopped}"
    );
    assert_eq!(init[1]["state"]["waiting"]["reason"], "ImagePullBackOff");
    assert_eq!(
        stopped["containerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    assert_eq!(initialized(&stopped), "False");
    assert_eq!(cluster.pods("web"), ["n1 Pending"]);
}
