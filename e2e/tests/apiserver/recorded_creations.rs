//! Test of the responses to the creation of built-in objects. Default values, quantities and managed fields must equal
//! the recorded responses. If the tests run against kube-apiserver, the recording itself is checked.

use serde_json::Value;

use crate::harness::content_type::JSON;
use crate::harness::server::server;

const RECORDED: &str = include_str!("data/created_objects.json");

/// Removes or replaces the values that differ between two equal requests, such as times and UIDs.
pub(crate) fn comparable(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|name, value| match name.as_str() {
                "time"
                | "resourceVersion"
                | "uid"
                | "creationTimestamp"
                | "lastPhaseTransitionTime"
                | "nodePort"
                | "healthCheckNodePort" => false,
                "clusterIP" => value == "None",
                "clusterIPs" => *value == serde_json::json!(["None"]),
                _ => true,
            });
            object.values_mut().for_each(comparable);
        }
        Value::Array(items) => items.iter_mut().for_each(comparable),
        Value::String(text) if uuid::Uuid::try_parse(text).is_ok() => {
            "UID".clone_into(text);
        }
        _ => {}
    }
}

/// Adds a line to `out` for each difference between two values.
pub(crate) fn differences(expected: &Value, found: &Value, path: &str, out: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let (a, b) = (expected.get(name), found.get(name));
                match (a, b) {
                    (Some(a), Some(b)) => differences(a, b, &format!("{path}.{name}"), out),
                    _ => out.push(format!("{path}.{name}: expected {a:?}, found {b:?}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{i}]"), out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: expected {a}, found {b}")),
    }
}

/// Checks that the response to the creation of each recorded object equals the recorded response.
#[tokio::test]
async fn created_objects_equal_the_recorded_ones() {
    let server = server().await;
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(cases.len() > 50, "{}", cases.len());
    let mut failures = Vec::new();
    for case in cases {
        let path = format!(
            "{}?dryRun=All&fieldManager=recorder",
            case["path"].as_str().unwrap()
        );
        let response = server
            .raw("POST", &path, &[JSON], case["sent"].to_string())
            .await;
        let (mut expected, mut found) = (case["answer"].clone(), response.json);
        comparable(&mut expected);
        comparable(&mut found);
        let mut differences_of_case = Vec::new();
        differences(&expected, &found, "", &mut differences_of_case);
        let name = case["case"].as_str().unwrap();
        failures.extend(
            differences_of_case
                .into_iter()
                .map(|d| format!("{name}{d}")),
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
