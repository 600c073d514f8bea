//! Type checks of applied custom resources: a value with a wrong type can be neither merged nor owned. For built-in
//! kinds, `schema::decode` checks the types.

use serde_json::Value;

use crate::schema::{Additional, Schema, Type};

/// Returns a message for the first value with a wrong type, or `None` if all types are correct.
pub(crate) fn mistyped(value: &Value, schema: &Schema, path: &str) -> Option<String> {
    let wrong = |expected: &str| Some(format!("{path}: expected {expected}"));
    match (schema.kind, value) {
        (_, Value::Null) => None,
        (Type::Object, Value::Object(fields)) => fields.iter().find_map(|(name, inner)| {
            let of = match (schema.properties.get(name), &schema.additional) {
                (Some(property), _) => Some(property.as_ref()),
                (None, Additional::Of(of)) => Some(of.as_ref()),
                (None, _) => None,
            };
            mistyped(inner, of?, &format!("{path}.{name}"))
        }),
        (Type::Array, Value::Array(items)) => {
            let of = schema.items.as_deref()?;
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| mistyped(item, of, &format!("{path}[{at}]")))
        }
        (Type::Object, _) => wrong("map"),
        (Type::Array, _) => wrong("list"),
        (Type::String, other) if !other.is_string() => wrong("string"),
        (Type::Boolean, other) if !other.is_boolean() => wrong("boolean"),
        (Type::Integer | Type::Number, other) if !other.is_number() => {
            wrong("numeric (int or float)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::custom;

    #[test]
    fn wrong_types_are_found_at_every_level() {
        let schema = custom::resource(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "count": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "any": {"x-kubernetes-preserve-unknown-fields": true}}}}}),
        )
        .unwrap();
        for (spec, expected) in [
            (json!([]), Some(".spec: expected map")),
            (
                json!({"count": "1"}),
                Some(".spec.count: expected numeric (int or float)"),
            ),
            (json!({"list": {}}), Some(".spec.list: expected list")),
            (
                json!({"list": ["a", 1]}),
                Some(".spec.list[1]: expected string"),
            ),
            (
                json!({"map": {"a": 1}}),
                Some(".spec.map.a: expected boolean"),
            ),
            (
                json!({"count": null, "list": [], "map": {"a": true}, "any": [1, {}]}),
                None,
            ),
        ] {
            let found = mistyped(&json!({"spec": spec}), &schema, "");
            assert_eq!(found.as_deref(), expected, "{spec}");
        }
    }
}
