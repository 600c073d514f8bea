//! Validation of the CEL rules of a schema node.

use serde_json::Value;

use super::{Check, Position};
use crate::cel::{Expression, ResultType, escape};
use crate::error::Cause;
use crate::schema::rules::{Refusal, field_path, variables};

impl Check {
    /// Checks the rules without compiling them.
    pub(super) fn rules(&mut self, schema: &Value, path: &str) {
        for (at, rule) in each(schema, path) {
            self.rule(rule, schema, &at);
        }
    }

    /// Compiles rules that passed all other checks.
    pub(super) fn compiled_rules(&mut self, schema: &Value, path: &str, position: &Position) {
        for (at, rule) in each(schema, path) {
            self.compiled_rule(rule, &at, schema, position);
        }
    }

    fn rule(&mut self, rule: &Value, schema: &Value, path: &str) {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let (expression, message) = (text("rule"), text("message"));
        if expression.trim().is_empty() {
            self.require(path, "rule", "rule is not specified");
        } else if message.trim().contains('\n') {
            let detail = "must not contain line breaks";
            self.invalid(path, "message", &rule["message"], detail);
        }
        if let Some(reason) = rule["reason"].as_str() {
            self.one_of(path, "reason", reason, &Refusal::NAMES);
        }
        let field = text("fieldPath");
        if !field.is_empty() && field_path(field, schema).is_none() {
            self.invalid(
                path,
                "fieldPath",
                &rule["fieldPath"],
                "must be a valid path",
            );
        }
    }

    fn compiled_rule(&mut self, rule: &Value, path: &str, schema: &Value, position: &Position) {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let variables = variables(rule);
        let compile =
            |source: &str, result_type| Expression::compile(source, &variables, result_type);
        let at = format!("{path}.rule");
        let mut invalid = |at: &str, value: &Value, detail: &str| {
            self.cel.push(Cause::invalid(at, value, detail));
        };
        let mut uses_old = false;
        match compile(text("rule"), ResultType::Bool) {
            Err(problem) => invalid(&at, &rule["rule"], &problem),
            Ok(expression) => {
                uses_old = expression.mentions("oldSelf");
                let paths = ["self", "oldSelf"].map(|variable| expression.uses().paths(variable));
                let mut unknown = paths.iter().flatten();
                if let Some(name) = unknown.find_map(|path| undefined(path, schema, position.root))
                {
                    invalid(&at, &rule["rule"], &format!("undefined field '{name}'"));
                }
                let message = text("messageExpression");
                if !message.is_empty()
                    && let Err(problem) = compile(message, ResultType::String)
                {
                    let at = format!("{path}.messageExpression");
                    invalid(&at, &rule["messageExpression"], &problem);
                }
            }
        }
        if let (true, Some(above)) = (uses_old, &position.uncorrelated) {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
            );
            invalid(&at, &rule["rule"], &detail);
        } else if !uses_old && !rule["optionalOldSelf"].is_null() {
            let detail = "may not be set if oldSelf is not used in rule";
            let at = format!("{path}.optionalOldSelf");
            invalid(&at, &rule["optionalOldSelf"], detail);
        }
    }
}

/// Returns the rules of a node with their paths.
fn each<'s>(schema: &'s Value, path: &str) -> impl Iterator<Item = (String, &'s Value)> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let rules = rules.map(Vec::as_slice).unwrap_or_default();
    rules
        .iter()
        .enumerate()
        .map(move |(i, rule)| (format!("{path}.x-kubernetes-validations[{i}]"), rule))
}

/// Returns the first step of a path that the schema does not declare; `resource` is true for the root of a resource.
fn undefined<'p>(path: &[&'p str], schema: &Value, resource: bool) -> Option<&'p str> {
    let (name, rest) = path.split_first()?;
    let resource = resource || super::is_true(schema, "x-kubernetes-embedded-resource");
    if resource && ["apiVersion", "kind", "metadata"].contains(name) || schema["type"].is_null() {
        return None;
    }
    if schema["additionalProperties"].is_object() {
        return undefined(rest, &schema["additionalProperties"], false);
    }
    let mut properties = schema["properties"].as_object().into_iter().flatten();
    let found = properties.find(|(plain, _)| escape(plain) == *name || plain == name);
    match found {
        Some((_, property)) => undefined(rest, property, false),
        None => Some(*name),
    }
}
