//! Creation of reviews, such as SubjectAccessReview and TokenReview. The server returns the result in the response and
//! stores no object.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use super::pipeline::Source;
use super::{Call, Content, Outcome, pipeline, text};
use crate::authorization::attributes::{Attributes, ResourceTarget, Target};
use crate::error::{ApiError, Cause};
use crate::identity::Identity;
use crate::{clock, codec};

/// Evaluates a review, and returns the review with the result in its status.
pub(crate) fn create(call: &Call, content_type: &str, bytes: &Bytes) -> Result<Outcome, ApiError> {
    let decoded = codec::typed_object(content_type, bytes, &call.resource.kind)?;
    let mut value = decoded.value;
    let warnings = pipeline::decode(call, &mut value, Source::Body, &decoded.duplicates)?;
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    value["status"] = match call.resource.kind.as_str() {
        "SelfSubjectAccessReview" => access(call, &call.identity, &value["spec"])?,
        "SubjectAccessReview" => access(call, &subject(&value["spec"])?, &value["spec"])?,
        "LocalSubjectAccessReview" => {
            let namespace = call.namespace.as_deref().unwrap_or_default();
            let path = &value["spec"]["nonResourceAttributes"];
            if path.is_object() {
                return Err(invalid(
                    "spec.nonResourceAttributes",
                    &json!({"Path": text(path, &["path"]), "Verb": text(path, &["verb"])}),
                    "disallowed on this kind of request",
                ));
            }
            let namespace_field = &value["spec"]["resourceAttributes"]["namespace"];
            if namespace_field.as_str().unwrap_or_default() != namespace {
                return Err(invalid(
                    "spec.resourceAttributes.namespace",
                    &json!(namespace_field.as_str().unwrap_or_default()),
                    "must match metadata.namespace",
                ));
            }
            value["metadata"]["namespace"] = json!(namespace);
            access(call, &subject(&value["spec"])?, &value["spec"])?
        }
        "SelfSubjectRulesReview" => {
            let status = rules(call, text(&value, &["spec", "namespace"]))?;
            value["spec"] = json!({});
            status
        }
        "SelfSubjectReview" => {
            value["metadata"]["creationTimestamp"] = json!(clock::now());
            json!({"userInfo": call.identity.user_info()})
        }
        _ => token(call, &value["spec"])?,
    };
    Ok(Outcome::created(Content::Value(value)).warn(warnings))
}

fn invalid(field: &str, value: &Value, detail: &str) -> ApiError {
    let cause = Cause::invalid(field, value, detail);
    ApiError::invalid("authorization.k8s.io", "", "", vec![cause])
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the user whose access a SubjectAccessReview checks.
fn subject(spec: &Value) -> Result<Identity, ApiError> {
    let identity = Identity {
        user: text(spec, &["user"]).to_owned(),
        uid: text(spec, &["uid"]).to_owned(),
        groups: texts(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    };
    if identity.user.is_empty() && identity.groups.is_empty() {
        return Err(invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        ));
    }
    Ok(identity)
}

/// Returns the access that a review checks: a verb, and a resource or a path.
fn attributes(spec: &Value) -> Result<Attributes<'_>, ApiError> {
    let (on, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (on.is_object(), path.is_object()) {
        (true, false) => Ok(Attributes {
            verb: text(on, &["verb"]),
            target: Target::Resource(ResourceTarget {
                group: text(on, &["group"]),
                version: text(on, &["version"]),
                resource: text(on, &["resource"]),
                subresource: text(on, &["subresource"]),
                namespace: text(on, &["namespace"]),
                name: Cow::Borrowed(text(on, &["name"])),
            }),
        }),
        (false, true) => Ok(Attributes {
            verb: text(path, &["verb"]),
            target: Target::Path(text(path, &["path"])),
        }),
        (true, true) => Err(invalid(
            "spec.nonResourceAttributes",
            &json!({"Path": text(path, &["path"]), "Verb": text(path, &["verb"])}),
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => Err(invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
    }
}

fn access(call: &Call, identity: &Identity, spec: &Value) -> Result<Value, ApiError> {
    let attributes = attributes(spec)?;
    let reason = call.shared.access.explain(identity, &attributes);
    let mut status = json!({"allowed": reason.is_some()});
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        status["reason"] = json!(reason);
    }
    Ok(status)
}

/// Returns the status of a SelfSubjectRulesReview: the rules for resources and the rules for paths.
fn rules(call: &Call, namespace: &str) -> Result<Value, ApiError> {
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let granted = call.shared.access.rules(&call.identity, namespace);
    for rule in granted.iter().flat_map(|rules| rules.iter()) {
        let rule = json!(rule);
        for (list, field) in [
            (&mut resources, "resources"),
            (&mut paths, "nonResourceURLs"),
        ] {
            let names = rule[field].as_array();
            if names.is_some_and(|names| !names.is_empty()) && !list.contains(&rule) {
                list.push(rule.clone());
            }
        }
    }
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
}

fn token(call: &Call, spec: &Value) -> Result<Value, ApiError> {
    let token = text(spec, &["token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let shared = &call.shared;
    let found = shared
        .authenticator
        .bearer(&shared.store, token, &texts(&spec["audiences"]));
    Ok(match found {
        Ok(bearer) => json!({"authenticated": true, "user": bearer.identity.user_info(),
            "audiences": bearer.audiences}),
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    })
}
