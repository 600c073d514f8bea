//! Label and field selectors: parsed once at the edge, evaluated against stored objects.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::ApiError;
use crate::registry::Resource;
use crate::store::Stored;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

/// A parsed label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

fn broken(text: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement: {why} in \"{text}\""))
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        split_outside_parens(text)
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(requirement)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key: &String| labels.get(key).and_then(|v| v.parse::<i64>().ok());
        self.0.iter().all(|r| match r {
            Requirement::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
            Requirement::Greater(key, n) => number(key).is_some_and(|v| v > *n),
            Requirement::Less(key, n) => number(key).is_some_and(|v| v < *n),
        })
    }
}

fn split_outside_parens(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn requirement(part: &str) -> Result<Requirement, ApiError> {
    let set = |rest: &str| -> Result<Vec<String>, ApiError> {
        let inner = rest
            .trim()
            .strip_prefix('(')
            .and_then(|r| r.strip_suffix(')'));
        let inner = inner.ok_or_else(|| broken(part, "expected '('"))?;
        Ok(inner.split(',').map(|v| v.trim().to_owned()).collect())
    };
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::Absent(label_key(key, part)?));
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let (key, values) = (label_key(key, part)?, vec![value.trim().to_owned()]);
            return Ok(if negated {
                Requirement::NotIn(key, values)
            } else {
                Requirement::In(key, values)
            });
        }
    }
    for (operator, negated) in [(" notin", true), (" in", false)] {
        if let Some((key, rest)) = part.split_once(operator)
            && rest.trim_start().starts_with('(')
        {
            let (key, values) = (label_key(key, part)?, set(rest)?);
            return Ok(if negated {
                Requirement::NotIn(key, values)
            } else {
                Requirement::In(key, values)
            });
        }
    }
    for operator in ['>', '<'] {
        if let Some((key, value)) = part.split_once(operator) {
            let number = value
                .trim()
                .parse()
                .map_err(|_| broken(part, "expected a number"))?;
            let key = label_key(key, part)?;
            return Ok(if operator == '>' {
                Requirement::Greater(key, number)
            } else {
                Requirement::Less(key, number)
            });
        }
    }
    Ok(Requirement::Exists(label_key(part, part)?))
}

fn label_key(key: &str, whole: &str) -> Result<String, ApiError> {
    let key = key.trim();
    let good = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if good {
        Ok(key.to_owned())
    } else {
        Err(broken(whole, "found an invalid label key"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

/// A parsed field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldTerm>);

impl FieldSelector {
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (path, value, equal) = if let Some((p, v)) = part.split_once("!=") {
                (p, v, false)
            } else if let Some((p, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (p, v, true)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{part}'; can't understand '{part}'"
                )));
            };
            let known = path == "metadata.name"
                || (path == "metadata.namespace" && resource.namespaced())
                || resource.selectable.iter().any(|s| s == path);
            if !known {
                return Err(ApiError::bad_request(unknown_field(path, resource)));
            }
            terms.push(FieldTerm {
                path: path.to_owned(),
                value: value.to_owned(),
                equal,
            });
        }
        Ok(Self(terms))
    }

    fn matches(&self, object: &Stored, resource: &Resource) -> bool {
        let mut parsed: Option<Value> = None;
        self.0.iter().all(|term| {
            let same = match term.path.as_str() {
                "metadata.name" => *object.key.name == *term.value,
                "metadata.namespace" => *object.key.namespace == *term.value,
                path => {
                    let value = parsed.get_or_insert_with(|| object.value());
                    field_text(value, stored_path(path, resource)) == term.value
                }
            };
            same == term.equal
        })
    }
}

/// Where the field of a view is in the stored object.
fn stored_path<'a>(path: &'a str, resource: &Resource) -> std::borrow::Cow<'a, str> {
    match (resource.plural.as_str(), path) {
        ("events", "reportingController") => "reportingComponent".into(),
        ("events", "source") => "source.component".into(),
        ("events", p) if p.starts_with("regarding.") => {
            p.replacen("regarding", "involvedObject", 1).into()
        }
        ("jobs", "status.successful") => "status.succeeded".into(),
        _ => path.into(),
    }
}

fn field_text(value: &Value, path: impl AsRef<str>) -> String {
    match path.as_ref().split('.').fold(value, |v, step| &v[step]) {
        Value::String(s) => s.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selector {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.0.is_empty() && self.fields.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Stored, resource: &Resource) -> bool {
        self.labels.matches(&object.labels)
            && (self.fields.0.is_empty() || self.fields.matches(object, resource))
    }
}

/// What a real server says of a field that a kind cannot be selected by; kinds with fields of their own say it
/// in other words.
fn unknown_field(path: &str, resource: &Resource) -> String {
    if resource.is("batch", "jobs") {
        format!("field label \"{path}\" not supported for {}", resource.kind)
    } else if resource.is_custom() || !resource.selectable.is_empty() {
        format!("field label not supported: {path}")
    } else {
        format!(
            "\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_select() {
        let labels: BTreeMap<_, _> = [("app", "web"), ("tier", "2")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier", true),
            ("app!=web", false),
            ("app in (web, db),tier notin (3)", true),
            ("!missing", true),
            ("missing!=x", true),
            ("tier>1", true),
            ("tier<2", false),
        ] {
            assert_eq!(
                LabelSelector::parse(text).unwrap().matches(&labels),
                expected,
                "{text}"
            );
        }
        assert!(LabelSelector::parse("a b").is_err());
    }
}
