//! Label and field selectors, valid and invalid. The server must respond to each selector with the status code that
//! kube-apiserver returned in a recording.

use crate::harness::server::server;

const RECORDED: &str = include_str!("data/selectors.json");

/// The query parameter, the selector, and the status code and message of the recorded response. The test ignores the
/// message.
type Case = (String, String, u16, Option<String>);

#[tokio::test]
async fn selectors_have_the_recorded_results() {
    let server = server().await;
    let cases: Vec<Case> = serde_json::from_str(RECORDED).unwrap();
    assert!(cases.len() > 70, "{}", cases.len());
    let mut failures = Vec::new();
    for (parameter, text, code, _) in cases {
        let query = encoded(&text);
        let path = format!("/api/v1/namespaces/kube-public/pods?{parameter}={query}");
        let response = server.raw("GET", &path, &[], "").await;
        if response.code != code {
            failures.push(format!("{text}: {} instead of {code}", response.code));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Percent-encodes every byte.
fn encoded(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}
