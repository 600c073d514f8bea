//! Removal of the fields that an applier no longer applies. Such a field is removed unless another manager owns it. A
//! struct, which is an object with declared properties, is removed with its defaults if no manager owns a field in it.

use serde_json::Value;

use super::fields::{self, Fields, Shape, field_schema, item_step, set_step};
use crate::schema::{ListType, Schema};

/// Removes the dropped fields from `merged`. `before` contains the fields that the applier owned before the apply, and
/// `asked_for` the fields of all managers after the apply. A dropped field is only in `before`.
pub(super) fn remove_dropped(
    merged: &mut Value,
    before: &Fields,
    asked_for: &Fields,
    schema: &Schema,
) {
    let mut dropped = before.clone();
    dropped.subtract(asked_for);
    if dropped.is_empty() {
        return;
    }
    let schema = Some(schema);
    let of = |value: &Value| with_structs(&fields::of(value, schema), schema);
    let before = with_structs(before, schema);
    let all = of(merged);
    // The fields of `merged` without the applier's previous fields, together with the fields of all managers.
    let mut stays = of(&without(merged, &before, schema));
    stays.union(&with_structs(asked_for, schema));
    // A field that no manager has owned belongs to the server and is kept.
    let mut unwanted = all.clone();
    unwanted.subtract(&stays);
    let mut removed = all;
    removed.subtract(&of(&without(merged, &unwanted, schema)));
    remove(merged, &removed.intersection(&before), schema);
}

/// Returns a set together with the structs that contain its paths. Maps and list items are not structs.
fn with_structs(fields: &Fields, schema: Option<&Schema>) -> Fields {
    let below = fields.below.iter().map(|(step, inner)| {
        let mut inner = with_structs(inner, below(schema, step));
        let is_named = |name| schema.is_some_and(|s| s.properties.contains_key(name));
        inner.owned |= step.strip_prefix("f:").is_some_and(is_named);
        (step.clone(), inner)
    });
    Fields {
        owned: fields.owned,
        below: below.collect(),
    }
}

/// Returns the schema of the value at a step below this schema.
fn below<'a>(schema: Option<&'a Schema>, step: &str) -> Option<&'a Schema> {
    match step.strip_prefix("f:") {
        Some(name) => field_schema(schema, name),
        None => schema?.items.as_deref(),
    }
}

fn without(value: &Value, removed: &Fields, schema: Option<&Schema>) -> Value {
    let mut left = value.clone();
    remove(&mut left, removed, schema);
    left
}

/// Removes the paths of `removed`, and everything below these paths.
fn remove(value: &mut Value, removed: &Fields, schema: Option<&Schema>) {
    if removed.below.is_empty() {
        return;
    }
    // An atomic value has no parts that can be removed.
    if matches!(fields::shape(value, schema), Shape::Leaf) {
        return;
    }
    match value {
        Value::Object(object) => object.retain(|name, inner| {
            let Some(removed) = removed.at(&format!("f:{name}")) else {
                return true;
            };
            remove(inner, removed, field_schema(schema, name));
            !removed.owned
        }),
        Value::Array(items) => {
            let of_item = schema.and_then(|s| s.items.as_deref());
            let list_type = schema.map(|s| &s.list_type);
            items.retain_mut(|item| {
                let step = match list_type {
                    Some(ListType::Map(keys)) => item_step(item, keys, of_item),
                    _ => set_step(item),
                };
                let Some(removed) = removed.at(&step) else {
                    return true;
                };
                remove(item, removed, of_item);
                !removed.owned
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    /// Returns the container of a Deployment after an apply that dropped fields of the container.
    fn after_apply(live: &Value, before: &Value, asked_for: &Value) -> Value {
        let schema = builtin::compiled("io.k8s.api.apps.v1.Deployment");
        let pod = |container: &Value| json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let [before, asked_for] =
            [before, asked_for].map(|container| fields::of(&pod(container), Some(&schema)));
        let mut merged = pod(live);
        remove_dropped(&mut merged, &before, &asked_for, &schema);
        merged["spec"]["template"]["spec"]["containers"][0].take()
    }

    #[test]
    fn a_struct_without_owned_fields_is_removed_with_its_defaults() {
        let live = json!({"name": "c", "livenessProbe": {"httpGet": {"port": 80, "scheme": "HTTP"}, "periodSeconds": 10}});
        let before = json!({"name": "c", "livenessProbe": {"httpGet": {"port": 80}}});
        assert_eq!(
            after_apply(&live, &before, &json!({"name": "c"})),
            json!({"name": "c"})
        );
        let other = json!({"name": "c", "livenessProbe": {"periodSeconds": 10}});
        assert_eq!(after_apply(&live, &before, &other), other);
        assert_eq!(after_apply(&live, &before, &before), live);
    }

    #[test]
    fn fields_that_were_never_owned_stay() {
        let live = json!({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "C"}], "args": ["x"]});
        let before = json!({"name": "c", "env": [{"name": "A", "value": "1"}]});
        let asked_for = json!({"name": "c", "env": [{"name": "C"}]});
        let expected = json!({"name": "c", "env": [{"name": "B"}, {"name": "C"}], "args": ["x"]});
        assert_eq!(after_apply(&live, &before, &asked_for), expected);
    }
}
