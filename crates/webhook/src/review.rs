//! The type `AdmissionReview` of the API group `admission.k8s.io`. API servers send reviews to webhooks.
//!
//! This module must not depend on the URL paths (`endpoint`) and the admission rules (`decide`).

use serde::Deserialize;
use serde_json::Value;

/// The API group of reviews.
const GROUP: &str = "admission.k8s.io/";
/// Supported versions. They have the same fields.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// A review with its request.
#[derive(Clone, Debug)]
pub struct AdmissionReview {
    /// API version of the review. The response repeats this version.
    pub(crate) api_version: String,
    pub(crate) request: AdmissionRequest,
}

/// A body that is not a review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The body is not JSON, or its fields are missing or invalid.
    #[error("the body is not an AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// The body is an object of another kind or version.
    #[error("the body is {api_version:?} {kind:?}: expected admission.k8s.io/v1 AdmissionReview")]
    Kind {
        /// The API version of the object.
        api_version: String,
        /// The kind of the object.
        kind: String,
    },
    /// The review has no request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// The write under review.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdmissionRequest {
    pub(crate) uid: String,
    pub(crate) resource: Resource,
    #[serde(default)]
    pub(crate) sub_resource: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) dry_run: Option<bool>,
    pub(crate) operation: Operation,
    #[serde(default)]
    pub(crate) object: Option<Value>,
    #[serde(default)]
    pub(crate) old_object: Option<Value>,
}

/// A resource without its version.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Resource {
    #[serde(default)]
    pub(crate) group: String,
    pub(crate) resource: String,
}

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// A received review. Its kind is checked before its request is parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unchecked {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    request: Option<Value>,
}

impl AdmissionReview {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// When the body is not a review of a supported version.
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        let review: Unchecked = serde_json::from_slice(body)?;
        let version = review.api_version.strip_prefix(GROUP);
        if review.kind != "AdmissionReview"
            || !version.is_some_and(|version| VERSIONS.contains(&version))
        {
            return Err(ReviewError::Kind {
                api_version: review.api_version,
                kind: review.kind,
            });
        }
        let request = review.request.ok_or(ReviewError::NoRequest)?;
        Ok(Self {
            api_version: review.api_version,
            request: serde_json::from_value(request)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_are_not_reviews_are_refused_with_the_reason() {
        for (body, expected) in [
            ("", "the body is not an AdmissionReview: EOF"),
            ("[1]", "the body is not an AdmissionReview: invalid type"),
            ("7", "the body is not an AdmissionReview: invalid type"),
            (
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                r#"the body is "v1" "Pod": expected"#,
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}"#,
                r#"the body is "admission.k8s.io/v2" "AdmissionReview": expected"#,
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}"#,
                "the AdmissionReview has no request",
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#,
                "the body is not an AdmissionReview: missing field `uid`",
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":
                    {"uid":"u","resource":{"resource":"pods"},"operation":"PATCH"}}"#,
                "the body is not an AdmissionReview: unknown variant `PATCH`",
            ),
        ] {
            let error = AdmissionReview::parse(body.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{body}: {error}");
        }
        let nested = "[".repeat(100_000);
        assert!(AdmissionReview::parse(nested.as_bytes()).is_err());
    }
}
