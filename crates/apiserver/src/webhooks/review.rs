//! AdmissionReview requests and responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Phase;
use crate::error::ApiError;

/// A version of AdmissionReview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V1beta1,
}

impl Version {
    /// Returns the first supported version of a list.
    pub(super) fn first_supported(versions: &Value) -> Self {
        let mut names = versions.as_array().into_iter().flatten();
        let supported = |name: &Value| match name.as_str() {
            Some("v1") => Some(Self::V1),
            Some("v1beta1") => Some(Self::V1beta1),
            _ => None,
        };
        names.find_map(supported).unwrap_or(Self::V1)
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Wraps a request in a review.
pub(crate) fn review(version: Version, uid: &str, mut request: Value) -> Value {
    request["uid"] = json!(uid);
    json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request})
}

/// The decision of a webhook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The status of a denied request.
    pub(crate) denial: Option<Value>,
    /// A JSON patch to apply.
    pub(crate) patch: Option<Vec<u8>>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
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

/// Parses the response to the request `uid`, or returns the problem.
pub(crate) fn decision(
    version: Version,
    phase: Phase,
    uid: &str,
    body: &[u8],
) -> Result<Decision, String> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| format!("it is not an AdmissionReview: {error}"))?;
    let response = review.response.ok_or("webhook response was absent")?;
    // A v1beta1 webhook may omit these.
    if version == Version::V1 {
        let found = response.uid.as_deref().unwrap_or_default();
        if found != uid {
            return Err(format!("expected response.uid=\"{uid}\", got \"{found}\""));
        }
        let expected = version.api_version();
        let found = (
            review.api_version.unwrap_or_default(),
            review.kind.unwrap_or_default(),
        );
        if (found.0.as_str(), found.1.as_str()) != (expected, "AdmissionReview") {
            return Err(format!(
                "expected webhook response of {expected}, Kind=AdmissionReview, got {}, Kind={}",
                found.0, found.1
            ));
        }
    }
    let patch = response.patch.filter(|patch| !patch.is_empty());
    let (has_patch, has_type) = (patch.is_some(), response.patch_type.is_some());
    let problem = match phase {
        _ if version == Version::V1beta1 => None,
        Phase::Validating if has_patch => Some("validating webhook may not return response.patch"),
        Phase::Validating if has_type => {
            Some("validating webhook may not return response.patchType")
        }
        Phase::Mutating if has_patch && !has_type => {
            Some("webhook returned response.patch but not response.patchType")
        }
        Phase::Mutating if has_type && !has_patch => {
            Some("webhook returned response.patchType but not response.patch")
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(problem.to_owned());
    }
    let patch = match (phase, patch, response.patch_type.as_deref()) {
        (Phase::Mutating, Some(patch), None | Some("JSONPatch")) => {
            let decoded = STANDARD.decode(patch);
            Some(decoded.map_err(|error| format!("response.patch is not Base64: {error}"))?)
        }
        (Phase::Mutating, Some(_), Some(other)) => {
            return Err(format!("unsupported patch type \"{other}\""));
        }
        _ => None,
    };
    let allowed = response.allowed == Some(true);
    Ok(Decision {
        denial: (!allowed).then(|| Value::Object(response.status.unwrap_or_default())),
        patch,
        warnings: response.warnings.unwrap_or_default(),
    })
}

/// Returns the error for a request that the webhook `name` denied.
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
    fn malformed_responses_are_refused() {
        let review = |response: Value| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        let read = |version, phase, response: &Value| {
            decision(version, phase, "u", response.to_string().as_bytes())
        };
        let allowed = Ok(Decision {
            denial: None,
            patch: None,
            warnings: vec![],
        });
        let valid = review(json!({"uid": "u", "allowed": true}));
        assert_eq!(read(Version::V1, Phase::Mutating, &valid), allowed);
        let bare = json!({"response": {"allowed": true}});
        assert_eq!(read(Version::V1beta1, Phase::Mutating, &bare), allowed);
        let patch = json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": "W10="});
        let patched = read(Version::V1, Phase::Mutating, &review(patch.clone()));
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
                "but not response.patchType",
            ),
            (
                Phase::Mutating,
                review(json!({"uid": "u", "patchType": "JSONPatch"})),
                "but not response.patch",
            ),
            (
                Phase::Mutating,
                review(json!({"uid": "u", "patch": "W10=", "patchType": "Merge"})),
                "unsupported patch type",
            ),
            (
                Phase::Mutating,
                review(json!({"uid": "u", "patch": "]", "patchType": "JSONPatch"})),
                "not Base64",
            ),
        ] {
            let problem = read(Version::V1, phase, &response).unwrap_err();
            assert!(
                problem.starts_with(expected) || problem.contains(expected),
                "{problem}"
            );
        }
    }

    #[test]
    fn denials_become_errors_with_any_status() {
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
