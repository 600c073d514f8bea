//! Test of list requests for a resource version that has expired.

use serde_json::{Value, json};

use berth_e2e::eventually;

use crate::harness::server::{ROOT_CA, TestServer, with_short_history};

/// Returns a ConfigMap of 200 kB. The history of a server cannot contain a few hundred writes of this size.
fn large(name: &str) -> String {
    json!({"metadata": {"name": name}, "data": {"text": "x".repeat(200_000)}}).to_string()
}

async fn write(server: &TestServer, method: &str, path: &str, kind: &str, body: String) {
    let response = server
        .raw(method, path, &[("content-type", kind)], body)
        .await;
    assert!(response.code < 300, "{}", response.text);
}

/// Checks that a list request with an expired continue token gets 410 and a new token. A request with the new token
/// returns the remaining objects. A list at an exact, expired resource version also gets 410.
#[tokio::test]
async fn a_list_with_an_expired_continue_token_gets_a_new_token() {
    let server = with_short_history().await;
    let namespace = server.namespace().await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    for name in ["a", "b", "c"] {
        write(&server, "POST", &maps, "application/json", large(name)).await;
    }
    let page = server
        .raw("GET", &format!("{maps}?limit=2"), &[], "")
        .await
        .json;
    let (token, version) = (
        page["metadata"]["continue"].as_str().unwrap().to_owned(),
        page["metadata"]["resourceVersion"].as_str().unwrap(),
    );
    for i in 0..300 {
        let change = json!({"data": {"i": i.to_string()}}).to_string();
        let path = format!("{maps}/c");
        write(
            &server,
            "PATCH",
            &path,
            "application/merge-patch+json",
            change,
        )
        .await;
    }
    let next_page = format!("{maps}?limit=2&continue={token}");
    let expired = eventually("the list to expire", async || {
        let response = server.raw("GET", &next_page, &[], "").await;
        match response.code {
            410 => Ok(response.json),
            code => Err(format!("{code}: the token is still valid")),
        }
    })
    .await;
    assert_eq!(expired["reason"], "Expired");
    assert_eq!(
        expired["message"],
        "The provided continue parameter is too old to display a consistent list result. You can start a new \
         list without the continue parameter, or use the continue token in this response to retrieve the \
         remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
         that were created, modified, or deleted between the time the first chunk was returned and now may show \
         up in the list."
    );
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = server
        .raw("GET", &format!("{maps}?limit=2&continue={token}"), &[], "")
        .await
        .json;
    let names: Vec<&Value> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|map| &map["metadata"]["name"])
        .filter(|name| **name != ROOT_CA)
        .collect();
    assert_eq!(
        names,
        ["c"],
        "the new token must return the remaining items"
    );

    let exact = format!("{maps}?resourceVersion={version}&resourceVersionMatch=Exact");
    let exact = server.raw("GET", &exact, &[], "").await;
    assert_eq!(
        (exact.code, &exact.json["reason"]),
        (410, &json!("Expired"))
    );
    assert_eq!(
        exact.json["message"],
        "The resourceVersion for the provided list is too old."
    );
}
