//! Comparisons of responses with expectations.
//!
//! An expected object may lack fields of the found object, a list must have equal length, and a text may contain `…`. A
//! key that ends with `=` compares the whole value, and a key that starts with `/` is a JSON pointer. `<absent>`,
//! `<any>`, `<array>`, `<object>` and `<string>` stand for values.

use std::fmt::{Debug, Display};

use serde_json::Value;

use super::suite::is_code;
use super::template::{Variables, at};
use crate::harness::definitions::causes;
use crate::harness::objects::{message_outline, status_of};
use crate::harness::server::{ApiResponse, ROOT_CA};

/// Returns the differences between a response and an expectation. The expectation is a line with this first word.
pub(super) fn problems(
    first: &str,
    text: &str,
    variables: &Variables,
    response: &ApiResponse,
) -> Vec<String> {
    let found = &response.json;
    match first {
        "not" => {
            let expected = variables.body(text);
            match differences(&expected, Some(found), "").as_slice() {
                [] => vec![format!("expected other values than {expected}")],
                _ => Vec::new(),
            }
        }
        "names" => {
            let expected = variables.text(text);
            let expected: Vec<_> = expected.split_whitespace().map(Some).collect();
            unequal(&expected, &names(response))
        }
        "causes" => unequal(&sorted(&variables.text(text), "; "), &response.causes()),
        "errors" => unequal(&sorted(&variables.text(text), "\n"), &causes(response)),
        "warnings" => {
            let mut found = headers(response, "warning");
            found.sort_unstable();
            unequal(&sorted(&variables.text(text), "\n"), &found)
        }
        _ if is_code(first) => {
            let code = variables.text(first);
            if response.code.to_string() != code {
                let text = &response.text;
                return vec![format!("expected {code}, found {} {text}", response.code)];
            }
            if let Some(whole) = text.strip_prefix("= ") {
                return unequal(&variables.body(whole), found);
            }
            match variables.literal(text) {
                Value::String(message) => message_problems(&message, status_of(response).1),
                expected => differences(&expected, Some(found), ""),
            }
        }
        _ => header_problems(first.trim_end_matches(':'), &variables.text(text), response),
    }
}

fn message_problems(expected: &str, found: &str) -> Vec<String> {
    let is_equal = if expected.contains('…') {
        matches(expected, found)
    } else {
        expected.is_empty() || message_outline(expected) == message_outline(found)
    };
    if is_equal {
        return Vec::new();
    }
    unequal(expected, found)
}

fn header_problems(name: &str, expected: &str, response: &ApiResponse) -> Vec<String> {
    let found = headers(response, name);
    let is_met = match expected {
        "<absent>" => found.is_empty(),
        _ => found.iter().any(|value| matches(expected, value)),
    };
    if is_met {
        return Vec::new();
    }
    vec![format!("{name}: expected {expected}, found {found:?}")]
}

fn headers(response: &ApiResponse, name: &str) -> Vec<String> {
    let values = response.headers.get_all(name).iter();
    values
        .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
        .collect()
}

/// Returns the names of listed items without the ConfigMap [`ROOT_CA`], which the embedded server creates.
fn names(response: &ApiResponse) -> Vec<Option<&str>> {
    match &response.json["items"] {
        Value::Array(items) => {
            let names = items.iter().map(|item| item["metadata"]["name"].as_str());
            names.filter(|name| *name != Some(ROOT_CA)).collect()
        }
        _ => vec![Some(&response.text)],
    }
}

fn sorted(text: &str, separator: &str) -> Vec<String> {
    let parts = text.split(separator).map(str::trim);
    let mut parts: Vec<String> = parts.filter(|p| !p.is_empty()).map(str::to_owned).collect();
    parts.sort_unstable();
    parts
}

fn unequal<T, U>(expected: &T, found: &U) -> Vec<String>
where
    T: PartialEq<U> + Debug + ?Sized,
    U: Debug + ?Sized,
{
    if expected == found {
        return Vec::new();
    }
    vec![format!("expected {expected:?}\n  found {found:?}")]
}

/// Reports whether a text matches a pattern, in which `…` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('…') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match text.split_once(part) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(end)
}

/// Returns a line for each difference.
fn differences(expected: &Value, found: Option<&Value>, path: &str) -> Vec<String> {
    let differs = |expected: &dyn Display| {
        let found = found.map_or_else(|| "nothing".to_owned(), Value::to_string);
        vec![format!("{path}: expected {expected}, found {found}")]
    };
    let check = |is_met: bool| {
        if is_met {
            Vec::new()
        } else {
            differs(expected)
        }
    };
    match (expected, found) {
        (Value::String(text), _) if text.starts_with('<') && text.ends_with('>') => {
            check(match text.as_str() {
                "<absent>" => found.is_none(),
                "<any>" => found.is_some(),
                "<array>" => found.is_some_and(Value::is_array),
                "<object>" => found.is_some_and(Value::is_object),
                "<string>" => found.is_some_and(Value::is_string),
                _ => found == Some(expected),
            })
        }
        (Value::String(pattern), Some(Value::String(text))) => check(matches(pattern, text)),
        (Value::Object(fields), Some(value)) if value.is_object() || value.is_array() => fields
            .iter()
            .flat_map(|(name, expected)| {
                let whole = name.strip_suffix('=');
                let name = whole.unwrap_or(name);
                let pointer = match name.strip_prefix('/') {
                    Some(_) => name.to_owned(),
                    None => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
                };
                let found = at(value, &pointer);
                let path = format!("{path}{pointer}");
                match found {
                    _ if whole.is_none() => differences(expected, found, &path),
                    Some(found) if found == expected => Vec::new(),
                    _ => vec![format!(
                        "{path}: expected exactly {expected}, found {found:?}"
                    )],
                }
            })
            .collect(),
        (Value::Array(expected), Some(Value::Array(found))) if expected.len() == found.len() => {
            let pairs = expected.iter().zip(found).enumerate();
            pairs
                .flat_map(|(i, (expected, found))| {
                    differences(expected, Some(found), &format!("{path}/{i}"))
                })
                .collect()
        }
        _ => check(found == Some(expected)),
    }
}
