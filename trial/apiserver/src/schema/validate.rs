//! Validation of values against a compiled schema.

use std::collections::HashSet;

use serde_json::Value;

use super::join;
use super::{Additional, Limits, ListType, Schema, Type, rules};
use crate::error::Cause;
use crate::go_text;

/// Returns the causes for which `value` does not match the schema.
pub(crate) fn validate(value: &Value, schema: &Schema) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(value, None, schema, "", &mut causes);
    causes
}

/// Returns the causes for which a custom resource is refused: first for its structure, then for its CEL rules. `old` is
/// the object that an update replaces. Parts that the update does not change may stay invalid.
pub(crate) fn custom(value: &Value, old: Option<&Value>, schema: &Schema) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(value, old, schema, "", &mut causes);
    if !schema.has_rules {
        return causes;
    }
    // CEL rules need a valid structure.
    if causes.iter().any(Cause::blocks_rules) {
        causes.push(Cause::invalid(
            "<nil>",
            &Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ));
    } else {
        causes.extend(rules::evaluate::evaluate(value, old, schema));
    }
    causes
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_i64() || n.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Reports whether a value has the JSON type `kind`.
pub(crate) fn fits(value: &Value, kind: Type) -> bool {
    match kind {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number | Type::Integer if !value.is_number() => false,
        Type::Any | Type::Number => true,
        Type::Integer => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
        }
        Type::IntOrString => value.is_string() || value.is_i64() || value.is_u64(),
        Type::Quantity => value.is_string() || value.is_number(),
    }
}

fn check(value: &Value, old: Option<&Value>, schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && (schema.nullable || schema.kind == Type::Any) {
        return;
    }
    if !fits(value, schema.kind) {
        let (expected, found) = (schema.kind.name(), type_name(value));
        let detail = format!("must be of type {expected}: \"{found}\"");
        causes.push(Cause::type_invalid(path, found, &detail));
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                if let Some(property) = schema.properties.get(name) {
                    // `builtins::validation::metadata` validates `metadata`.
                    if !property.object_meta {
                        let old = old.and_then(|old| old.get(name));
                        check(inner, old, property, &join(path, name), causes);
                    }
                } else if let Additional::Of(of) = &schema.additional {
                    let old = old.and_then(|old| old.get(name));
                    check(inner, old, of, &join(path, name), causes);
                }
            }
            for name in &schema.required {
                if !object.contains_key(name) {
                    causes.push(Cause::required(join(path, name), ""));
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (i, item) in items.iter().enumerate() {
                    check(
                        item,
                        schema.list_type.correlated(item, old),
                        of,
                        &format!("{path}[{i}]"),
                        causes,
                    );
                }
            }
            check_unique(items, schema, path, causes);
        }
        _ => {}
    }
    if let Some(limits) = &schema.limits {
        check_limits(value, limits, path, causes);
    }
}

fn check_unique(items: &[Value], schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    let keys: Option<&[String]> = match &schema.list_type {
        ListType::Atomic => return,
        ListType::Set => None,
        ListType::Map(keys) => Some(keys),
    };
    let mut seen = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        let identity = match keys {
            None => item.clone(),
            Some(keys) => keys
                .iter()
                .filter_map(|k| Some((k.clone(), item.get(k)?.clone())))
                .collect(),
        };
        if !seen.insert(identity.to_string()) {
            causes.push(Cause::duplicate(format!("{path}[{i}]"), &identity));
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bounds are compared as JSON numbers, as the real server does"
)]
fn check_limits(value: &Value, limits: &Limits, path: &str, causes: &mut Vec<Cause>) {
    let mut refuse = |detail: String| causes.push(Cause::invalid(path, value, &detail));
    match value {
        Value::Number(number) => {
            let x = number.as_f64().unwrap_or_default();
            if let Some(min) = limits.minimum {
                if limits.exclusive_minimum && x <= min {
                    refuse(format!("should be greater than {min}"));
                } else if x < min {
                    refuse(format!("should be greater than or equal to {min}"));
                }
            }
            if let Some(max) = limits.maximum {
                if limits.exclusive_maximum && x >= max {
                    refuse(format!("should be less than {max}"));
                } else if x > max {
                    refuse(format!("should be less than or equal to {max}"));
                }
            }
            if let Some(of) = limits.multiple_of
                && (x / of).fract().abs() > f64::EPSILON
            {
                refuse(format!("should be a multiple of {of}"));
            }
            let bounds = match limits.format.as_deref() {
                Some("int32") => Some((f64::from(i32::MIN), f64::from(i32::MAX))),
                Some("int64") => Some((i64::MIN as f64, i64::MAX as f64)),
                _ => None,
            };
            if bounds.is_some_and(|(low, high)| x < low || x > high) {
                let format = limits.format.as_deref().unwrap_or_default();
                refuse(format!("must be of type {format}: \"{number}\""));
            }
        }
        Value::String(text) => check_string(value, text, limits, path, causes),
        Value::Array(items) => {
            if let Some(min) = limits.min_items
                && (items.len() as u64) < min
            {
                refuse(format!("should have at least {min} items"));
            }
            if limits.unique_items {
                let mut seen = HashSet::new();
                if !items.iter().all(|i| seen.insert(i.to_string())) {
                    refuse("shouldn't contain duplicates".to_owned());
                }
            }
            if let Some(max) = limits.max_items
                && items.len() as u64 > max
            {
                causes.push(Cause::too_many(path, items.len(), max));
            }
        }
        Value::Object(object) => {
            if let Some(min) = limits.min_properties
                && (object.len() as u64) < min
            {
                refuse(format!("should have at least {min} properties"));
            }
            if let Some(max) = limits.max_properties
                && object.len() as u64 > max
            {
                causes.push(Cause::too_many(path, object.len(), max));
            }
        }
        _ => {}
    }
    if let Some(allowed) = &limits.allowed
        && !allowed.contains(value)
    {
        let list: Vec<String> = allowed
            .iter()
            .map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned))
            .collect();
        causes.push(Cause::not_supported(path, value, &list));
    }
    check_combinations(value, limits, path, causes);
}

fn check_string(value: &Value, text: &str, limits: &Limits, path: &str, causes: &mut Vec<Cause>) {
    let length = text.chars().count() as u64;
    if let Some(max) = limits.max_length
        && length > max
    {
        causes.push(Cause::too_long(path, max));
    }
    let mut refuse = |detail: String| causes.push(Cause::invalid(path, value, &detail));
    if let Some(min) = limits.min_length
        && length < min
    {
        refuse(format!("should be at least {min} chars long"));
    }
    if let Some(pattern) = &limits.pattern
        && !pattern.is_match(text)
    {
        refuse(format!("should match '{}'", pattern.as_str()));
    }
    if let Some(format) = limits.format.as_deref() {
        let good = match format {
            "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
            "date" => text.parse::<jiff::civil::Date>().is_ok(),
            "duration" => go_text::duration(text).is_ok(),
            "uuid" => uuid::Uuid::try_parse(text).is_ok(),
            "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
            "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
            "byte" => {
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok()
            }
            _ => true,
        };
        if !good {
            let detail = format!("must be of type {format}: \"{text}\"");
            causes.push(Cause::type_invalid(path, text, &detail));
        }
    }
}

fn check_combinations(value: &Value, limits: &Limits, path: &str, causes: &mut Vec<Cause>) {
    let ok = |schema: &Schema| {
        let mut inner = Vec::new();
        check(value, None, schema, path, &mut inner);
        inner.is_empty()
    };
    for schema in &limits.all_of {
        check(value, None, schema, path, causes);
    }
    let mut refuse = |detail: String| causes.push(Cause::invalid(path, value, &detail));
    if !limits.any_of.is_empty() && !limits.any_of.iter().any(|s| ok(s)) {
        refuse("must validate at least one schema (anyOf)".to_owned());
    }
    if !limits.one_of.is_empty() && limits.one_of.iter().filter(|s| ok(s)).count() != 1 {
        refuse("must validate one and only one schema (oneOf)".to_owned());
    }
    if let Some(not) = &limits.not
        && ok(not)
    {
        refuse("must not validate the schema (not)".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::custom;
    use serde_json::json;

    fn messages(schema: &Value, spec: &Value) -> Vec<String> {
        let schema =
            custom::resource(&json!({"type": "object", "properties": {"spec": schema}})).unwrap();
        validate(&json!({"spec": spec}), &schema)
            .into_iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect()
    }

    #[test]
    fn causes_name_the_field_and_the_problem() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "count": {"type": "integer", "format": "int32", "minimum": 0},
            "port": {"x-kubernetes-int-or-string": true}}});
        assert_eq!(messages(&schema, &json!({})), ["spec.name: Required value"]);
        assert_eq!(
            messages(&schema, &json!({"name": "ab", "mode": "C"})),
            ["spec.mode: Unsupported value: \"C\": supported values: \"A\", \"B\""]
        );
        assert_eq!(
            messages(&schema, &json!({"name": "ab", "count": -1})),
            ["spec.count: Invalid value: -1: should be greater than or equal to 0"]
        );
        assert_eq!(
            messages(&schema, &json!({"name": "ab", "count": "x"})),
            ["spec.count: Invalid value: \"string\": must be of type integer: \"string\""]
        );
        assert_eq!(
            messages(&schema, &json!({"name": "ab", "port": "http"})),
            Vec::<String>::new()
        );
        assert_eq!(
            messages(&schema, &json!({"name": "A1"})),
            ["spec.name: Invalid value: \"A1\": should match '^[a-z]+$'"]
        );
    }
}
