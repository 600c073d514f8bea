//! Patches of existing pods. The server must respond to each patch with the status code and the causes that
//! kube-apiserver returned in a recording.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::harness::content_type::{JSON, JSON_PATCH};
use crate::harness::server::server;

const RECORDED: &str = include_str!("data/pod_changes.json");

/// The recording: pods, and patches with their responses.
#[derive(Deserialize)]
struct Recorded {
    pods: Vec<Value>,
    /// Requests to send before the patches, keyed by the name of the pod. A request has a method, a path below the pod,
    /// a body and a content type.
    after: BTreeMap<String, Vec<(String, String, Value, String)>>,
    cases: Vec<Case>,
}

/// The name of a pod, the patched subresource, the JSON patch, and the status code and causes of the recorded response.
#[derive(Deserialize)]
struct Case(String, String, Value, u16, Vec<String>);

#[tokio::test]
async fn pod_updates_have_the_recorded_codes_and_causes() {
    let server = server().await;
    let pods = format!("/api/v1/namespaces/{}/pods", server.namespace().await);
    let recorded: Recorded = serde_json::from_str(RECORDED).unwrap();
    for pod in &recorded.pods {
        let created = server.raw("POST", &pods, &[JSON], pod.to_string()).await;
        assert_eq!(created.code, 201, "{}", created.text);
        let name = pod["metadata"]["name"].as_str().unwrap();
        for (method, part, body, kind) in recorded.after.get(name).into_iter().flatten() {
            let path = format!("{pods}/{name}{part}");
            let headers = [("content-type", kind.as_str())];
            let done = server.raw(method, &path, &headers, body.to_string()).await;
            assert_eq!(done.code, 200, "{}", done.text);
        }
    }
    let mut failures = Vec::new();
    for Case(pod, part, patch, code, causes) in &recorded.cases {
        let part = if part.is_empty() {
            String::new()
        } else {
            format!("/{part}")
        };
        let path = format!("{pods}/{pod}{part}?dryRun=All");
        let response = server
            .raw("PATCH", &path, &[JSON_PATCH], patch.to_string())
            .await;
        let found = (response.code, response.causes());
        if found != (*code, causes.clone()) {
            failures.push(format!(
                "{pod}{part} {patch}:\n  expected {code} {causes:?}\n  found    {found:?} {}",
                response.text
            ));
        }
    }
    let (count, all) = (failures.len(), recorded.cases.len());
    assert!(
        all > 70 && failures.is_empty(),
        "{count} of {all} differ\n{}",
        failures.join("\n")
    );
}
