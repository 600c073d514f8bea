//! Unknown and unsupported keywords in the schema of a CustomResourceDefinition. The server drops an unknown keyword
//! with a warning, or refuses the definition.

use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::definitions::{DEFINITIONS, define, definition};
use crate::harness::server::server;

/// Returns a definition with unknown keywords at several levels of its schema.
fn definition_with_unknown_keywords() -> Value {
    definition(json!({"type": "object", "foo": 1, "properties": {
        "a": {"type": "string", "minimun": 3, "default": "x", "example": {"foo": 1},
            "x-kubernetes-validations": [{"rule": "self != 'y'", "nope": 1}]},
        "b": {"type": "array", "x-other": true, "items": {"type": "string", "silent": 1}},
        "c": {"type": "object", "additionalProperties": {"type": "object", "silent": 1, "properties": {"foo": {"type": "string", "silent": 1}}}},
        "d": {"type": "object", "externalDocs": {"url": "u", "nope": 1}, "not": {"nope": 1}, "anyOf": [{"nope": 1}]},
    }}))
}

/// Paths of the unknown keywords for which the server warns, relative to the schema of `spec`. The server drops the
/// keyword `silent` without a warning.
const UNKNOWN_FIELDS: [&str; 7] = [
    "foo",
    "properties.a.minimun",
    "properties.a.x-kubernetes-validations[0].nope",
    "properties.b.x-other",
    "properties.d.anyOf[0].nope",
    "properties.d.externalDocs.nope",
    "properties.d.not.nope",
];

fn expected_warnings() -> Vec<String> {
    let at = "spec.versions[0].schema.openAPIV3Schema.properties.spec";
    let quoted = |name: &&str| format!("unknown field \"{at}.{name}\"");
    UNKNOWN_FIELDS.iter().map(quoted).collect()
}

#[tokio::test]
async fn unknown_keywords_are_dropped_with_a_warning() {
    let server = server().await;
    let definition = definition_with_unknown_keywords();
    let created = define(&server, &definition).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let mut warnings: Vec<String> = created
        .headers
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap().replace("\\\"", "\""))
        .collect();
    warnings.sort();
    let expected: Vec<String> = expected_warnings()
        .iter()
        .map(|says| format!("299 - \"{says}\""))
        .collect();
    assert_eq!(warnings, expected);
    let name = definition["metadata"]["name"].as_str().unwrap();
    let kept = server
        .raw("GET", &format!("{DEFINITIONS}/{name}"), &[], "")
        .await;
    let spec = &kept.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(
        *spec,
        json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x", "example": {"foo": 1},
                "x-kubernetes-validations": [{"rule": "self != 'y'"}]},
            "b": {"type": "array", "items": {"type": "string"}},
            "c": {"type": "object", "additionalProperties": {"type": "object", "properties": {"foo": {"type": "string"}}}},
            "d": {"type": "object", "externalDocs": {"url": "u"}, "not": {}, "anyOf": [{}]},
        }})
    );
}

/// Checks that `fieldValidation=Strict` refuses a definition with unknown keywords, and that the message lists the
/// keywords in [`UNKNOWN_FIELDS`].
#[tokio::test]
async fn strict_validation_refuses_unknown_keywords() {
    let server = server().await;
    let path = format!("{DEFINITIONS}?fieldValidation=Strict");
    let body = definition_with_unknown_keywords().to_string();
    let response = server.raw("POST", &path, &[JSON], body).await;
    assert_eq!(response.code, 400, "{}", response.text);
    let message = response.json["message"].as_str().unwrap();
    let (what, listed) = message.split_once("strict decoding error: ").unwrap();
    assert_eq!(
        what,
        "CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: "
    );
    let mut listed: Vec<&str> = listed.split(", ").collect();
    listed.sort_unstable();
    assert_eq!(listed, expected_warnings());
}

#[tokio::test]
async fn unsupported_json_schema_keywords_are_refused() {
    let server = server().await;
    for (keyword, value) in [
        ("id", json!("x")),
        ("patternProperties", json!({"^a": {"type": "string"}})),
        ("definitions", json!({"a": {"type": "string"}})),
        ("dependencies", json!({"a": ["b"]})),
        ("additionalItems", json!(true)),
    ] {
        let response = define(
            &server,
            &definition(json!({"type": "object", keyword: value})),
        )
        .await;
        let at = format!("spec.validation.openAPIV3Schema.properties[spec].{keyword}");
        let expected = format!("{at}: Forbidden: {keyword} is not supported");
        assert_eq!(
            crate::harness::definitions::causes(&response),
            [expected],
            "{}",
            response.text
        );
    }
}
