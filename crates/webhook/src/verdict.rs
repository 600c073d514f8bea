//! [`Verdict`]: allowed with a patch, or denied with a reason, and its AdmissionReview response.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::admission::FieldError;
use berth_api::federated_quota::QUOTA_EXCEEDED;
use json_patch::Patch;
use serde_json::{Value, json};

use crate::review::AdmissionReview;

/// The decision about a write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The write is allowed, with these changes to its object.
    Allowed(Patch),
    /// The write is denied.
    Denied {
        reason: DenialReason,
        message: String,
        causes: Vec<FieldError>,
    },
}

/// The reason for a denial, which determines the code and the reason of the `Status` in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialReason {
    /// The request is malformed, or this webhook does not review its resource.
    BadRequest,
    /// A rule denies the write. karmada-webhook uses this reason.
    Forbidden,
    /// A rule denies the write. Karmada's aggregated API server uses this reason.
    Invalid,
    /// A FederatedResourceQuota denies the write.
    QuotaExceeded,
    /// The webhook cannot decide about the write.
    InternalError,
}

impl DenialReason {
    fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden | Self::QuotaExceeded => 403,
            Self::Invalid => 422,
            Self::InternalError => 500,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid",
            Self::QuotaExceeded => QUOTA_EXCEEDED,
            Self::InternalError => "InternalError",
        }
    }
}

impl Verdict {
    /// Allows a write, and changes nothing in its object.
    pub(crate) fn allowed() -> Self {
        Self::Allowed(Patch(Vec::new()))
    }

    /// Denies a write with a message.
    pub(crate) fn denied(reason: DenialReason, message: impl Into<String>) -> Self {
        Self::Denied {
            reason,
            message: message.into(),
            causes: Vec::new(),
        }
    }

    /// Denies a write because of its fields. The message lists each error once, as Go's aggregated errors do.
    pub(crate) fn invalid_fields(reason: DenialReason, causes: Vec<FieldError>) -> Self {
        let mut lines: Vec<String> = Vec::new();
        for cause in &causes {
            let line = cause.to_string();
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let message = match lines.as_slice() {
            [only] => only.clone(),
            _ => format!("[{}]", lines.join(", ")),
        };
        Self::Denied {
            reason,
            message,
            causes,
        }
    }

    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Returns the review with this decision as its response.
    pub(crate) fn respond(&self, review: &AdmissionReview) -> Value {
        let mut response = json!({ "uid": review.request.uid, "allowed": self.is_allowed() });
        match self {
            Self::Allowed(patch) => {
                response["status"] = json!({ "metadata": {}, "code": 200 });
                if !patch.is_empty() {
                    response["patchType"] = json!("JSONPatch");
                    response["patch"] = json!(STANDARD.encode(patch.to_string()));
                }
            }
            Self::Denied {
                reason,
                message,
                causes,
            } => {
                response["status"] = json!({
                    "metadata": {}, "status": "Failure", "message": message,
                    "reason": reason.as_str(), "code": reason.code()
                });
                if !causes.is_empty() {
                    response["status"]["details"] = json!({
                        "name": review.request.name,
                        "group": review.request.resource.group,
                        "kind": review.request.resource.resource,
                        "causes": causes.iter().map(cause).collect::<Vec<_>>(),
                    });
                }
            }
        }
        json!({
            "apiVersion": review.api_version, "kind": "AdmissionReview", "response": response
        })
    }
}

fn cause(error: &FieldError) -> Value {
    json!({ "reason": error.reason.as_cause(), "message": error.message, "field": error.field })
}
