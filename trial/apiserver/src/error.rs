//! API errors. Clients read them as a `Status` with reason, code and causes.
//!
//! This module must not know HTTP beyond the status code.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// The machine-readable reasons that this server uses, as in `metav1.StatusReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Status code 400.
    BadRequest,
    /// Status code 401.
    Unauthorized,
    /// Status code 403.
    Forbidden,
    /// Status code 404.
    NotFound,
    /// Status code 405.
    MethodNotAllowed,
    /// Status code 406.
    NotAcceptable,
    /// Status code 409: an object with the name already exists.
    AlreadyExists,
    /// Status code 409: the request conflicts with the stored object, which may have changed since the client read it.
    Conflict,
    /// Status code 410: the requested resource version is too old.
    Expired,
    /// Status code 413.
    RequestEntityTooLarge,
    /// Status code 415.
    UnsupportedMediaType,
    /// Status code 422.
    Invalid,
    /// Status code 429, with a delay before the client should retry.
    TooManyRequests,
    /// Status code 500.
    InternalError,
    /// Status code 500, with an empty reason.
    Unknown,
    /// Status code 503.
    ServiceUnavailable,
    /// Status code 504. Also used if the requested resource version is too large.
    Timeout,
    /// Status code 507: the write is not durable.
    InsufficientStorage,
}

impl Reason {
    /// Returns the HTTP status code of the reason.
    pub fn code(self) -> u16 {
        self.code_and_name().0
    }

    fn code_and_name(self) -> (u16, &'static str) {
        match self {
            Self::BadRequest => (400, "BadRequest"),
            Self::Unauthorized => (401, "Unauthorized"),
            Self::Forbidden => (403, "Forbidden"),
            Self::NotFound => (404, "NotFound"),
            Self::MethodNotAllowed => (405, "MethodNotAllowed"),
            Self::NotAcceptable => (406, "NotAcceptable"),
            Self::AlreadyExists => (409, "AlreadyExists"),
            Self::Conflict => (409, "Conflict"),
            Self::Expired => (410, "Expired"),
            Self::RequestEntityTooLarge => (413, "RequestEntityTooLarge"),
            Self::UnsupportedMediaType => (415, "UnsupportedMediaType"),
            Self::Invalid => (422, "Invalid"),
            Self::TooManyRequests => (429, "TooManyRequests"),
            Self::InternalError => (500, "InternalError"),
            Self::Unknown => (500, ""),
            Self::ServiceUnavailable => (503, "ServiceUnavailable"),
            Self::Timeout => (504, "Timeout"),
            Self::InsufficientStorage => (507, "InsufficientStorage"),
        }
    }
}

/// An invalid field in the `details.causes` of a `Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field, for example `spec.replicas`.
    pub field: String,
    /// Reason of the cause, for example `FieldValueInvalid` or `FieldValueRequired`.
    pub reason: String,
    /// The problem. The text does not contain the path of the field.
    pub message: String,
}

impl Cause {
    fn new(reason: &str, field: impl Into<String>, message: String) -> Self {
        Self {
            field: field.into(),
            reason: reason.to_owned(),
            message,
        }
    }

    /// Returns the cause for a value that is not acceptable.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {detail}", shown(value)),
        )
    }

    /// Returns the cause for a value that is not acceptable. The message does not contain the value.
    pub(crate) fn invalid_unshown(field: impl Into<String>, detail: &str) -> Self {
        let message = format!("Invalid value: {detail}");
        Self::new("FieldValueInvalid", field, message)
    }

    /// Returns the cause for a duplicate value. The message does not contain the value.
    pub(crate) fn duplicate_unshown(field: impl Into<String>) -> Self {
        Self::new("FieldValueDuplicate", field, "Duplicate value".to_owned())
    }

    /// Returns the cause for a value with the wrong JSON type.
    pub fn type_invalid(field: impl Into<String>, value: &str, detail: &str) -> Self {
        Self::new(
            "FieldValueTypeInvalid",
            field,
            format!("Invalid value: \"{value}\": {detail}"),
        )
    }

    /// Returns the cause for a missing value.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    /// Returns the cause for a value that must not be set.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    /// Returns the cause for a value that is not in the list of allowed values.
    pub fn not_supported(field: impl Into<String>, value: &Value, allowed: &[String]) -> Self {
        let list: Vec<String> = allowed.iter().map(|a| format!("\"{a}\"")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            list.join(", ")
        );
        Self::new("FieldValueNotSupported", field, message)
    }

    /// Returns the cause for a duplicate value.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    /// Returns the cause for a value that names a missing object.
    pub(crate) fn not_found(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Not found: {}", shown(value));
        Self::new("FieldValueNotFound", field, message)
    }

    /// Returns the cause for a string that is too long.
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        Self::new(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {max} bytes"),
        )
    }

    /// Returns the cause for a list with too many elements.
    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        Self::new(
            "FieldValueTooMany",
            field,
            format!("Too many: {actual}: must have at most {max} items"),
        )
    }

    /// Reports whether the server skips the CEL rules of an object with this cause.
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self.reason.as_str(),
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }

    fn json(&self) -> Value {
        let mut cause = json!({ "reason": self.reason });
        if !self.message.is_empty() {
            cause["message"] = json!(self.message);
        }
        if !self.field.is_empty() {
            cause["field"] = json!(self.field);
        }
        cause
    }
}

/// Returns the text of a value for a message, or a placeholder if the text is long.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 200;
    let text = value.to_string();
    if text.len() > LONGEST {
        "(value omitted)".to_owned()
    } else {
        text
    }
}

/// Returns `resource.group`, or only the resource for the core group.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// The object or resource that an error names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The error response to a request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Machine-readable reason.
    pub reason: Reason,
    /// Human-readable message.
    pub message: String,
    /// Causes, such as invalid fields.
    pub causes: Vec<Cause>,
    pub(crate) subject: Option<Box<Subject>>,
    pub(crate) retry_after: Option<u32>,
    /// A new continue token for the rest of a list, if the token in the request has expired.
    pub(crate) continue_token: Option<String>,
    /// The code and `Status` of a denial by a webhook. They override all other fields.
    own_status: Option<Box<(u16, Value)>>,
}

impl ApiError {
    /// Returns an error that names no object.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            causes: Vec::new(),
            subject: None,
            retry_after: None,
            continue_token: None,
            own_status: None,
        }
    }

    /// Returns an error with this code and this `Status`.
    pub(crate) fn with_status(message: String, code: u16, status: Value) -> Self {
        let mut error = Self::new(Reason::Forbidden, message);
        error.own_status = Some(Box::new((code, status)));
        error
    }

    /// Returns the HTTP code of the response.
    pub fn code(&self) -> u16 {
        let own = self.own_status.as_ref().map(|own| own.0);
        own.unwrap_or_else(|| self.reason.code())
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    pub(crate) fn too_large(message: &str) -> Self {
        Self::new(
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: {message}"),
        )
    }

    /// Returns the error for a storage failure: a write is not durable, or the version that a request read was rolled
    /// back.
    pub(crate) fn not_durable(message: impl std::fmt::Display) -> Self {
        Self::new(Reason::InsufficientStorage, message.to_string())
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(
            Reason::InternalError,
            format!("Internal error occurred: {}", message.into()),
        )
    }

    /// Returns an error with status code 500 and an empty reason.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(Reason::Unknown, message)
    }

    /// Returns an error about the path of a request. The `details` of its `Status` are empty.
    fn of_path(reason: Reason, message: &str) -> Self {
        let mut error = Self::new(reason, message);
        error.subject = Some(Box::default());
        error
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::of_path(Reason::MethodNotAllowed, message)
    }

    pub(crate) fn path_not_found() -> Self {
        let message = "the server could not find the requested resource";
        Self::of_path(Reason::NotFound, message)
    }

    pub(crate) fn expired() -> Self {
        Self::new(
            Reason::Expired,
            "The resourceVersion for the provided watch is too old.",
        )
    }

    /// Returns an error whose message starts with `resource.group "name"`.
    pub(crate) fn named(
        reason: Reason,
        group: &str,
        resource: &str,
        name: &str,
        rest: &str,
    ) -> Self {
        let qualified = qualified(group, resource);
        let mut error = Self::new(reason, format!("{qualified} \"{name}\" {rest}"));
        error.subject = Some(Box::new(Subject {
            group: group.into(),
            kind: resource.into(),
            name: name.into(),
            uid: String::new(),
        }));
        error
    }

    /// Returns the error for a missing object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::named(Reason::NotFound, group, resource, name, "not found")
    }

    pub(crate) fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let reason = Reason::AlreadyExists;
        Self::named(reason, group, resource, name, "already exists")
    }

    pub(crate) fn conflict(group: &str, resource: &str, name: &str, detail: &str) -> Self {
        let mut error = Self::named(Reason::Conflict, group, resource, name, "");
        let qualified = qualified(group, resource);
        error.message =
            format!("Operation cannot be fulfilled on {qualified} \"{name}\": {detail}");
        error
    }

    pub(crate) fn stale(group: &str, resource: &str, name: &str) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, detail)
    }

    pub(crate) fn forbidden(group: &str, resource: &str, name: &str, detail: &str) -> Self {
        let mut error = Self::named(Reason::Forbidden, group, resource, name, "");
        let mut object = qualified(group, resource);
        if !name.is_empty() {
            object = format!("{object} \"{name}\"");
        }
        error.message = format!("{object} is forbidden: {detail}");
        error
    }

    /// Returns an error with status code 422. Its message lists the causes as kube-apiserver does.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let qualified = qualified(group, kind);
        let (mut lines, mut known) = (Vec::new(), HashSet::new());
        for cause in &causes {
            let line = if cause.field.is_empty() {
                cause.message.clone()
            } else {
                format!("{}: {}", cause.field, cause.message)
            };
            // Equal lines are listed once.
            if known.insert(line.clone()) {
                lines.push(line);
            }
        }
        let list = if lines.len() == 1 {
            lines.concat()
        } else {
            format!("[{}]", lines.join(", "))
        };
        let mut error = Self::named(Reason::Invalid, group, kind, name, "");
        error.message = format!("{qualified} \"{name}\" is invalid: {list}");
        error.causes = causes;
        error
    }

    /// Returns the `Status` object for the response body.
    pub(crate) fn status(&self) -> Value {
        if let Some(own) = &self.own_status {
            return own.1.clone();
        }
        let mut details = Map::new();
        if let Some(s) = &self.subject {
            for (key, value) in [
                ("name", &s.name),
                ("group", &s.group),
                ("kind", &s.kind),
                ("uid", &s.uid),
            ] {
                if !value.is_empty() {
                    details.insert(key.into(), json!(value));
                }
            }
        }
        if !self.causes.is_empty() {
            details.insert(
                "causes".into(),
                self.causes.iter().map(Cause::json).collect(),
            );
        }
        if let Some(seconds) = self.retry_after {
            details.insert("retryAfterSeconds".into(), json!(seconds));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.reason.code(),
        });
        if self.reason != Reason::Unknown {
            status["reason"] = json!(self.reason.code_and_name().1);
        }
        if self.subject.is_some() || !details.is_empty() {
            status["details"] = Value::Object(details);
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = json!(token);
        }
        status
    }
}
