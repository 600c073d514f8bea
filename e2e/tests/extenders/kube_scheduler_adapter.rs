//! A test of the example adapter `examples/extender/kube_scheduler.py`, through which the scheduler calls an extender
//! that was written for kube-scheduler.

use std::ffi::OsStr;

use berth_e2e::example_extender;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::fixture::{start, to_all_clusters, to_best_cluster};
use berth_test_servers::FakeExtender;

/// Returns the names of the nodes in a request.
fn sent_names(body: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    if let Some(names) = body["NodeNames"].as_array() {
        return names.iter().map(text).collect();
    }
    let nodes = body["Nodes"]["items"].as_array().unwrap();
    let names = nodes.iter().map(|node| text(&node["metadata"]["name"]));
    names.collect()
}

/// Returns the response of an extender that uses the Go types of `k8s.io/kube-scheduler/extender/v1`. The extender
/// rejects m1 and prefers m3.
fn kube_extender(verb: &str, body: &Value) -> Value {
    assert_eq!(body["Pod"]["kind"], "Pod", "{body}");
    let names = sent_names(body);
    if verb == "prioritize" {
        let scores = names
            .iter()
            .map(|name| json!({ "Host": name, "Score": if name == "m3" { 10 } else { 1 } }));
        return scores.collect();
    }
    let (failed, passing): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name == "m1");
    let failed: serde_json::Map<_, _> = failed
        .into_iter()
        .map(|name| (name, json!("node(s) had no licence")))
        .collect();
    let nodes: Vec<_> = passing
        .iter()
        .map(|name| json!({ "metadata": { "name": name } }))
        .collect();
    let by_name = body["NodeNames"].is_array();
    json!({ "Nodes": if by_name { Value::Null } else { json!({ "items": nodes }) },
        "NodeNames": if by_name { json!(passing) } else { Value::Null },
        "FailedNodes": failed, "FailedAndUnresolvableNodes": null, "Error": "" })
}

/// Checks that the extender receives the clusters as nodes and the binding as a pod, and that its responses decide the
/// placement. The adapter sends either the names of the nodes or whole nodes.
#[needs(python3)]
#[tokio::test(flavor = "multi_thread")]
async fn an_extender_for_kube_scheduler_filters_and_scores_clusters() {
    for by_name in [true, false] {
        let extender = FakeExtender::responding_with(kube_extender).await;
        let (_adapter, url) = example_extender::start(
            "kube_scheduler.py",
            &[OsStr::new("--to"), OsStr::new(&extender.url)],
        );
        let fixture = start(json!([{ "urlPrefix": url, "filterVerb": "filter",
            "prioritizeVerb": "prioritize", "weight": 5, "clusterCacheCapable": by_name }]))
        .await;
        assert_eq!(
            fixture.schedule(&to_all_clusters("all")).await.unwrap(),
            ["m2", "m3", "m4"]
        );
        assert_eq!(
            fixture.schedule(&to_best_cluster("one")).await.unwrap(),
            ["m3"]
        );
        let requests = extender.requests();
        let pod = &requests[0].body["Pod"];
        assert_eq!(pod["metadata"]["name"], "all");
        assert_eq!(pod["spec"]["containers"][0]["name"], "all");
        if !by_name {
            assert_eq!(
                requests[0].body["Nodes"]["items"][0]["metadata"]["labels"]["number"],
                "1"
            );
        }
        fixture.stop().await;
    }
}
