//! Rules for names, labels and the rest of `metadata`, the same for all kinds.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::error::Cause;
use crate::registry::{NameRule, Resource};

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SERVICE: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

struct Patterns {
    label: Option<Regex>,
    subdomain: Option<Regex>,
    service: Option<Regex>,
    qualified: Option<Regex>,
    value: Option<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let whole = |p: &str| Regex::new(&format!("^{p}$")).ok();
    Patterns {
        label: whole(LABEL),
        subdomain: whole(SUBDOMAIN),
        service: whole(SERVICE),
        qualified: whole(QUALIFIED),
        value: whole(LABEL_VALUE),
    }
});

fn matches(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_some_and(|p| p.is_match(text))
}

/// What is wrong with a DNS subdomain.
pub(crate) fn subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes".into());
    }
    (!matches(PATTERNS.subdomain.as_ref(), text)).then(|| {
        format!("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')")
    })
}

/// What is wrong with an RFC 1123 label.
pub(super) fn dns_label(text: &str) -> Option<String> {
    name(text, NameRule::Label)
}

/// Checks the keys of a map of labels found at `path`.
pub(super) fn keys(map: &Value, path: &str, causes: &mut Vec<Cause>) {
    for key in map.as_object().into_iter().flatten().map(|(key, _)| key) {
        if let Some(problem) = qualified_name(key) {
            causes.push(Cause::invalid(path, &json!(key), &problem));
        }
    }
}

/// What is wrong with an RFC 1035 label.
pub(crate) fn dns_1035(text: &str) -> Option<String> {
    name(text, NameRule::Service)
}

fn name(text: &str, rule: NameRule) -> Option<String> {
    match rule {
        NameRule::Subdomain => subdomain(text),
        NameRule::Label | NameRule::Service if text.len() > 63 => Some("must be no more than 63 bytes".into()),
        NameRule::Label => (!matches(PATTERNS.label.as_ref(), text)).then(|| {
            format!("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')")
        }),
        NameRule::Service => (!matches(PATTERNS.service.as_ref(), text)).then(|| {
            format!("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{SERVICE}')")
        }),
        NameRule::PathSegment if text == "." || text == ".." => Some(format!("may not be '{text}'")),
        NameRule::PathSegment => ['/', '%'].into_iter().find(|c| text.contains(*c)).map(|c| format!("may not contain '{c}'")),
    }
}

/// What is wrong with a label or annotation key.
fn qualified_name(key: &str) -> Option<String> {
    let short = match key.split_once('/') {
        Some(("", _)) => {
            return Some("prefix part must be non-empty".into());
        }
        Some((prefix, short)) => {
            if let Some(problem) = subdomain(prefix) {
                return Some(format!("prefix part {problem}"));
            }
            short
        }
        None => key,
    };
    if short.is_empty() {
        return Some("name part must be non-empty".into());
    }
    if short.len() > 63 {
        return Some("name part must be no more than 63 bytes".into());
    }
    (!matches(PATTERNS.qualified.as_ref(), short)).then(|| {
        format!("name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}')")
    })
}

fn label_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".into());
    }
    (!matches(PATTERNS.value.as_ref(), value)).then(|| {
        format!("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{LABEL_VALUE}')")
    })
}

/// All annotations of an object together.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Checks a map of labels found at `path`.
pub(super) fn labels(map: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in map.as_object().into_iter().flatten() {
        if let Some(problem) = qualified_name(key) {
            causes.push(Cause::invalid(path, &json!(key), &problem));
        }
        match value.as_str() {
            Some(text) => {
                if let Some(problem) = label_value(text) {
                    causes.push(Cause::invalid(path, value, &problem));
                }
            }
            None => causes.push(Cause::invalid(path, value, "must be a string")),
        }
    }
}

/// Checks `metadata`.
pub(crate) fn validate(resource: &Resource, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let meta = &value["metadata"];
    if old.is_none() {
        match meta["name"].as_str() {
            None | Some("") => causes.push(Cause::required(
                "metadata.name",
                "name or generateName is required",
            )),
            Some(text) => {
                if let Some(problem) = name(text, resource.name_rule) {
                    causes.push(Cause::invalid("metadata.name", &json!(text), &problem));
                }
            }
        }
    }
    if old.is_some_and(|o| o["metadata"]["labels"] == meta["labels"]) {
        // Unchanged labels were checked when they were written.
    } else {
        labels(&meta["labels"], "metadata.labels", &mut causes);
    }
    let mut size = 0;
    for (key, value) in meta["annotations"].as_object().into_iter().flatten() {
        if let Some(problem) = qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &json!(key),
                &problem,
            ));
        }
        match value.as_str() {
            Some(text) => size += key.len() + text.len(),
            None => causes.push(Cause::invalid(
                "metadata.annotations",
                value,
                "must be a string",
            )),
        }
    }
    if size > MAX_ANNOTATIONS {
        causes.push(Cause::too_long(
            "metadata.annotations",
            MAX_ANNOTATIONS as u64,
        ));
    }
    owners(meta, &mut causes);
    for finalizer in meta["finalizers"].as_array().into_iter().flatten() {
        if let Some(problem) = qualified_name(finalizer.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.finalizers", finalizer, &problem));
        }
    }
    let terminating = |v: &Value| !v["metadata"]["deletionTimestamp"].is_null();
    if let Some(old) = old.filter(|o| terminating(o)) {
        let before = old["metadata"]["finalizers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let after = meta["finalizers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let added: Vec<&Value> = after.iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(std::string::ToString::to_string).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &detail));
        }
    }
    causes
}

fn owners(meta: &Value, causes: &mut Vec<Cause>) {
    let mut controllers = 0;
    for owner in meta["ownerReferences"].as_array().into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences.{field}");
                causes.push(Cause::invalid(path, &json!(""), "must not be empty"));
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &meta["ownerReferences"],
            detail,
        ));
    }
}
