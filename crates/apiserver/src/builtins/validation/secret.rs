//! Validation of the types of secrets.

use serde_json::Value;

use crate::error::Cause;

/// The keys that secrets of a type must have.
const KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];
/// The type that needs only one of its keys.
const BASIC: (&str, &[&str]) = ("kubernetes.io/basic-auth", &["username", "password"]);
/// The type that requires the name of a service account.
const TOKEN: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub(super) fn secret(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let kind = value["type"].as_str().unwrap_or_default();
    let missing = |key: &str| value["data"].get(key).is_none();
    for (_, keys) in KEYS.iter().filter(|(name, _)| *name == kind) {
        for key in keys.iter().filter(|key| missing(key)) {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    }
    if kind == BASIC.0 && BASIC.1.iter().all(|key| missing(key)) {
        for key in BASIC.1 {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    }
    let account = value["metadata"]["annotations"][ACCOUNT].as_str();
    if kind == TOKEN && account.unwrap_or_default().is_empty() {
        causes.push(Cause::required(
            format!("metadata.annotations[{ACCOUNT}]"),
            "",
        ));
    }
    if old.is_some_and(|old| old["type"] != value["type"]) {
        causes.push(Cause::invalid("type", &value["type"], "field is immutable"));
    }
}
