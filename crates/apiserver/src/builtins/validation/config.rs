//! Validation of ConfigMaps and Secrets.

use super::field::Field;
use super::rules::Check::{Immutable, Required};
use crate::error::Cause;
use crate::names;

/// The keys that secrets of a type must have.
const KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    (BASIC, &["username", "password"]),
];
/// The type that needs only one of its keys.
const BASIC: &str = "kubernetes.io/basic-auth";
/// The type that requires the name of a service account.
const TOKEN: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";

/// Maximum bytes of all values of a ConfigMap or Secret.
const MOST_DATA: usize = 1 << 20;

/// Checks a Secret.
pub(super) fn secret(secret: &Field<'_>) {
    let (kind, data) = (secret.get("type"), secret.get("data"));
    for (_, keys) in KEYS.iter().filter(|(name, _)| *name == kind.text()) {
        let missing = keys.iter().filter(|key| data.value.get(key).is_none());
        let missing: Vec<_> = missing.collect();
        if kind.text() != BASIC || missing.len() == keys.len() {
            for key in missing {
                data.entry(key, data.value).required("");
            }
        }
    }
    if kind.text() == TOKEN {
        let annotations = secret.get("metadata.annotations");
        Required.apply(&annotations.entry(ACCOUNT, &annotations.value[ACCOUNT]));
    }
    Immutable.apply(&kind);
    let size = secret
        .entries("data")
        .map(|(_, text)| decoded_size(text.text()))
        .sum();
    contents(secret, &["data"], size);
}

/// Checks a ConfigMap.
pub(super) fn config_map(map: &Field<'_>) {
    for (key, text) in map.entries("data") {
        if map.value["binaryData"].get(key).is_some() {
            text.invalid("duplicate of key present in binaryData");
        }
    }
    let texts = map.entries("data").map(|(_, text)| text.text().len());
    let bytes = map
        .entries("binaryData")
        .map(|(_, text)| decoded_size(text.text()));
    contents(map, &["data", "binaryData"], texts.chain(bytes).sum());
}

/// Returns the number of bytes of a Base64 text.
fn decoded_size(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Checks the keys, the size and the immutability of maps.
fn contents(object: &Field<'_>, maps: &[&str], size: usize) {
    for (key, text) in maps.iter().flat_map(|map| object.entries(map)) {
        text.problem(names::config_key(key));
    }
    if size > MOST_DATA {
        let field = if maps.len() == 1 { "data" } else { "[]" };
        object.report(Cause::too_long(field, MOST_DATA as u64));
    }
    if object.old.is_some_and(|old| old["immutable"] == true) {
        for field in ["immutable"]
            .iter()
            .chain(maps)
            .map(|field| object.get(field))
        {
            if field.old.is_some_and(|old| old != field.value) {
                field.forbidden("field is immutable when `immutable` is set");
            }
        }
    }
}
