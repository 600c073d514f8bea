//! What of a pod may be changed after its creation, and what is said of the rest: recorded answers, word for word.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::server::server;

const RECORDED: &str = include_str!("data/pod_changes.json");
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[derive(Deserialize)]
struct Recorded {
    pods: Vec<Value>,
    /// What is done to them first, by their names: method, part, body and its type.
    after: BTreeMap<String, Vec<(String, String, Value, String)>>,
    cases: Vec<Case>,
}

/// The name of a pod, the part of it that is patched, the JSON patch, and the code and message of the answer.
#[derive(Deserialize)]
struct Case(String, String, Value, u16, String);

#[tokio::test]
async fn pods_change_as_they_may_and_are_refused_in_the_words_of_a_real_server() {
    let server = server().await;
    let pods = format!("/api/v1/namespaces/{}/pods", server.namespace().await);
    let recorded: Recorded = serde_json::from_str(RECORDED).unwrap();
    for pod in &recorded.pods {
        let made = server.raw("POST", &pods, &JSON, pod.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let name = pod["metadata"]["name"].as_str().unwrap();
        for (method, part, body, kind) in recorded.after.get(name).into_iter().flatten() {
            let path = format!("{pods}/{name}{part}");
            let headers = [("content-type", kind.as_str())];
            let done = server.raw(method, &path, &headers, body.to_string()).await;
            assert_eq!(done.code, 200, "{}", done.text);
        }
    }
    let mut wrong = Vec::new();
    for Case(pod, part, patch, code, message) in &recorded.cases {
        let part = if part.is_empty() {
            String::new()
        } else {
            format!("/{part}")
        };
        let path = format!("{pods}/{pod}{part}?dryRun=All");
        let kind = [("content-type", "application/json-patch+json")];
        let answer = server.raw("PATCH", &path, &kind, patch.to_string()).await;
        let said = answer.json["message"].as_str();
        let said = said.filter(|_| answer.code >= 400).unwrap_or_default();
        if (answer.code, said) != (*code, message.as_str()) {
            let found = answer.code;
            wrong.push(format!(
                "{pod}{part} {patch}:\n  expected {code} {message}\n  found    {found} {said}"
            ));
        }
    }
    let (count, all) = (wrong.len(), recorded.cases.len());
    assert!(
        all > 130 && wrong.is_empty(),
        "{count} of {all} differ\n{}",
        wrong.join("\n")
    );
}
