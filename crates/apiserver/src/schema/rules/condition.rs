//! Conditions on a request: the CEL expressions of `matchConditions`, about `object`, `oldObject` and `request`.

use kube_cel::cel;
use serde_json::Value;

use super::check::check_with;
use super::constants::failing;
use super::expression::{Expression, Failure};
use super::syntax::Syntax;
use super::types::CelType;
use super::values::{How, convert};

const VARIABLES: [&str; 3] = ["object", "oldObject", "request"];

/// The values of the variables. Null where the request has no such object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old_object: &'a Value,
    pub(crate) request: &'a Value,
}

/// A condition, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Condition(Expression);

impl Condition {
    /// Compiles `source`, or returns what is wrong with it in the words of the CEL compiler.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let compilation = |problem: String| format!("compilation failed: {problem}");
        let syntax = Syntax::parse(source).map_err(compilation)?;
        let checked = check_with(&syntax, &VARIABLES.map(|name| (name, &CelType::Dyn)))
            .map_err(compilation)?;
        if !matches!(checked.gives, CelType::Bool | CelType::Dyn) {
            return Err("must evaluate to bool".to_owned());
        }
        let special = checked.special;
        if let Some(problem) = failing(&syntax) {
            return Err(format!("program instantiation failed: {problem}"));
        }
        let expression = Expression::new(syntax, &special);
        let unknown = || "compilation failed: it calls a function that is not there".to_owned();
        expression.map(Self).ok_or_else(unknown)
    }

    /// Evaluates the condition.
    pub(crate) fn holds(&self, about: About<'_>) -> Result<bool, String> {
        let values = [about.object, about.old_object, about.request];
        let uses = self.0.uses();
        let variables = VARIABLES
            .into_iter()
            .zip(values)
            .filter(|(name, _)| uses.variable(name))
            .map(|(name, value)| (name, convert(value, None, How::default())))
            .collect();
        match self.0.run(variables) {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("the expression does not evaluate to bool".to_owned()),
            Err(Failure::Budget) => Err("the expression takes too many steps".to_owned()),
            Err(Failure::Other(problem)) => Err(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_see_the_request() {
        let object = json!({"metadata": {"namespace": "n", "labels": {"a.b/c": "x"}}, "spec": {"replicas": 3}});
        let request = json!({"operation": "UPDATE", "namespace": "n", "userInfo": {"username": "u", "groups": ["g"]}});
        let about = About {
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
            let found = Condition::parse(source).unwrap().holds(about);
            assert_eq!(found, expected.map_err(str::to_owned), "{source}");
        }
        for source in [
            "object.",
            "'text'",
            "other == 1",
            "authorizer.path('/')",
            "1 + true",
        ] {
            assert!(Condition::parse(source).is_err(), "{source}");
        }
    }
}
