//! The fields in which two JSON documents differ, with paths such as `spec.template.spec.containers[0].image`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A field with different values in two documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The path of the field.
    pub field: String,
    /// The value in the first document, or `None` if the field is absent.
    pub old: Option<Value>,
    /// The value in the second document, or `None` if the field is absent.
    pub new: Option<Value>,
}

/// A field with different values in several documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldVariation {
    /// The path of the field.
    pub field: String,
    /// The value in each document, or `None` if the field is absent.
    pub values: Vec<Option<Value>>,
}

/// Returns the fields in which two documents differ. See [`field_variations`] for the rules.
///
/// ```
/// use berth_apimachinery::field_changes::field_changes;
/// use serde_json::json;
///
/// let old = json!({ "spec": { "containers": [{ "name": "web", "image": "nginx:1" }] } });
/// let new = json!({ "spec": { "containers": [{ "name": "web", "image": "nginx:2" }] } });
/// let changes = field_changes(&old, &new);
/// assert_eq!(changes[0].field, "spec.containers[0].image");
/// assert_eq!(changes[0].new, Some(json!("nginx:2")));
/// ```
pub fn field_changes(old: &Value, new: &Value) -> Vec<FieldChange> {
    let variations = field_variations(&[old, new]).into_iter();
    let changes = variations.map(|variation| {
        let mut values = variation.values.into_iter();
        FieldChange {
            field: variation.field,
            old: values.next().flatten(),
            new: values.next().flatten(),
        }
    });
    changes.collect()
}

/// Returns the fields in which documents differ, in the order of their names. A field that some documents lack is one
/// difference, whatever it contains. A null field is absent.
///
/// The items of lists are matched by their field `name` if all items have one, as containers and environment variables
/// do. Otherwise the items are matched by their position. The position in a path is that in the first document with the
/// item.
pub fn field_variations(documents: &[&Value]) -> Vec<FieldVariation> {
    let documents: Vec<Option<&Value>> = documents.iter().copied().map(Some).collect();
    let mut variations = Vec::new();
    compare("", &documents, &mut variations);
    variations
}

/// Returns the path of a field of an object. A name that is no plain word, such as that of an annotation, is written in
/// brackets.
fn field_path(parent: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        format!("{parent}[{name}]")
    } else if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

fn compare(path: &str, values: &[Option<&Value>], variations: &mut Vec<FieldVariation>) {
    let values: Vec<Option<&Value>> = values
        .iter()
        .map(|value| value.filter(|value| !value.is_null()))
        .collect();
    if values.iter().all(|value| values.first() == Some(value)) {
        return;
    }
    let objects = values.iter().map(|value| value.and_then(Value::as_object));
    if let Some(objects) = objects.collect::<Option<Vec<_>>>() {
        let names: BTreeSet<&String> = objects.iter().flat_map(|object| object.keys()).collect();
        for name in names {
            let fields: Vec<Option<&Value>> =
                objects.iter().map(|object| object.get(name)).collect();
            compare(&field_path(path, name), &fields, variations);
        }
        return;
    }
    let lists = values
        .iter()
        .map(|value| value.and_then(Value::as_array).map(Vec::as_slice));
    if let Some(lists) = lists.collect::<Option<Vec<_>>>() {
        compare_lists(path, &lists, variations);
        return;
    }
    variations.push(FieldVariation {
        field: path.to_owned(),
        values: values.into_iter().map(Option::<&Value>::cloned).collect(),
    });
}

fn compare_lists(path: &str, lists: &[&[Value]], variations: &mut Vec<FieldVariation>) {
    let names: Option<Vec<Vec<&str>>> = lists.iter().map(|items| unique_names(items)).collect();
    let Some(names) = names else {
        let length = lists.iter().map(|items| items.len()).max().unwrap_or(0);
        for index in 0..length {
            let items: Vec<Option<&Value>> = lists.iter().map(|items| items.get(index)).collect();
            compare(&format!("{path}[{index}]"), &items, variations);
        }
        return;
    };
    let mut compared: BTreeSet<&str> = BTreeSet::new();
    for list in &names {
        for (index, name) in list.iter().enumerate() {
            if !compared.insert(name) {
                continue;
            }
            let items: Vec<Option<&Value>> = names
                .iter()
                .zip(lists)
                .map(|(names, items)| {
                    let position = names.iter().position(|other| other == name)?;
                    items.get(position)
                })
                .collect();
            compare(&format!("{path}[{index}]"), &items, variations);
        }
    }
    let is_common = |name: &&&str| names.iter().all(|list| list.contains(*name));
    let orders: Vec<Vec<&str>> = names
        .iter()
        .map(|list| list.iter().filter(is_common).copied().collect())
        .collect();
    if orders.iter().any(|order| orders.first() != Some(order)) {
        variations.push(FieldVariation {
            field: format!("{path}[*].name"),
            values: orders.into_iter().map(|o| Some(Value::from(o))).collect(),
        });
    }
}

/// Returns the names of all items, or `None` if an item has no name or shares its name.
fn unique_names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Option<Vec<&str>> = items
        .iter()
        .map(|item| item.get("name").and_then(Value::as_str))
        .collect();
    let names = names?;
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    (unique.len() == names.len()).then_some(names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_difference_is_one_change_with_its_path() {
        let container = |name: &str, image: &str| json!({ "name": name, "image": image });
        for (old, new, expected) in [
            (json!({"a": 1}), json!({"a": 1}), json!([])),
            (json!({"a": null}), json!({}), json!([])),
            (
                json!({"spec": {"replicas": 2}}),
                json!({"spec": {"replicas": 5}}),
                json!([{"field": "spec.replicas", "old": 2, "new": 5}]),
            ),
            (
                json!({"metadata": {"annotations": {"example.com/team": "a"}}}),
                json!({"metadata": {"annotations": {"plain": "b"}}}),
                json!([
                    {"field": "metadata.annotations[example.com/team]", "old": "a", "new": null},
                    {"field": "metadata.annotations.plain", "old": null, "new": "b"}]),
            ),
            // A field that only one document has is one change.
            (
                json!({}),
                json!({"affinity": {"nodeAffinity": {"a": 1}}}),
                json!([{"field": "affinity", "old": null, "new": {"nodeAffinity": {"a": 1}}}]),
            ),
            // A container in front moves the others, which are still compared with themselves.
            (
                json!({"c": [container("web", "1"), container("log", "1")]}),
                json!({"c": [container("proxy", "1"), container("web", "2"), container("log", "1")]}),
                json!([
                    {"field": "c[0].image", "old": "1", "new": "2"},
                    {"field": "c[0]", "old": null, "new": container("proxy", "1")}]),
            ),
            (
                json!({"env": [{"name": "A"}, {"name": "B"}]}),
                json!({"env": [{"name": "B"}, {"name": "A"}]}),
                json!([{"field": "env[*].name", "old": ["A", "B"], "new": ["B", "A"]}]),
            ),
            // Without names, the position counts.
            (
                json!({"args": ["a", "b"]}),
                json!({"args": ["a", "c", "d"]}),
                json!([
                    {"field": "args[1]", "old": "b", "new": "c"},
                    {"field": "args[2]", "old": null, "new": "d"}]),
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": "text"}),
                json!([{"field": "a", "old": {"b": 1}, "new": "text"}]),
            ),
        ] {
            let changes = serde_json::to_value(field_changes(&old, &new)).unwrap();
            assert_eq!(changes, expected, "{old} {new}");
        }
    }

    #[test]
    fn several_documents_are_compared_at_once() {
        let documents = [
            json!({"spec": {"replicas": 2, "env": [{"name": "A", "value": "1"}]}}),
            json!({"spec": {"replicas": 3, "env": [{"name": "A", "value": "1"}]}}),
            json!({"spec": {"replicas": 2, "paused": true, "env": []}}),
        ];
        let documents: Vec<&Value> = documents.iter().collect();
        let variations = serde_json::to_value(field_variations(&documents)).unwrap();
        let variable = json!({"name": "A", "value": "1"});
        assert_eq!(
            variations,
            json!([
                {"field": "spec.env[0]", "values": [variable, variable, null]},
                {"field": "spec.paused", "values": [null, null, true]},
                {"field": "spec.replicas", "values": [2, 3, 2]}])
        );
    }
}
