//! The rules of a node: whether each is complete, compiles against the schema and is of use where it is.

use serde_json::{Value, json};

use super::{Check, Place};
use crate::error::Cause;
use crate::schema::rules::{CelType, Refusal, Syntax, check, field_path};

/// What messages call the type of `self`; a kube-apiserver puts a number of the day behind it.
const SELF: &str = "selfType1";
const NO_TYPE: &str = "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";

impl Check {
    /// What can be told of rules without knowing what they mean.
    pub(super) fn rules(&mut self, schema: &Value, path: &str) {
        for (at, rule) in each(schema, path) {
            self.rule(rule, schema, &at);
        }
    }

    /// Compiles rules that are nothing but right so far.
    pub(super) fn compiled_rules(&mut self, schema: &Value, path: &str, place: &Place) {
        if each(schema, path).next().is_none() {
            return;
        }
        let resource = place.root || super::is_true(schema, "x-kubernetes-embedded-resource");
        let Some(this) = CelType::of(schema, SELF, resource) else {
            self.cel.push(Cause {
                field: format!("{path}.x-kubernetes-validations"),
                reason: "InternalError".to_owned(),
                message: NO_TYPE.to_owned(),
            });
            return;
        };
        for (at, rule) in each(schema, path) {
            self.compiled_rule(rule, &at, place, &this);
        }
    }

    fn rule(&mut self, rule: &Value, schema: &Value, path: &str) {
        let said = |name: &str| rule[name].as_str().unwrap_or_default();
        let (text, message) = (said("rule"), said("message"));
        let mut add = |cause: Cause| self.causes.push(cause);
        if text.trim().is_empty() {
            add(Cause::required(
                format!("{path}.rule"),
                "rule is not specified",
            ));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            add(Cause::invalid(
                format!("{path}.message"),
                &json!(message),
                detail,
            ));
        } else if message.trim().contains('\n') {
            let detail = "must not contain line breaks";
            add(Cause::invalid(
                format!("{path}.message"),
                &json!(message),
                detail,
            ));
        } else if text.trim().contains('\n') && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            add(Cause::required(format!("{path}.message"), detail));
        }
        let expression = said("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            add(Cause::required(format!("{path}.messageExpression"), detail));
        }
        if let Some(reason) = rule["reason"].as_str()
            && !Refusal::NAMES.contains(&reason)
        {
            let allowed = Refusal::NAMES.map(str::to_owned);
            add(Cause::not_supported(
                format!("{path}.reason"),
                &json!(reason),
                &allowed,
            ));
        }
        let field = said("fieldPath");
        for (wrong, detail) in [
            (
                !field.is_empty() && field.trim().is_empty(),
                "must be non-empty if specified",
            ),
            (field.contains('\n'), "must not contain line breaks"),
        ] {
            if wrong {
                add(Cause::invalid(
                    format!("{path}.fieldPath"),
                    &json!(field),
                    detail,
                ));
            }
        }
        if !field.is_empty() && field_path(field, schema).is_none() {
            add(Cause::invalid(
                format!("{path}.fieldPath"),
                &json!(field),
                "must be a valid path",
            ));
        }
    }

    fn compiled_rule(&mut self, rule: &Value, path: &str, place: &Place, this: &CelType<'_>) {
        let optional = rule["optionalOldSelf"] == true;
        let old = if optional {
            CelType::optional(this.clone())
        } else {
            this.clone()
        };
        let text = rule["rule"].as_str().unwrap_or_default();
        let mut add = |cause: Cause| self.cel.push(cause);
        let at = format!("{path}.rule");
        let mut uses_old = false;
        match Syntax::parse(text).and_then(|syntax| {
            let gives = check(&syntax, this, &old)?.gives;
            Ok((syntax, gives))
        }) {
            Err(problem) => {
                let detail = format!("compilation failed: {problem}");
                add(Cause::invalid_as(&at, &as_go(rule), &detail));
            }
            Ok((_, gives)) if !matches!(gives, CelType::Bool) => {
                let detail = "cel expression must evaluate to a bool";
                add(Cause::invalid_as(&at, &as_go(rule), detail));
            }
            Ok((syntax, _)) => {
                uses_old = syntax.mentions("oldSelf");
                if let Some(source) = rule["messageExpression"].as_str().filter(|e| !e.is_empty())
                    && let Some(detail) = message_problem(source, this, &old)
                {
                    let at = format!("{path}.messageExpression");
                    add(Cause::invalid_as(at, &as_go(rule), &detail));
                }
            }
        }
        if let (true, Some(above)) = (uses_old, &place.uncorrelated) {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
            );
            add(Cause::invalid(at, &json!(text), &detail));
        } else if !uses_old && !rule["optionalOldSelf"].is_null() {
            let detail = "may not be set if oldSelf is not used in rule";
            let at = format!("{path}.optionalOldSelf");
            add(Cause::invalid(at, &rule["optionalOldSelf"], detail));
        }
    }
}

/// The rules of a node, with their places.
fn each<'s>(schema: &'s Value, path: &str) -> impl Iterator<Item = (String, &'s Value)> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let rules = rules.map(Vec::as_slice).unwrap_or_default();
    rules
        .iter()
        .enumerate()
        .map(move |(i, rule)| (format!("{path}.x-kubernetes-validations[{i}]"), rule))
}

/// What is wrong with the expression of a message.
fn message_problem(source: &str, this: &CelType<'_>, old: &CelType<'_>) -> Option<String> {
    let gives = Syntax::parse(source).and_then(|syntax| Ok(check(&syntax, this, old)?.gives));
    match gives {
        Err(problem) => Some(format!("messageExpression compilation failed: {problem}")),
        Ok(CelType::String) => None,
        Ok(_) => Some("messageExpression must evaluate to a string".to_owned()),
    }
}

/// A rule as the real server shows it: with the names of its Go fields.
fn as_go(rule: &Value) -> String {
    let text = |name: &str| json!(rule[name].as_str().unwrap_or_default());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        rule["reason"],
        text("fieldPath"),
        rule["optionalOldSelf"],
    )
    .replace('<', "\\u003c")
    .replace('>', "\\u003e")
    .replace('&', "\\u0026")
}
