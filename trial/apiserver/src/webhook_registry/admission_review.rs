//! The format of AdmissionReviews: the requests to webhooks, the responses of webhooks, and the error for a denied
//! request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Phase;
use crate::error::ApiError;

const API_VERSION: &str = "admission.k8s.io/v1";

/// Returns an AdmissionReview that contains the AdmissionRequest `request` with the uid `uid`.
pub(crate) fn build(uid: &str, mut request: Value) -> Value {
    request["uid"] = json!(uid);
    json!({"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request})
}

/// The decision of a webhook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The status from the response if the webhook denied the request.
    pub(crate) denial: Option<Value>,
    /// The JSON patch that changes the object.
    pub(crate) patch: Option<Vec<u8>>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview {
    kind: Option<String>,
    api_version: Option<String>,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<Map<String, Value>>,
    patch: Option<String>,
    patch_type: Option<String>,
    warnings: Option<Vec<String>>,
}

/// Parses the response to the request with the uid `uid`. Returns an error message if the response is invalid.
pub(crate) fn parse(phase: Phase, uid: &str, body: &[u8]) -> Result<Decision, String> {
    let review: AdmissionReview = serde_json::from_slice(body)
        .map_err(|error| format!("it is not an AdmissionReview: {error}"))?;
    let response = review.response.ok_or("webhook response was absent")?;
    let found = response.uid.as_deref().unwrap_or_default();
    if found != uid {
        return Err(format!("expected response.uid=\"{uid}\", got \"{found}\""));
    }
    let found = (review.api_version.as_deref(), review.kind.as_deref());
    if found != (Some(API_VERSION), Some("AdmissionReview")) {
        return Err(format!(
            "expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {found:?}"
        ));
    }
    let patch = response.patch.filter(|patch| !patch.is_empty());
    let patch = match (phase, patch, response.patch_type.as_deref()) {
        (_, None, None) => None,
        (Phase::Validating, ..) => {
            return Err("validating webhook may not return response.patch".to_owned());
        }
        (_, Some(patch), Some("JSONPatch")) => {
            let decoded = STANDARD.decode(patch);
            Some(decoded.map_err(|error| format!("response.patch is not Base64: {error}"))?)
        }
        (_, _, kind) => {
            return Err(format!(
                "response.patch needs response.patchType JSONPatch, not {kind:?}"
            ));
        }
    };
    let allowed = response.allowed == Some(true);
    Ok(Decision {
        denial: (!allowed).then(|| Value::Object(response.status.unwrap_or_default())),
        patch,
        warnings: response.warnings.unwrap_or_default(),
    })
}

/// Returns the error for a request that the webhook `name` denied. `status` is the status from its response.
pub(crate) fn denied(name: &str, status: &Value) -> ApiError {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let by = format!("admission webhook \"{name}\" denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = status["code"]
        .as_u64()
        .and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    let outcome = match text("status") {
        "" | "Success" => "Failure",
        other => other,
    };
    let mut result = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": outcome, "message": message, "code": code,
    });
    for field in ["reason", "details"] {
        if !matches!(&status[field], Value::Null) {
            result[field] = status[field].clone();
        }
    }
    ApiError::with_status(message, code, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_responses_are_parsed_and_malformed_responses_are_refused() {
        let review = |response: Value| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        let read = |phase, response: &Value| parse(phase, "u", response.to_string().as_bytes());
        let allowed = Ok(Decision {
            denial: None,
            patch: None,
            warnings: vec![],
        });
        let valid = review(json!({"uid": "u", "allowed": true}));
        assert_eq!(read(Phase::Mutating, &valid), allowed);
        let patch = json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": "W10="});
        let patched = read(Phase::Mutating, &review(patch.clone()));
        assert_eq!(patched.unwrap().patch.as_deref(), Some(&b"[]"[..]));
        for (phase, response, expected) in [
            (Phase::Validating, json!({}), "webhook response was absent"),
            (Phase::Validating, json!([]), "it is not an AdmissionReview"),
            (
                Phase::Validating,
                json!({"response": {"allowed": "yes"}}),
                "it is not an AdmissionReview",
            ),
            (
                Phase::Validating,
                review(json!({"uid": "v", "allowed": true})),
                "expected response.uid=\"u\", got \"v\"",
            ),
            (
                Phase::Validating,
                json!({"response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1",
            ),
            (
                Phase::Validating,
                review(patch),
                "validating webhook may not return response.patch",
            ),
            (
                Phase::Mutating,
                review(json!({"uid": "u", "patch": "W10="})),
                "needs response.patchType",
            ),
            (
                Phase::Mutating,
                review(json!({"uid": "u", "patchType": "JSONPatch"})),
                "needs response.patchType",
            ),
            (
                Phase::Mutating,
                review(json!({"uid": "u", "patch": "W10=", "patchType": "Merge"})),
                "needs response.patchType",
            ),
            (
                Phase::Mutating,
                review(json!({"uid": "u", "patch": "]", "patchType": "JSONPatch"})),
                "not Base64",
            ),
        ] {
            let problem = read(phase, &response).unwrap_err();
            assert!(
                problem.starts_with(expected) || problem.contains(expected),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_denial_with_any_status_becomes_an_error() {
        for (status, message, code) in [
            (
                json!({}),
                "admission webhook \"w\" denied the request without explanation",
                400,
            ),
            (
                json!({"reason": "Taken"}),
                "admission webhook \"w\" denied the request: Taken",
                400,
            ),
            (
                json!({"message": "no", "code": 200, "status": "Success"}),
                "admission webhook \"w\" denied the request: no",
                400,
            ),
            (
                json!({"message": "no", "code": 418}),
                "admission webhook \"w\" denied the request: no",
                418,
            ),
        ] {
            let error = denied("w", &status);
            let shown = error.status();
            assert_eq!((error.code(), &shown["message"]), (code, &json!(message)));
            assert_eq!(
                (&shown["status"], &shown["code"]),
                (&json!("Failure"), &json!(code))
            );
        }
    }
}
