//! Access and token reviews: answered on the spot, nothing is stored.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Call, pipeline};
use crate::error::ApiError;
use crate::http::{body, respond};

pub(crate) fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let decoded = body::object(content_type, bytes)?;
    let mut value = decoded.value;
    let warnings = pipeline::decode(call, &mut value, decoded.duplicates)?;
    let groups = &call.identity.groups;
    let allow = |groups: &[&str]| json!({"allowed": groups.contains(&"system:masters")});
    let own: Vec<&str> = groups.iter().map(String::as_str).collect();
    let me = json!({"username": call.identity.user, "groups": groups});
    value["status"] = match call.resource.kind.as_str() {
        "SelfSubjectAccessReview" => allow(&own),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let named = value["spec"]["groups"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            allow(&named.iter().filter_map(Value::as_str).collect::<Vec<_>>())
        }
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "SelfSubjectReview" => json!({"userInfo": me}),
        _ if value["spec"]["token"] == call.shared.token.as_str() => {
            json!({"authenticated": true, "user": me})
        }
        _ => json!({"authenticated": false, "user": {}, "error": "invalid bearer token"}),
    };
    Ok(respond::warn(
        respond::json_value(StatusCode::CREATED, &value),
        &warnings,
    ))
}
