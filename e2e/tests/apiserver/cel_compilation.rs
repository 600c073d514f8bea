//! Tests of the compilation of CEL rules when a CustomResourceDefinition is created.
//!
//! `data/rules.json` contains rules that kube-apiserver 1.36 accepts, and rules that it rejects because of unknown names,
//! wrong syntax or wrong constants.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::definitions::{DEFINITIONS, JSON, definition};
use crate::server::{ApiResponse, TestServer, server};

const RECORDED: &str = include_str!("data/rules.json");

#[derive(Deserialize)]
struct Group {
    schema: Value,
    accepted: Vec<String>,
    refused: Vec<String>,
}

async fn define_with_rule(server: &TestServer, schema: &Value, rule: &str) -> ApiResponse {
    let mut spec = schema.clone();
    spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let body = definition(spec).to_string();
    let path = format!("{DEFINITIONS}?dryRun=All");
    server.raw("POST", &path, &[JSON], body).await
}

/// Checks that the server accepts each recorded valid rule, and rejects each recorded invalid rule with 422 and the
/// field of the rule.
#[tokio::test]
async fn rules_with_valid_names_and_syntax_are_accepted() {
    let server = server().await;
    let at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule FieldValueInvalid";
    let groups: Vec<Group> = serde_json::from_str(RECORDED).unwrap();
    let (mut count, mut failures) = (0, Vec::new());
    for group in &groups {
        for rule in &group.accepted {
            let response = define_with_rule(&server, &group.schema, rule).await;
            if response.code != 201 {
                failures.push(format!("{rule}: {}", response.text));
            }
        }
        for rule in &group.refused {
            let response = define_with_rule(&server, &group.schema, rule).await;
            if response.code != 422 || response.causes() != [at] {
                failures.push(format!("{rule}: {} {:?}", response.code, response.causes()));
            }
        }
        count += group.accepted.len() + group.refused.len();
    }
    assert!(count > 200, "{count}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Checks that the server stops the evaluation of an expensive rule on a large object, and rejects the object with 422.
#[tokio::test]
async fn expensive_rules_are_stopped_during_evaluation() {
    let server = server().await;
    if server.is_real() {
        // kube-apiserver rejects this definition because of the estimated cost of its rule.
        return;
    }
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"}]});
    let kind = crate::definitions::Kind::install(&server, &definition(spec)).await;
    assert_eq!(
        kind.create("small", &json!({"l": [1, 2, 3]})).await.code,
        201
    );
    let large = kind.create("large", &json!({"l": vec![1; 1000]})).await;
    assert_eq!(large.code, 422, "{}", large.text);
    assert_eq!(large.causes(), ["spec FieldValueInvalid"]);
}
