//! The `Content-Type` headers of requests.

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");
pub(crate) const YAML: (&str, &str) = ("content-type", "application/yaml");
pub(crate) const PROTOBUF: (&str, &str) = ("content-type", "application/vnd.kubernetes.protobuf");
pub(crate) const JSON_PATCH: (&str, &str) = ("content-type", "application/json-patch+json");
pub(crate) const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
pub(crate) const STRATEGIC: (&str, &str) =
    ("content-type", "application/strategic-merge-patch+json");
pub(crate) const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");
