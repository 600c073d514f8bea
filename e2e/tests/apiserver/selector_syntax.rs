//! Valid and invalid selectors: recorded responses.

use crate::server::server;

const RECORDED: &str = include_str!("data/selectors.json");

/// Parameter, value, and code and message of the response.
type Case = (String, String, u16, Option<String>);

#[tokio::test]
async fn selectors_have_the_recorded_results() {
    let server = server().await;
    let cases: Vec<Case> = serde_json::from_str(RECORDED).unwrap();
    assert!(cases.len() > 70, "{}", cases.len());
    let mut failures = Vec::new();
    for (parameter, text, code, message) in cases {
        let query = encoded(&text);
        let path = format!("/api/v1/namespaces/kube-public/pods?{parameter}={query}");
        let response = server.raw("GET", &path, &[], "").await;
        let found = response.json["message"].as_str();
        // The explanation of an invalid value is free.
        let outline = |message: &'_ str| -> Option<String> {
            Some(
                message
                    .split_once("Invalid value: ")
                    .map_or(message, |parts| parts.0)
                    .to_owned(),
            )
        };
        let (short, wanted) = (
            found.and_then(outline),
            message.as_deref().and_then(outline),
        );
        if (response.code, short) != (code, wanted) {
            let (found, expected) = ((response.code, found), (code, message));
            failures.push(format!(
                "{text}:\n  expected {expected:?}\n  found    {found:?}"
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Percent-encodes every byte.
fn encoded(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}
