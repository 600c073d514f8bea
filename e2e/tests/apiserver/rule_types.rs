//! Which rules can be written into a definition: what was recorded of a real server, word by word.

use serde_json::{Value, json};

use crate::definitions::{DEFINITIONS, JSON, causes, definition};
use crate::server::{Answer, Served, server};

/// For each schema the rules that a kube-apiserver 1.36 accepts on it, and what it says of the others.
const RECORDED: &str = include_str!("data/rules.json");

const AT: &str =
    "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";

async fn defined(server: &Served, schema: &Value, rule: &str) -> Answer {
    let mut spec = schema.clone();
    spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let body = definition(spec).to_string();
    let path = format!("{DEFINITIONS}?dryRun=All");
    server.raw("POST", &path, &[JSON], body).await
}

fn recorded() -> Vec<Value> {
    serde_json::from_str(RECORDED).unwrap()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().unwrap()
}

#[tokio::test]
async fn rules_that_a_real_server_accepts_are_accepted() {
    let server = server().await;
    let (mut count, mut wrong) = (0, Vec::new());
    for group in &recorded() {
        for rule in list(group, "accepted") {
            count += 1;
            let rule = rule.as_str().unwrap();
            let answer = defined(&server, &group["schema"], rule).await;
            if answer.code != 201 {
                wrong.push(format!("{rule}: {}", answer.text));
            }
        }
    }
    assert!(count > 150);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn rules_that_a_real_server_refuses_are_refused_in_its_words() {
    let server = server().await;
    let (mut count, mut wrong) = (0, Vec::new());
    for group in &recorded() {
        for case in list(group, "refused") {
            count += 1;
            let rule = case["rule"].as_str().unwrap();
            let mut expected: Vec<String> = list(case, "says")
                .iter()
                .map(|says| {
                    let says = says.as_str().unwrap();
                    // What is not about the expression does not show the rule.
                    if says.starts_with("compilation failed") || says.starts_with("cel expression")
                    {
                        format!("{AT}: Invalid value: {}: {says}", shown(rule))
                    } else {
                        format!("{}: {says}", AT.replace(".rule", ".message"))
                    }
                })
                .collect();
            expected.sort();
            let answer = defined(&server, &group["schema"], rule).await;
            let found: Vec<String> = causes(&answer)
                .iter()
                .map(|cause| with_one_number(cause))
                .collect();
            if found != expected {
                wrong.push(format!("{rule}:\n{found:#?}\n{expected:#?}"));
            }
        }
    }
    assert!(count > 80);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A cause with the same name for the type of `self`, in which a real server has a number of the moment.
fn with_one_number(cause: &str) -> String {
    let mut parts = cause.split("selfType");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{text}selfType1{rest}")
    })
}

/// A rule as messages show it.
fn shown(rule: &str) -> String {
    let rule = json!(rule).to_string();
    let rule = rule
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    format!(
        "{{\"Rule\":{rule},\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}"
    )
}
