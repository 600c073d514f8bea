//! Variables, and the values and texts that refer to them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::harness::definitions::definition;

/// Texts in the form of a reference that are no variables: `<null>` is null where a merge patch would remove the field,
/// and the others are expectations.
const NO_VARIABLES: [&str; 6] = ["absent", "any", "array", "null", "object", "string"];

/// The variables of a case.
#[derive(Debug)]
pub(super) struct Variables(BTreeMap<String, Value>);

impl Default for Variables {
    fn default() -> Self {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let definition = definition(json!({"type": "object"}));
        let mut variables = Self(BTreeMap::new());
        variables.set("id", id[..8].into());
        variables.set("definition", definition);
        variables
    }
}

impl Variables {
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Returns the value of `name` or `name/pointer`.
    fn get(&self, reference: &str) -> Option<Value> {
        let (name, pointer) = reference.split_at(reference.find('/').unwrap_or(reference.len()));
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name || NO_VARIABLES.contains(&name) {
            return None;
        }
        let value = self.0.get(name);
        let value = value.unwrap_or_else(|| panic!("no variable {name}"));
        let found = at(value, pointer);
        Some(
            found
                .unwrap_or_else(|| panic!("no {pointer} in {value}"))
                .clone(),
        )
    }

    /// Replaces the references in a text.
    pub(super) fn text(&self, text: &str) -> String {
        let mut pieces = text.split('<');
        let mut replaced = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let reference = piece.split_once('>');
            match reference.and_then(|(name, rest)| Some((self.get(name)?, rest))) {
                Some((Value::String(value), rest)) => replaced.extend([&value, rest]),
                Some((value, rest)) => replaced.extend([&value.to_string(), rest]),
                None => replaced.extend(["<", piece]),
            }
        }
        replaced
    }

    /// Replaces the references in a value. A text that is one reference becomes the value of the variable.
    fn value(&self, value: Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .into_iter()
                .map(|(name, value)| (self.text(&name), self.value(value)))
                .collect(),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::String(text) => {
                let whole = text
                    .strip_prefix('<')
                    .and_then(|text| text.strip_suffix('>'));
                let value = whole.and_then(|reference| self.get(reference));
                value.unwrap_or_else(|| self.text(&text).into())
            }
            other => other,
        }
    }

    /// Returns the value of `A` or `A & B`.
    pub(super) fn body(&self, text: &str) -> Value {
        let mut parts = text.split(" & ").map(|part| {
            // Otherwise `n` and `y` are booleans.
            let options = serde_saphyr::options! { strict_booleans: true };
            let value = serde_saphyr::from_str_with_options(part, options);
            self.value(value.unwrap_or_else(|error| panic!("{part}: {error}")))
        });
        let mut body = parts.next().unwrap_or_default();
        for patch in parts {
            merge(&mut body, patch);
        }
        set_nulls(&mut body);
        body
    }

    /// Returns the value of a row or a `let`: YAML if it looks like a collection, a string, a reference or a constant,
    /// and otherwise a text.
    pub(super) fn literal(&self, text: &str) -> Value {
        let is_constant = matches!(text, "true" | "false" | "null") || text.parse::<i64>().is_ok();
        let is_reference = text.starts_with('<')
            && (text.find('>') == Some(text.len() - 1) || text.contains("> & "));
        if is_constant || is_reference || text.starts_with(['{', '[', '"']) {
            self.body(text)
        } else {
            self.text(text).into()
        }
    }
}

/// Returns the value at a JSON pointer. In a list, `name=text` stands for the first item whose field has this value.
pub(super) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |value, step| {
        let step = unescaped(step);
        match (value, step.split_once('=')) {
            (Value::Array(items), Some((field, text))) => items.iter().find(|i| i[field] == *text),
            (Value::Array(items), None) => items.get(step.parse::<usize>().ok()?),
            _ => value.get(&step),
        }
    })
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Applies a merge patch. A key that starts with `/` is the JSON pointer of one value.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (name, value) in patch {
        let Some(pointer) = name.strip_prefix('/') else {
            set(target, &name, value, merge);
            continue;
        };
        let (parents, last) = pointer.rsplit_once('/').unwrap_or(("", pointer));
        let parents = parents.split('/').filter(|step| !step.is_empty());
        let parent = parents.fold(&mut *target, |value, step| child(value, &unescaped(step)));
        set(parent, &unescaped(last), value, |target, value| {
            *target = value;
        });
    }
}

/// Sets a field or an item with `write`. Null removes a field.
fn set(parent: &mut Value, name: &str, value: Value, write: fn(&mut Value, Value)) {
    match parent {
        Value::Object(fields) if value.is_null() => {
            fields.remove(name);
        }
        Value::Array(items) if name == items.len().to_string() => items.push(value),
        _ => write(child(parent, name), value),
    }
}

/// Returns a field or an item. Creates a missing field.
fn child<'a>(parent: &'a mut Value, name: &str) -> &'a mut Value {
    match parent {
        Value::Array(items) => &mut items[name.parse::<usize>().unwrap()],
        _ => &mut parent[name],
    }
}

/// Replaces each text `<null>` by null.
fn set_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(set_nulls),
        Value::Array(items) => items.iter_mut().for_each(set_nulls),
        Value::String(text) if text == "<null>" => *value = Value::Null,
        _ => {}
    }
}
