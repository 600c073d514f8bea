//! Validation of ConfigMaps and Secrets.

use super::field::Field;
use super::rules::Check::{Immutable, Required};
use crate::error::Cause;
use crate::text_rules;

/// Types of Secrets, and the keys that a Secret of the type must have.
const KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];
/// The type of Secrets that need at least one of these keys.
const BASIC: (&str, [&str; 2]) = ("kubernetes.io/basic-auth", ["username", "password"]);
/// The type of Secrets that need an annotation with the name of a service account.
const TOKEN: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";

/// Maximum size of all values of a ConfigMap or Secret, in bytes.
const MOST_DATA: usize = 1 << 20;

/// Checks a Secret.
pub(super) fn secret(secret: &Field<'_>) {
    let (kind, data) = (secret.get("type"), secret.get("data"));
    let is_missing = |key: &&str| data.value.get(key).is_none();
    let of_type = KEYS.iter().filter(|(name, _)| *name == kind.text());
    let mut missing: Vec<&str> = of_type.flat_map(|(_, keys)| *keys).copied().collect();
    missing.retain(is_missing);
    if kind.text() == BASIC.0 && BASIC.1.iter().all(is_missing) {
        missing.extend(BASIC.1);
    }
    for key in missing {
        data.entry(key, data.value).required("");
    }
    if kind.text() == TOKEN {
        let annotations = secret.get("metadata.annotations");
        Required.apply(&annotations.entry(ACCOUNT, &annotations.value[ACCOUNT]));
    }
    Immutable.apply(&kind);
    contents(secret, &["data"]);
}

/// Checks a ConfigMap.
pub(super) fn config_map(map: &Field<'_>) {
    for (key, text) in map.entries("data") {
        if map.value["binaryData"].get(key).is_some() {
            text.invalid("duplicate of key present in binaryData");
        }
    }
    contents(map, &["data", "binaryData"]);
}

/// Checks the keys and the size of these maps, and that an update does not change an immutable object.
fn contents(object: &Field<'_>, maps: &[&str]) {
    let mut size = 0;
    for map in maps {
        for (key, text) in object.entries(map) {
            text.problem(text_rules::config_key(key));
            let is_text = *map == "data" && maps.len() > 1;
            let text = text.text();
            let padding = text.len() - text.trim_end_matches('=').len();
            size += if is_text {
                text.len()
            } else {
                (text.len() / 4 * 3).saturating_sub(padding)
            };
        }
    }
    if size > MOST_DATA {
        let field = if maps.len() == 1 { "data" } else { "[]" };
        object.report(Cause::too_long(field, MOST_DATA as u64));
    }
    if object.old.is_some_and(|old| old["immutable"] == true) {
        for field in ["immutable"].iter().chain(maps) {
            let field = object.get(field);
            if field.old.is_some_and(|old| old != field.value) {
                field.forbidden("field is immutable when `immutable` is set");
            }
        }
    }
}
