//! What an applier asked for the last time and no longer does. It goes, unless somebody asks for it; a struct of which
//! nobody asks for anything goes with all that is in it, defaults included.

use serde_json::Value;

use super::fields::{self, Fields, Shape, field_schema, item_step, set_step};
use crate::schema::{ListType, Schema};

/// Takes from `merged` what was asked for `before` and is not in `asked_for`, which is what all managers have now.
pub(super) fn take_away(merged: &mut Value, before: &Fields, asked_for: &Fields, schema: &Schema) {
    let mut given_up = before.clone();
    given_up.subtract(asked_for);
    if given_up.is_empty() {
        return;
    }
    let schema = Some(schema);
    let of = |value: &Value| with_structs(&fields::of(value, schema), schema);
    let before = with_structs(before, schema);
    let all = of(merged);
    // What would stay without the applier, and what somebody asks for.
    let mut stays = of(&without(merged, &before, schema));
    stays.union(&with_structs(asked_for, schema));
    // All that is neither, unless nobody has ever asked for it: that belongs to the server.
    let mut unwanted = all.clone();
    unwanted.subtract(&stays);
    let mut gone = all;
    gone.subtract(&of(&without(merged, &unwanted, schema)));
    remove(merged, &gone.intersection(&before), schema);
}

/// The set together with the structs that lead to its paths. Maps and items of lists are not structs.
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

/// The schema of what is one step below.
fn below<'a>(schema: Option<&'a Schema>, step: &str) -> Option<&'a Schema> {
    match step.strip_prefix("f:") {
        Some(name) => field_schema(schema, name),
        None => schema?.items.as_deref(),
    }
}

fn without(value: &Value, gone: &Fields, schema: Option<&Schema>) -> Value {
    let mut left = value.clone();
    remove(&mut left, gone, schema);
    left
}

/// Takes the paths of `gone` away, each with all below it.
fn remove(value: &mut Value, gone: &Fields, schema: Option<&Schema>) {
    if gone.below.is_empty() {
        return;
    }
    // What is one whole has no parts that could go.
    if matches!(fields::shape(value, schema), Shape::Leaf) {
        return;
    }
    match value {
        Value::Object(object) => object.retain(|name, inner| {
            let Some(gone) = gone.at(&format!("f:{name}")) else {
                return true;
            };
            remove(inner, gone, field_schema(schema, name));
            !gone.owned
        }),
        Value::Array(items) => {
            let of_item = schema.and_then(|s| s.items.as_deref());
            let list_type = schema.map(|s| &s.list_type);
            items.retain_mut(|item| {
                let step = match list_type {
                    Some(ListType::Map(keys)) => item_step(item, keys, of_item),
                    _ => set_step(item),
                };
                let Some(gone) = gone.at(&step) else {
                    return true;
                };
                remove(item, gone, of_item);
                !gone.owned
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

    /// What is left of a deployment whose container somebody had said this of, and now says that.
    fn left(live: &Value, before: &Value, asked_for: &Value) -> Value {
        let schema = builtin::compiled("io.k8s.api.apps.v1.Deployment");
        let pod = |container: &Value| json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let [before, asked_for] =
            [before, asked_for].map(|said| fields::of(&pod(said), Some(&schema)));
        let mut merged = pod(live);
        take_away(&mut merged, &before, &asked_for, &schema);
        merged["spec"]["template"]["spec"]["containers"][0].take()
    }

    #[test]
    fn a_struct_goes_with_its_defaults_unless_somebody_has_a_part_of_it() {
        let live = json!({"name": "c", "livenessProbe": {"httpGet": {"port": 80, "scheme": "HTTP"}, "periodSeconds": 10}});
        let before = json!({"name": "c", "livenessProbe": {"httpGet": {"port": 80}}});
        assert_eq!(
            left(&live, &before, &json!({"name": "c"})),
            json!({"name": "c"})
        );
        let other = json!({"name": "c", "livenessProbe": {"periodSeconds": 10}});
        assert_eq!(left(&live, &before, &other), other);
        assert_eq!(left(&live, &before, &before), live);
    }

    #[test]
    fn what_nobody_has_ever_asked_for_stays_beside_what_somebody_does() {
        let live = json!({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "C"}], "args": ["x"]});
        let before = json!({"name": "c", "env": [{"name": "A", "value": "1"}]});
        let asked_for = json!({"name": "c", "env": [{"name": "C"}]});
        let expected = json!({"name": "c", "env": [{"name": "B"}, {"name": "C"}], "args": ["x"]});
        assert_eq!(left(&live, &before, &asked_for), expected);
    }
}
