//! Kubernetes' rules for names, label keys and values, ports, IP addresses and percentages. Most functions return the
//! API server's message for an invalid text, or `None` for a valid text.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::error::Cause;
use crate::resource::NameRule;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SERVICE: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

struct Patterns {
    label: Option<Regex>,
    subdomain: Option<Regex>,
    wildcard: Option<Regex>,
    service: Option<Regex>,
    qualified: Option<Regex>,
    value: Option<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let anchored = |p: &str| Regex::new(&format!("^{p}$")).ok();
    Patterns {
        label: anchored(LABEL),
        subdomain: anchored(SUBDOMAIN),
        wildcard: anchored(WILDCARD),
        service: anchored(SERVICE),
        qualified: anchored(QUALIFIED),
        value: anchored(LABEL_VALUE),
    }
});

fn matches(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_some_and(|p| p.is_match(text))
}

/// Checks a DNS subdomain.
pub(crate) fn subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters".into());
    }
    (!matches(PATTERNS.subdomain.as_ref(), text)).then(|| {
        format!("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')")
    })
}

/// Checks a host name, which may start with the wildcard `*.`.
pub(super) fn host(text: &str) -> Option<String> {
    if !text.contains('*') {
        return subdomain(text);
    }
    (!matches(PATTERNS.wildcard.as_ref(), text)).then(|| {
        format!("a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '{WILDCARD}')")
    })
}

/// Checks an RFC 1123 label.
pub(super) fn dns_label(text: &str) -> Option<String> {
    name(text, NameRule::Label)
}

/// Checks an RFC 1035 label.
pub(crate) fn dns_1035(text: &str) -> Option<String> {
    name(text, NameRule::Service)
}

/// Checks a segment of a URL path.
pub(super) fn path_segment(text: &str) -> Option<String> {
    name(text, NameRule::PathSegment)
}

/// Checks the name of an object by the rule of its kind.
pub(super) fn name(text: &str, rule: NameRule) -> Option<String> {
    match rule {
        NameRule::Subdomain => subdomain(text),
        NameRule::Label | NameRule::Service if text.len() > 63 => Some("must be no more than 63 characters".into()),
        NameRule::Label if matches(PATTERNS.label.as_ref(), text) => None,
        NameRule::Label if subdomain(text).is_none() => Some("must not contain dots".into()),
        NameRule::Label => Some(
            format!("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')")
        ),
        NameRule::Service => (!matches(PATTERNS.service.as_ref(), text)).then(|| {
            format!("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{SERVICE}')")
        }),
        NameRule::PathSegment if text == "." || text == ".." => Some(format!("may not be '{text}'")),
        NameRule::PathSegment => ['/', '%'].into_iter().find(|c| text.contains(*c)).map(|c| format!("may not contain '{c}'")),
    }
}

/// Checks a name with an optional domain prefix, such as the key of a label.
pub(crate) fn qualified_name(key: &str) -> Option<String> {
    let (prefix, short) = match key.split_once('/') {
        Some((prefix, short)) => (Some(prefix), short),
        None => (None, key),
    };
    let valid = matches(PATTERNS.qualified.as_ref(), short) && short.len() <= 63;
    if !valid || prefix.is_some_and(|prefix| subdomain(prefix).is_some()) {
        return Some("must be a name of at most 63 alphanumeric characters, '-', '_' or '.', with an optional DNS subdomain prefix and '/'".to_owned());
    }
    None
}

/// Checks the value of a label.
pub(crate) fn label_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".into());
    }
    (!matches(PATTERNS.value.as_ref(), value)).then(|| {
        format!("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{LABEL_VALUE}')")
    })
}

/// Checks the name of a port.
pub(super) fn port_name(text: &str) -> Option<String> {
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let valid = text.len() <= 15
        && text.chars().all(usual)
        && text.contains(|c: char| c.is_ascii_lowercase())
        && !text.contains("--")
        && !text.starts_with('-')
        && !text.ends_with('-');
    (!valid).then(|| {
        "must have at most 15 lower case letters, digits and single hyphens, and at least one letter".to_owned()
    })
}

/// Checks the number of a port.
pub(super) fn port_number(number: i64) -> Option<String> {
    (!(1..=65535).contains(&number)).then(|| "must be between 1 and 65535, inclusive".to_owned())
}

/// Checks an IP address.
pub(super) fn ip(text: &str) -> Option<String> {
    let wrong = text.parse::<IpAddr>().is_err();
    wrong.then(|| "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned())
}

/// Checks a key of a ConfigMap or Secret.
pub(super) fn config_key(key: &str) -> Option<String> {
    if key.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    let usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if key.is_empty() || !key.chars().all(usual) {
        return Some("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned());
    }
    match key {
        "." | ".." => Some(format!("must not be '{key}'")),
        _ => key
            .starts_with("..")
            .then(|| "must not start with '..'".to_owned()),
    }
}

/// Checks the name of an environment variable.
pub(super) fn variable(name: &str) -> Option<String> {
    (!name.chars().all(|c| (' '..='~').contains(&c) && c != '=')).then(|| {
        "a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()
    })
}

/// Checks a percentage.
pub(super) fn percent(text: &str) -> Option<String> {
    let digits = text.strip_suffix('%');
    let good = digits.is_some_and(|d| !d.is_empty() && d.chars().all(|c| c.is_ascii_digit()));
    (!good).then(|| {
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')".to_owned()
    })
}

/// Checks the keys of a map of labels. The field of each cause is `path`, the path of the map.
pub(super) fn keys(map: &Value, path: &str, causes: &mut Vec<Cause>) {
    for key in map.as_object().into_iter().flatten().map(|(key, _)| key) {
        if let Some(problem) = qualified_name(key) {
            causes.push(Cause::invalid(path, &json!(key), &problem));
        }
    }
}

/// Checks the keys and values of a map of labels. The field of each cause is `path`, the path of the map.
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
