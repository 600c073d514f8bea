//! Match conditions of webhooks: the expressions of `matchConditions`, with the variables `object`, `oldObject` and
//! `request`.

use std::sync::Arc;

use berth_cel::{Failure, Key, Map, Variable};
use serde_json::Value;

use super::budget::Budget;
use super::expression::{Expression, ResultType};

const VARIABLES: [&str; 3] = ["object", "oldObject", "request"];

/// The values of the variables of a condition. `object` or `oldObject` is null if the request has no such object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionInput<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old_object: &'a Value,
    pub(crate) request: &'a Value,
}

/// A compiled condition.
#[derive(Debug)]
pub(crate) struct Condition(Expression);

impl Condition {
    /// Compiles a condition.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        Expression::compile(source, &VARIABLES.map(Variable::plain), ResultType::Bool).map(Self)
    }

    /// Evaluates the condition. Returns the problem if the evaluation fails.
    pub(crate) fn holds(&self, input: ConditionInput<'_>) -> Result<bool, String> {
        let values = [input.object, input.old_object, input.request];
        let variables = || {
            let variables = VARIABLES.into_iter().zip(values);
            let mentioned = variables.filter(|(name, _)| self.0.program().mentions(name));
            mentioned
                .map(|(name, value)| (name, convert(value)))
                .collect()
        };
        let result = Budget::spend(|mut budget| {
            let result = self.0.run(variables(), &mut budget);
            let is_exhausted = matches!(result, Err(Failure::Exceeded(_)));
            (result, is_exhausted)
        });
        match result {
            Ok(berth_cel::Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("the expression does not evaluate to bool".to_owned()),
            Err(Failure::Exceeded(_)) => Err("the expression is too expensive".to_owned()),
            Err(Failure::Error(problem)) => Err(problem),
        }
    }
}

/// Converts a JSON value, without a schema, to a CEL value.
fn convert(value: &Value) -> berth_cel::Value {
    match value {
        Value::Null => berth_cel::Value::Null,
        Value::Bool(truth) => berth_cel::Value::Bool(*truth),
        Value::Number(number) => number.as_i64().map_or_else(
            || berth_cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            berth_cel::Value::Int,
        ),
        Value::String(text) => berth_cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => {
            berth_cel::Value::List(Arc::new(items.iter().map(convert).collect()))
        }
        Value::Object(object) => {
            let key = |name: &str| Key::String(Arc::new(name.to_owned()));
            let entries = object.iter().map(|(name, of)| (key(name), convert(of)));
            berth_cel::Value::Map(Map {
                map: Arc::new(entries.collect()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_read_the_objects_and_the_request() {
        let object = json!({"metadata": {"namespace": "n", "labels": {"a.b/c": "x"}}, "spec": {"replicas": 3}});
        let request = json!({"operation": "UPDATE", "namespace": "n", "userInfo": {"username": "u", "groups": ["g"]}});
        let input = ConditionInput {
            object: &object,
            old_object: &Value::Null,
            request: &request,
        };
        for (source, expected) in [
            ("object.metadata.namespace == 'n'", Ok(true)),
            ("object.metadata.labels['a.b/c'] == 'x'", Ok(true)),
            (
                "has(object.spec.replicas) && object.spec.replicas > 2",
                Ok(true),
            ),
            ("object.spec.replicas < 2.5", Ok(false)),
            ("!has(object.metadata.annotations)", Ok(true)),
            ("oldObject == null", Ok(true)),
            ("request.operation in ['CREATE', 'UPDATE']", Ok(true)),
            ("request.namespace == 'n'", Ok(true)),
            ("!('system:nodes' in request.userInfo.groups)", Ok(true)),
            ("object.spec.paused", Err("no such key: paused")),
            (
                "object.spec.replicas",
                Err("the expression does not evaluate to bool"),
            ),
        ] {
            let found = Condition::parse(source).unwrap().holds(input);
            assert_eq!(found, expected.map_err(str::to_owned), "{source}");
        }
        for source in ["object.", "'text'", "other == 1", "authorizer.path('/')"] {
            assert!(Condition::parse(source).is_err(), "{source}");
        }
    }
}
