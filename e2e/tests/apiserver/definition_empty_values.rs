//! Test of empty values in CustomResourceDefinitions: the server keeps some of them and drops the others.

use serde_json::{Value, json};

use crate::harness::definitions::DEFINITIONS;
use crate::harness::objects::Objects;
use crate::harness::server;

/// Returns a definition with these additional fields in its spec and in its only version.
fn definition(spec: &Value, version: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "gears.conversions.example"}, "spec": {
        "group": "conversions.example", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    for (place, more) in [("/spec", spec), ("/spec/versions/0", version)] {
        let object = object.pointer_mut(place).unwrap().as_object_mut().unwrap();
        object.extend(more.as_object().cloned().unwrap_or_default());
    }
    object
}

fn webhook(config: Value) -> Value {
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": config});
    json!({"conversion": {"strategy": "Webhook", "webhook": webhook}})
}

/// Checks that the server keeps an empty value that differs from a missing value, such as `optionalOldSelf: false` or
/// an empty webhook path. Other empty values are dropped.
#[tokio::test]
async fn significant_empty_values_of_definitions_are_kept() {
    let server = server().await;
    let definitions = Objects::at(&server, DEFINITIONS);
    let scale = json!({"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r", "labelSelectorPath": ""});
    let rule = json!({"rule": "self == oldSelf", "optionalOldSelf": false, "message": "", "fieldPath": ""});
    let field = json!({"type": "string", "maxLength": 3, "title": "", "nullable": false, "example": null, "default": null,
        "enum": [], "allOf": [], "x-kubernetes-validations": [rule]});
    let version = json!({"deprecated": false, "additionalPrinterColumns": [], "subresources": {"status": {}, "scale": scale},
        "schema": {"openAPIV3Schema": {"type": "object", "required": [], "x-kubernetes-validations": [],
            "properties": {"a": field}}}});
    let spec =
        webhook(json!({"caBundle": "", "service": {"namespace": "n", "name": "s", "path": ""}}));
    let created = definitions
        .post("?dryRun=All", &definition(&spec, &version))
        .await;
    assert_eq!(created.code, 201, "{}", created.text);
    let rule = json!({"rule": "self == oldSelf", "optionalOldSelf": false});
    let field = json!({"type": "string", "maxLength": 3, "x-kubernetes-validations": [rule]});
    let expected = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": scale},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": field}}}});
    assert_eq!(created.json["spec"]["versions"][0], expected);
    let config = json!({"service": {"namespace": "n", "name": "s", "path": "", "port": 443}});
    assert_eq!(
        created.json["spec"]["conversion"]["webhook"]["clientConfig"],
        config
    );
}
