//! Conversion of the empty tables in a script's result to lists or objects.
//!
//! Lua has one kind of table, so an empty list and an empty object look the same in a result. As in Karmada, the
//! arguments of the script decide. If an argument has an empty object or an empty list at the same path, the empty
//! table gets this type. Otherwise the empty table is removed. List indices are not part of a path.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The type of a result that is an empty table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    Object,
    List,
}

/// The paths of the empty objects and the empty lists in the arguments.
#[derive(Debug, Default)]
struct EmptyPaths {
    objects: HashSet<String>,
    lists: HashSet<String>,
}

/// Converts the empty tables in a result. `references` are the arguments of the script. Each empty table arrives as an
/// empty list, and gets the type that a reference has at the same path.
pub(crate) fn resolve_empty_tables(value: &mut Value, root: Root, references: &[&Value]) {
    if is_empty_list(value) {
        if root == Root::Object {
            *value = Value::Object(Map::new());
        }
        return;
    }
    if !has_empty_list(value) {
        return;
    }
    let mut known = EmptyPaths::default();
    for reference in references {
        known.collect(reference, &mut String::new());
    }
    known.apply(value, &mut String::new());
}

fn is_empty_list(value: &Value) -> bool {
    matches!(value, Value::Array(items) if items.is_empty())
}

fn has_empty_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty_list),
        Value::Object(fields) => fields.values().any(has_empty_list),
        _ => false,
    }
}

/// Calls `run` with a path that is extended by a field.
fn within<T>(path: &mut String, field: &str, run: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    // No field name of a Kubernetes object contains this separator.
    path.push('\0');
    path.push_str(field);
    let result = run(path);
    path.truncate(length);
    result
}

impl EmptyPaths {
    fn collect(&mut self, value: &Value, path: &mut String) {
        match value {
            Value::Array(items) => {
                for item in items {
                    self.collect_child(item, path);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    within(path, name, |path| self.collect_child(field, path));
                }
            }
            _ => {}
        }
    }

    fn collect_child(&mut self, child: &Value, path: &mut String) {
        match child {
            Value::Array(items) if items.is_empty() => {
                self.lists.insert(path.clone());
            }
            Value::Object(fields) if fields.is_empty() => {
                self.objects.insert(path.clone());
            }
            _ => self.collect(child, path),
        }
    }

    fn apply(&self, value: &mut Value, path: &mut String) {
        match value {
            Value::Array(items) => items.retain_mut(|item| self.keeps(item, path)),
            Value::Object(fields) => {
                fields.retain(|name, field| within(path, name, |path| self.keeps(field, path)));
            }
            _ => {}
        }
    }

    /// Converts a child of a list or object. Returns false if the child must be removed.
    fn keeps(&self, child: &mut Value, path: &mut String) -> bool {
        if !is_empty_list(child) {
            self.apply(child, path);
            return true;
        }
        if self.objects.contains(path) {
            *child = Value::Object(Map::new());
            return true;
        }
        self.lists.contains(path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_decide_the_form_of_empty_tables() {
        for (value, references, expected) in [
            (
                json!({"spec": {"a": [], "b": [], "c": ["x"], "d": {"e": [], "f": []}}}),
                vec![json!({"spec": {"a": {}, "b": [], "d": {"e": {}}}})],
                json!({"spec": {"a": {}, "b": [], "c": ["x"], "d": {"e": {}}}}),
            ),
            // Indices are not part of a path.
            (
                json!({"spec": [{"a": []}, {"a": []}, []]}),
                vec![json!({"spec": [{"a": {}}]})],
                json!({"spec": [{"a": {}}, {"a": {}}]}),
            ),
            (
                json!({"volumes": [[]]}),
                vec![json!({"volumes": [{}]})],
                json!({"volumes": [{}]}),
            ),
            // All references are considered. An empty object takes precedence over an empty list.
            (
                json!({"a": [], "b": []}),
                vec![json!({"a": []}), json!({"a": {}, "b": []})],
                json!({"a": {}, "b": []}),
            ),
            // Names may contain dots.
            (
                json!({"a.b": [], "a": {"b": []}}),
                vec![json!({"a.b": {}})],
                json!({"a.b": {}, "a": {}}),
            ),
            (json!({"a": [], "b": 1}), vec![], json!({"b": 1})),
        ] {
            let mut resolved = value.clone();
            let references: Vec<&Value> = references.iter().collect();
            resolve_empty_tables(&mut resolved, Root::Object, &references);
            assert_eq!(resolved, expected, "{value}");
        }
    }

    #[test]
    fn an_empty_result_has_the_form_of_its_type() {
        for (root, expected) in [(Root::Object, json!({})), (Root::List, json!([]))] {
            let mut value = json!([]);
            resolve_empty_tables(&mut value, root, &[]);
            assert_eq!(value, expected);
        }
    }
}
