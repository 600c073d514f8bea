//! Validation of definitions: conversion webhooks, deprecation warnings, and empty values.

use serde_json::{Value, json};

use crate::definitions::DEFINITIONS;
use crate::objects::{Objects, status_of};
use crate::server;

/// Returns a definition with these fields in its spec and in its only version.
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

#[tokio::test]
async fn invalid_conversion_webhooks_are_refused() {
    let server = server().await;
    let definitions = Objects::at(&server, DEFINITIONS);
    let service = |more: Value| {
        let mut service = json!({"namespace": "n", "name": "s"});
        service
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap());
        webhook(json!({"service": service}))
    };
    let one = "webhookClientConfig: Required value: exactly one of url or service is required";
    for (spec, why) in [
        (json!({"conversion": {}}), "strategy: Required value"),
        (webhook(json!({})), one),
        (
            webhook(json!({"url": "", "service": {"namespace": "n", "name": "s"}})),
            one,
        ),
        (
            webhook(json!({"url": "http://a.b"})),
            "webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: \
             https://host[/path]",
        ),
        (
            webhook(json!({"url": "https://a.b?x=y"})),
            "webhookClientConfig.url: Invalid value: \"x=y\": query parameters are not permitted in the URL",
        ),
        (
            service(json!({"port": 0})),
            "webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}}),
            "conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
        ),
        (
            json!({"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"],
                "clientConfig": {"url": "https://a.b"}}}}),
            "conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
        ),
    ] {
        let refused = definitions
            .post("?dryRun=All", &definition(&spec, &json!({})))
            .await;
        let why = format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"gears.conversions.example\" is invalid: spec.conversion.{why}"
        );
        assert_eq!(status_of(&refused), (422, why.as_str()));
    }
}

#[tokio::test]
async fn only_deprecated_versions_have_a_deprecation_warning() {
    let server = server().await;
    let version = json!({"deprecated": false, "deprecationWarning": "soon"});
    let refused = Objects::at(&server, DEFINITIONS)
        .post("?dryRun=All", &definition(&json!({}), &version))
        .await;
    let causes = ["spec.versions[0].deprecationWarning FieldValueInvalid".to_owned()];
    assert_eq!((refused.code, refused.causes()), (422, causes.into()));
}

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

    let rule = json!({"rule": "self == oldSelf", "reason": ""});
    let version = json!({"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [rule]}}});
    let refused = definitions
        .post("?dryRun=All", &definition(&json!({}), &version))
        .await;
    let why = "reason: Unsupported value: \"\"";
    assert!(
        refused.code == 422 && status_of(&refused).1.contains(why),
        "{}",
        refused.text
    );
}
