//! Tests of the compilation of CEL rules when a CustomResourceDefinition is created.
//!
//! The file `data/rules.json` contains rules that kube-apiserver 1.36 accepts, and rules that it rejects because of
//! unknown names, wrong syntax or wrong constants.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::definitions::{DEFINITIONS, definition};
use crate::harness::server::{ApiResponse, TestServer, server};

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
async fn recorded_rules_are_accepted_or_rejected() {
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
