//! Label and field selectors. The selectors of a request are parsed once, and then evaluated against stored objects.

mod field;
pub(crate) mod label;

use std::collections::BTreeMap;

use berth_apimachinery::label_selector::{CompiledSelector, LabelSelector};
use serde::Deserialize as _;
use serde_json::Value;

use crate::error::ApiError;
use crate::resource::Resource;
use crate::store::Stored;

use field::SelectedField;

/// Compiles the label selector in a field of an object. A null selector selects all objects. Returns `None` for an
/// invalid selector.
pub(crate) fn compiled(selector: &Value) -> Option<CompiledSelector> {
    if selector.is_null() {
        return Some(CompiledSelector::default());
    }
    LabelSelector::deserialize(selector).ok()?.compile().ok()
}

/// Returns the labels of an object as a map.
pub(crate) fn label_map(labels: &Value) -> BTreeMap<String, String> {
    let labels = labels.as_object().into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    field: SelectedField,
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
            // The first operator is used. If several operators start at the same position, the longest of them is used.
            let found = operators
                .into_iter()
                .filter_map(|(sign, equal)| Some((part.find(sign)?, sign, equal)))
                .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
            let Some((at, sign, equal)) = found else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let (label, value) = (&part[..at], unescaped(&part[at + sign.len()..])?);
            let field = SelectedField::parse(label, resource)
                .ok_or_else(|| ApiError::bad_request(field::not_supported(label)))?;
            terms.push(FieldTerm {
                field,
                value,
                equal,
            });
        }
        Ok(Self(terms))
    }

    fn matches(&self, object: &Stored, resource: &Resource) -> bool {
        let mut parsed: Option<Value> = None;
        self.0.iter().all(|term| {
            let same = match &term.field {
                SelectedField::Name => *object.key.name == *term.value,
                SelectedField::Namespace => *object.key.namespace == *term.value,
                SelectedField::Builtin(field) => {
                    field.read(parsed.get_or_insert_with(|| object.value())) == term.value
                }
                SelectedField::Custom(path) => {
                    let value = parsed.get_or_insert_with(|| resource.read(object));
                    field::text_at(value, path) == term.value
                }
            };
            same == term.equal
        })
    }
}

/// Splits a field selector at the commas that no backslash escapes.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let ends = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })
}

/// Removes the backslashes that escape commas, equals signs and backslashes.
fn unescaped(text: &str) -> Result<String, ApiError> {
    let refuse = |message: String| {
        Err(ApiError::bad_request(format!(
            "invalid field selector: {message}"
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

/// The label selector and the field selector of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    pub(crate) labels: CompiledSelector,
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
