//! Evaluation of the CEL rules of a schema against an object.

use berth_cel::{Failure, OptionalValue};
use serde_json::Value;
use std::sync::Arc;

use super::values::{ItemOrder, convert};
use super::{Refusal, Rule};
use crate::cel::Budget;
use crate::error::Cause;
use crate::schema::{Additional, Schema};

/// Returns the causes for the rules that `value` breaks. `old` is the value that an update replaces.
pub(crate) fn evaluate(value: &Value, old: Option<&Value>, schema: &Schema) -> Vec<Cause> {
    Budget::spend(|budget| {
        let mut run = Run {
            causes: Vec::new(),
            budget,
            exhausted: false,
        };
        run.walk(value, old, schema, "");
        (run.causes, run.exhausted)
    })
}

struct Run {
    causes: Vec<Cause>,
    budget: Budget,
    /// True if the budget is exhausted. Further rules are then skipped.
    exhausted: bool,
}

impl Run {
    fn walk(&mut self, value: &Value, old: Option<&Value>, schema: &Schema, path: &str) {
        if !schema.has_rules || value.is_null() {
            return;
        }
        let old = old.filter(|o| !o.is_null());
        let mut unchanged = None;
        for rule in &schema.rules {
            if self.exhausted {
                return;
            }
            if rule.transition && !rule.optional_old && old.is_none() {
                continue;
            }
            // An unchanged value needs no check, because an update may keep a value that broke a rule before.
            if !rule.transition && *unchanged.get_or_insert_with(|| old == Some(value)) {
                continue;
            }
            self.check(rule, value, old, schema, path);
        }
        match value {
            Value::Object(object) => {
                for (name, property) in schema.properties.iter().filter(|(_, p)| p.has_rules) {
                    if let Some(inner) = object.get(name) {
                        let old = old.and_then(|o| o.get(name));
                        let at = if path.is_empty() {
                            name.clone()
                        } else {
                            format!("{path}.{name}")
                        };
                        self.walk(inner, old, property, &at);
                    }
                }
                if let Additional::Of(of) = &schema.additional
                    && of.has_rules
                {
                    for (name, inner) in object
                        .iter()
                        .filter(|(n, _)| !schema.properties.contains_key(*n))
                    {
                        let old = old.and_then(|o| o.get(name));
                        self.walk(inner, old, of, &format!("{path}[{name}]"));
                    }
                }
            }
            Value::Array(items) => {
                let Some(of) = schema.items.as_ref().filter(|i| i.has_rules) else {
                    return;
                };
                for (i, item) in items.iter().enumerate() {
                    let old = schema.list_type.correlated(item, old);
                    self.walk(item, old, of, &format!("{path}[{i}]"));
                }
            }
            _ => {}
        }
    }

    fn check(
        &mut self,
        rule: &Rule,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
    ) {
        let order = if rule.unordered {
            ItemOrder::Sorted
        } else {
            ItemOrder::Kept
        };
        let variables = || {
            let mut variables = vec![("self", convert(value, Some(schema), order))];
            let old = old.map(|o| convert(o, Some(schema), order));
            if rule.optional_old {
                let optional = old.map_or_else(OptionalValue::none, OptionalValue::of);
                variables.push(("oldSelf", berth_cel::Value::Opaque(Arc::new(optional))));
            } else if let Some(old) = old {
                variables.push(("oldSelf", old));
            }
            variables
        };
        let failed =
            |problem: String| Cause::invalid(path, &Value::from(schema.kind.name()), &problem);
        match rule.expression.run(variables(), &mut self.budget) {
            Ok(berth_cel::Value::Bool(true)) => {}
            Ok(berth_cel::Value::Bool(false)) => {
                let computed = rule
                    .message_expression
                    .as_ref()
                    .and_then(|e| match e.run(variables(), &mut self.budget) {
                        Ok(berth_cel::Value::String(text)) => Some(text.trim().to_owned()),
                        Err(Failure::Exceeded(_)) => {
                            self.exhausted = true;
                            None
                        }
                        _ => None,
                    })
                    .filter(|text| !text.is_empty() && !text.contains('\n'));
                let message = computed.unwrap_or_else(|| match &rule.message {
                    Some(message) => message.trim().to_owned(),
                    None => format!("failed rule: {}", rule.shown()),
                });
                self.causes.push(refusal(rule, value, path, &message));
            }
            Ok(_) => self.causes.push(failed(format!(
                "no such overload evaluating rule: {}",
                rule.shown()
            ))),
            Err(Failure::Exceeded(_)) => {
                self.exhausted = true;
                self.causes.push(failed(format!(
                    "too expensive, further rules are not evaluated: {}",
                    rule.shown()
                )));
            }
            Err(Failure::Error(problem)) => {
                self.causes.push(failed(format!(
                    "{problem} evaluating rule: {}",
                    rule.shown()
                )));
            }
        }
    }
}

fn refusal(rule: &Rule, value: &Value, path: &str, message: &str) -> Cause {
    let field = format!("{path}{}", rule.field_path);
    let field = field.strip_prefix('.').unwrap_or(&field);
    match rule.refusal {
        Refusal::Required => Cause::required(field, message),
        Refusal::Forbidden => Cause::forbidden(field, message),
        Refusal::Duplicate => Cause::duplicate_unshown(field),
        Refusal::Invalid
            if value.is_object() || value.is_array() || !rule.field_path.is_empty() =>
        {
            Cause::invalid_unshown(field, message)
        }
        Refusal::Invalid => Cause::invalid(field, value, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::custom;
    use serde_json::json;

    fn causes(spec: Value, old: Option<Value>, new: Value) -> Vec<String> {
        let schema =
            custom::resource(&json!({"type": "object", "properties": {"spec": spec}})).unwrap();
        let old = old.map(|o| json!({"spec": o}));
        evaluate(&json!({"spec": new}), old.as_ref(), &schema)
            .into_iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect()
    }

    #[test]
    fn causes_have_the_field_reason_and_message_of_the_rule() {
        let spec = json!({"type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"},
                "m": {"type": "object", "additionalProperties": {"type": "integer",
                    "x-kubernetes-validations": [{"rule": "self < 50", "message": "small"}]}}},
            "x-kubernetes-validations": [
                {"rule": "self.a <= self.b"},
                {"rule": "self.b < 100", "message": " b big ", "reason": "FieldValueForbidden", "fieldPath": ".b"},
                {"rule": "self.a != 7", "reason": "FieldValueDuplicate", "fieldPath": ".a"},
                {"rule": "self.a != 5", "messageExpression": "'a is ' + string(self.a)"}]});
        let none: [String; 0] = [];
        assert_eq!(causes(spec.clone(), None, json!({"a": 1, "b": 2})), none);
        assert_eq!(
            causes(spec.clone(), None, json!({"a": 7, "b": 5})),
            [
                "spec: Invalid value: failed rule: self.a <= self.b",
                "spec.a: Duplicate value"
            ]
        );
        assert_eq!(
            causes(
                spec.clone(),
                None,
                json!({"a": 5, "b": 200, "m": {"x/y": 50}})
            ),
            [
                "spec.b: Forbidden: b big",
                "spec: Invalid value: a is 5",
                "spec.m[x/y]: Invalid value: 50: small"
            ]
        );
        assert_eq!(
            causes(spec, None, json!({"b": 5}))[0],
            "spec: Invalid value: \"object\": no such key: a evaluating rule: self.a <= self.b"
        );
    }

    #[test]
    fn transition_rules_compare_items_with_the_same_key() {
        let spec = json!({"type": "object", "properties": {
            "s": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]},
            "n": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "!oldSelf.hasValue() || oldSelf.value() <= self", "optionalOldSelf": true, "message": "no decrease"}]},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "same"}]},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v up"}]}}}});
        let none: [String; 0] = [];
        let first = json!({"s": "x", "n": 3, "set": ["a", "b"], "map": [{"name": "a", "v": 1}, {"name": "b", "v": 5}]});
        assert_eq!(causes(spec.clone(), None, first.clone()), none);
        let same = json!({"s": "x", "n": 4, "set": ["b", "a"], "map": [{"name": "b", "v": 6}, {"name": "a", "v": 1}]});
        assert_eq!(causes(spec.clone(), Some(first.clone()), same), none);
        let worse = json!({"s": "y", "n": 2, "set": ["b"], "map": [{"name": "b", "v": 4}, {"name": "c", "v": 0}]});
        assert_eq!(
            causes(spec, Some(first), worse),
            [
                "spec.map[0]: Invalid value: v up",
                "spec.n: Invalid value: 2: no decrease",
                "spec.s: Invalid value: \"y\": immutable",
                "spec.set: Invalid value: same",
            ]
        );
    }

    /// Checks that `matches` reads patterns in Go's syntax, as it does in the scheduler's expressions.
    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, matching, other) in [
            (r"^\d+$", "123", "١٢٣"),
            (r"^\w+$", "a_1", "é"),
            (r"\bcd", "écd", "abcd"),
            ("^[^[]+$", "a]", "a[b"),
        ] {
            let rule = format!("self.matches(r'{pattern}')");
            let spec = json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
            assert!(causes(spec.clone(), None, json!(matching)).is_empty());
            assert_eq!(causes(spec, None, json!(other)).len(), 1, "{pattern}");
        }
    }

    #[test]
    fn an_update_may_keep_a_value_that_broke_a_rule_before() {
        let spec = json!({"type": "object", "properties": {"a": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 5"}]}, "b": {"type": "integer"}}});
        let none: [String; 0] = [];
        assert_eq!(
            causes(spec.clone(), Some(json!({"a": 1})), json!({"a": 1, "b": 2})),
            none
        );
        assert_eq!(
            causes(spec, Some(json!({"a": 1})), json!({"a": 2})).len(),
            1
        );
    }

    #[test]
    fn the_rules_of_all_items_share_one_budget() {
        let spec = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a == b))"}]}});
        let items = vec![vec![1; 300]; 60];
        let found = causes(spec, None, json!(items));
        assert!(
            found.len() == 1 && found[0].contains("too expensive"),
            "{found:?}"
        );
    }

    #[test]
    fn dates_durations_and_bytes_have_their_types() {
        let spec = json!({"type": "object", "properties": {
            "d": {"type": "string", "format": "duration"}, "t": {"type": "string", "format": "date-time"},
            "b": {"type": "string", "format": "byte"}, "foo-bar": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.d < duration('1h')"}, {"rule": "self.t < timestamp('2030-01-01T00:00:00Z')"},
                {"rule": "size(self.b) == 3"}, {"rule": "self.foo__dash__bar == 1"}]});
        let none: [String; 0] = [];
        let good = json!({"d": "30m", "t": "2025-01-01T00:00:00Z", "b": "YWJj", "foo-bar": 1});
        assert_eq!(causes(spec.clone(), None, good), none);
        let bad = json!({"d": "2h", "t": "2035-01-01T00:00:00Z", "b": "YWJjZA==", "foo-bar": 2});
        assert_eq!(causes(spec, None, bad).len(), 4);
    }
}
