//! Test of the priority and preemption policy that pods get from their PriorityClass.

use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

async fn create(server: &TestServer, path: &str, object: Value) -> ApiResponse {
    server.raw("POST", path, &[JSON], object.to_string()).await
}

/// Checks that a pod gets the priority and preemption policy of its PriorityClass. A pod with a different priority or
/// preemption policy gets 403.
#[tokio::test]
async fn pods_get_the_priority_of_their_class() {
    let server = server().await;
    let namespace = server.namespace().await;
    let class = format!("class-{namespace}");
    let object = json!({"metadata": {"name": class}, "value": 7, "preemptionPolicy": "Never"});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(create(&server, classes, object).await.code, 201);
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = |spec: Value| {
        let mut all = json!({"containers": [{"name": "c", "image": "i"}]});
        for (field, value) in spec.as_object().unwrap() {
            all[field.as_str()] = value.clone();
        }
        json!({"metadata": {"name": "p"}, "spec": all})
    };
    let dry_run = format!("{pods}?dryRun=All");
    // The server may use a new PriorityClass with a delay.
    let assigned = eventually("the class to apply", async || {
        let response = create(&server, &dry_run, pod(json!({"priorityClassName": class}))).await;
        if response.code == 201 {
            Ok(response.json["spec"].clone())
        } else {
            Err(response.text)
        }
    })
    .await;
    assert_eq!(assigned["priority"], 7);
    assert_eq!(assigned["preemptionPolicy"], "Never");
    let plain = create(&server, &dry_run, pod(json!({}))).await.json["spec"].take();
    assert_eq!(plain["priority"], 0);
    assert_eq!(plain["preemptionPolicy"], "PreemptLowerPriority");
    for (spec, why) in [
        (
            json!({"priorityClassName": "nothing"}),
            "pods \"p\" is forbidden: no PriorityClass with name nothing was found",
        ),
        (
            json!({"priority": 5}),
            "pods \"p\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority \
             admission controller computed 0 from the given PriorityClass name",
        ),
        (
            json!({"priorityClassName": class, "preemptionPolicy": "PreemptLowerPriority"}),
            "pods \"p\" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided \
             in pod spec; priority admission controller computed Never from the given PriorityClass name",
        ),
    ] {
        let response = create(&server, &dry_run, pod(spec)).await;
        assert_eq!(
            (response.code, &response.json["message"]),
            (403, &json!(why))
        );
    }
    // An update that omits the priority keeps the stored priority.
    let created = create(&server, &pods, pod(json!({"priorityClassName": class}))).await;
    let mut again = created.json;
    again["spec"].as_object_mut().unwrap().remove("priority");
    let path = format!("{pods}/p");
    let kept = server.raw("PUT", &path, &[JSON], again.to_string()).await;
    assert_eq!(
        (kept.code, &kept.json["spec"]["priority"]),
        (200, &json!(7))
    );
}
