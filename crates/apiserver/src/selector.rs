//! Label and field selectors: parsed once at the edge, evaluated against stored objects.

mod label;
mod written;

pub(crate) use label::LabelSelector;
use serde_json::Value;
pub(crate) use written::written;

use crate::error::ApiError;
use crate::registry::Resource;
use crate::store::Stored;

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
        for part in split(text).filter(|part| !part.is_empty()) {
            let operators = [("!=", false), ("==", true), ("=", true)];
            // The first sign counts; of several there the longest.
            let found = operators
                .into_iter()
                .filter_map(|(sign, equal)| Some((part.find(sign)?, sign, equal)))
                .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
            let Some((at, sign, equal)) = found else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let (path, value) = (&part[..at], unescaped(&part[at + sign.len()..])?);
            let known = path == "metadata.name"
                || (path == "metadata.namespace" && resource.namespaced())
                || resource.selectable.iter().any(|s| s == path);
            if !known {
                return Err(ApiError::bad_request(unknown_field(path, resource)));
            }
            terms.push(FieldTerm {
                path: path.to_owned(),
                value,
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

/// The parts between commas, but not those that stand after a backslash.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let ends = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })
}

/// A value in which backslashes stand before commas, equals signs and themselves.
fn unescaped(text: &str) -> Result<String, ApiError> {
    let refuse = |why: String| {
        Err(ApiError::bad_request(format!(
            "invalid field selector: {why}"
        )))
    };
    let mut value = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, true) => match rest.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                Some(other) => return refuse(format!("invalid escape sequence: \\{other}")),
                None => return refuse("invalid escape sequence: \\".to_owned()),
            },
            (',' | '=', _) => {
                return refuse(format!("unescaped character in value: {}", u32::from(c)));
            }
            _ => value.push(c),
        }
    }
    Ok(value)
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
        self.labels.is_empty() && self.fields.0.is_empty()
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
