//! A differential test. It sends random sequences of requests to an embedded server and to a kube-apiserver, and
//! compares the responses. A failure shows a short sequence of requests, and the difference between the two responses
//! to the last request.
//!
//! `BERTH_DIFFERENTIAL_SEEDS=500 cargo test -p berth-e2e --test apiserver differential` generates 500 sequences, and
//! `BERTH_DIFFERENTIAL_FIRST=7` sets the first seed. `BERTH_DIFFERENTIAL_MESSAGES=1` also compares error
//! messages.

mod request;

use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::definitions::DEFINITIONS;
use crate::harness::server::{ApiResponse, TestServer, kube_apiserver_and_embedded};
use crate::recorded_creations::{comparable, differences};
use request::{Kind, LastStates, POLICIES, Request};

/// Default number of sequences.
const SEEDS: u64 = 12;

const DEFINITION: &str = include_str!("../../../crds/policy.karmada.io_propagationpolicies.yaml");

/// Known differences. The first text of each pair is a part of an error message, by which the test recognizes the
/// difference. The second text states the behaviour of the embedded server that causes the difference.
const KNOWN_DIFFERENCES: [(&str, &str); 7] = [
    ("RuntimeClass", "there are no runtime classes"),
    ("Pod Overhead", "there are no runtime classes"),
    (
        "is invalid: status.",
        "numbers in a status are not validated",
    ),
    (
        "is invalid: [status.",
        "numbers in a status are not validated",
    ),
    (
        "cannot unmarshal number",
        "integers may have a decimal point",
    ),
    (
        "in body must be of type string: \"null\"",
        "nulls in apply patches of custom resources are dropped",
    ),
    (
        "of type []uint8",
        "lists of numbers are not accepted as bytes",
    ),
];

/// Returns the part of a response that must be equal on both servers. The part contains the error message only if
/// `BERTH_DIFFERENTIAL_MESSAGES` is set.
fn comparable_response(response: &ApiResponse, namespace: &str) -> Value {
    let text = response.text.replace(namespace, "NAMESPACE");
    let mut object: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    comparable(&mut object);
    remove_timing(&mut object);
    // The content of a continue token depends on the server.
    if let Some(token) = object.pointer_mut("/metadata/continue") {
        *token = json!(token != "");
    }
    let warnings = response.headers.get_all("warning").iter().count();
    if response.code < 400 {
        return json!({"code": response.code, "warnings": warnings, "object": object});
    }
    let mut refusal = json!({"code": response.code, "reason": object["reason"]});
    if std::env::var_os("BERTH_DIFFERENTIAL_MESSAGES").is_some() {
        refusal["message"] = object["message"].clone();
    }
    refusal
}

/// Removes differences that depend on the time of a request. Servers sort field managers by the time of their last
/// write in whole seconds, so the order depends on whether two writes happen in the same second.
fn remove_timing(object: &mut Value) {
    if let Some(items) = object["items"].as_array_mut() {
        items.iter_mut().for_each(remove_timing);
    }
    if let Some(managers) = object["metadata"]["managedFields"].as_array_mut() {
        managers.sort_by_key(Value::to_string);
    }
    if let Some(deleted) = object.pointer_mut("/metadata/deletionTimestamp") {
        *deleted = json!(deleted.is_string());
    }
}

fn is_known_difference(real: &ApiResponse, embedded: &ApiResponse) -> bool {
    // kube-apiserver responds with an internal error to some wrong types in apply patches.
    let mistake = real.code == 500 && matches!(embedded.code, 400 | 422);
    let messages =
        [real, embedded].map(|response| response.json["message"].as_str().unwrap_or_default());
    let mut known = KNOWN_DIFFERENCES.iter().map(|(words, _)| words);
    mistake || known.any(|words| messages.iter().any(|message| message.contains(words)))
}

/// Sends the requests to both servers. Returns the index of the first request with different responses, and the
/// difference.
async fn first_difference(
    both: &[TestServer; 2],
    kind: &Kind,
    requests: &[Request],
) -> Option<(usize, String)> {
    let namespaces = [both[0].namespace().await, both[1].namespace().await];
    let mut states = [LastStates::default(), LastStates::default()];
    for (at, request) in requests.iter().enumerate() {
        let mut responses = Vec::new();
        for ((server, namespace), states) in both.iter().zip(&namespaces).zip(&mut states) {
            responses.push(request.send(server, kind, namespace, states).await);
        }
        let [real, embedded] = responses.as_slice() else {
            panic!("two servers");
        };
        let mut found = Vec::new();
        let [a, b] = [(real, &namespaces[0]), (embedded, &namespaces[1])];
        differences(
            &comparable_response(a.0, a.1),
            &comparable_response(b.0, b.1),
            "",
            &mut found,
        );
        if found.is_empty() {
            continue;
        }
        if is_known_difference(real, embedded) {
            // After a known difference, later responses may differ for the same reason, so the comparison ends.
            return None;
        }
        let message = |response: &ApiResponse| response.json["message"].to_string();
        return Some((
            at,
            format!(
                "{}\n  kube-apiserver: {}\n  embedded: {}",
                found.join("\n"),
                message(real),
                message(embedded)
            ),
        ));
    }
    None
}

/// Tries the sequence without each of its requests in turn, and removes a request if the last responses still differ.
/// Returns the remaining requests and the difference.
async fn shortest_sequence(
    both: &[TestServer; 2],
    kind: &Kind,
    mut requests: Vec<Request>,
    mut difference: String,
) -> (Vec<Request>, String) {
    for at in (0..requests.len() - 1).rev() {
        let mut fewer = requests.clone();
        fewer.remove(at);
        if let Some((last, found)) = first_difference(both, kind, &fewer).await
            && last == fewer.len() - 1
        {
            (requests, difference) = (fewer, found);
        }
    }
    (requests, difference)
}

async fn define(server: &TestServer) {
    let definition: Value = serde_saphyr::from_str(DEFINITION).unwrap();
    let created = server.raw("POST", DEFINITIONS, &[JSON], definition.to_string());
    assert_eq!(created.await.code, 201);
    eventually("the policies to be served", async || {
        let probe = server.raw("POST", POLICIES, &[JSON], "{}").await;
        match probe.code {
            404 => Err(probe.text),
            _ => Ok(()),
        }
    })
    .await;
}

/// Checks that both servers respond equally to all requests of each sequence. The sequence of a seed is always the
/// same.
#[needs(apiserver)]
#[tokio::test]
async fn random_requests_have_equal_responses() {
    let both = kube_apiserver_and_embedded().await;
    for server in &both {
        define(server).await;
    }
    let setting = |name: &str, default: u64| {
        let value = std::env::var(name).ok();
        value.map_or(default, |text| text.parse().unwrap())
    };
    let (first, count) = (
        setting("BERTH_DIFFERENTIAL_FIRST", 1),
        setting("BERTH_DIFFERENTIAL_SEEDS", SEEDS),
    );
    let kinds = Kind::all(&both[0]).await;
    let mut failures = Vec::new();
    for seed in first..first + count {
        let (kind, mut requests) = request::sequence(seed, &kinds);
        let Some((at, difference)) = first_difference(&both, kind, &requests).await else {
            continue;
        };
        requests.truncate(at + 1);
        let (requests, difference) = shortest_sequence(&both, kind, requests, difference).await;
        let requests: Vec<String> = requests.iter().map(|r| format!("  {r:?}")).collect();
        let (path, requests) = (&kind.path, requests.join("\n"));
        failures.push(format!("seed {seed}, {path}:\n{requests}\n{difference}"));
    }
    let total = failures.len();
    assert!(
        failures.is_empty(),
        "{total} of {count}:\n{}",
        failures.join("\n\n")
    );
}
