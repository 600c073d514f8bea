//! The rules of a node: whether each is complete, compiles against the schema and is of use where it is.

use serde_json::{Value, json};

use super::{Check, Place};
use crate::error::Cause;
use crate::schema::rules::{
    CelType, Refusal, Sizes, Syntax, check, failing, field_path, most, most_values,
};

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
        let context = Context {
            place,
            this,
            sizes: Sizes::new(schema, resource),
            // As often as fits into a request, if nothing else bounds it.
            often: place.often.unwrap_or_else(|| most_values(schema, resource)),
        };
        for (at, rule) in each(schema, path) {
            self.compiled_rule(rule, &at, &context);
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

    fn compiled_rule(&mut self, rule: &Value, path: &str, context: &Context<'_>) {
        let text = rule["rule"].as_str().unwrap_or_default();
        let at = format!("{path}.rule");
        let old = context.old(rule);
        let wrong = |detail: &str| Cause::invalid_as(&at, &as_go(rule), detail);
        let mut uses_old = false;
        match context.compiled(text, &old) {
            Err(problem) => self
                .cel
                .push(wrong(&format!("compilation failed: {problem}"))),
            Ok(compiled) if !matches!(compiled.gives, CelType::Bool) => {
                self.cel
                    .push(wrong("cel expression must evaluate to a bool"));
            }
            Ok(Compiled {
                fails: Some(problem),
                ..
            }) => self
                .cel
                .push(wrong(&format!("program instantiation failed: {problem}"))),
            Ok(compiled) => {
                uses_old = compiled.uses_old;
                let cost = compiled.cost.saturating_mul(context.often);
                self.budget.spend(&at, "rule", cost);
                self.message(rule, path, context);
            }
        }
        if let (true, Some(above)) = (uses_old, &context.place.uncorrelated) {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
            );
            self.cel.push(Cause::invalid(at, &json!(text), &detail));
        } else if !uses_old && !rule["optionalOldSelf"].is_null() {
            let detail = "may not be set if oldSelf is not used in rule";
            let at = format!("{path}.optionalOldSelf");
            self.cel
                .push(Cause::invalid(at, &rule["optionalOldSelf"], detail));
        }
    }

    /// The expression of a message, if there is one.
    fn message(&mut self, rule: &Value, path: &str, context: &Context<'_>) {
        let source = rule["messageExpression"].as_str().unwrap_or_default();
        if source.is_empty() {
            return;
        }
        let at = format!("{path}.messageExpression");
        let detail = match context.compiled(source, &context.old(rule)) {
            Err(problem) => format!("messageExpression compilation failed: {problem}"),
            Ok(compiled) if !matches!(compiled.gives, CelType::String) => {
                "messageExpression must evaluate to a string".to_owned()
            }
            Ok(Compiled {
                fails: Some(problem),
                ..
            }) => format!("messageExpression instantiation failed: {problem}"),
            Ok(compiled) => {
                self.budget.spend(&at, "messageExpression", compiled.cost);
                return;
            }
        };
        self.cel.push(Cause::invalid_as(at, &as_go(rule), &detail));
    }
}

/// What the rules of a node are about.
struct Context<'s> {
    place: &'s Place,
    this: CelType<'s>,
    sizes: Sizes<'s>,
    often: u64,
}

/// An expression that compiles.
struct Compiled<'s> {
    gives: CelType<'s>,
    cost: u64,
    uses_old: bool,
    /// Why it cannot be made ready to run, if so.
    fails: Option<String>,
}

impl<'s> Context<'s> {
    /// The type of what a rule calls `oldSelf`.
    fn old(&self, rule: &Value) -> CelType<'s> {
        let this = self.this.clone();
        if rule["optionalOldSelf"] == true {
            CelType::optional(this)
        } else {
            this
        }
    }

    fn compiled(&self, source: &str, old: &CelType<'s>) -> Result<Compiled<'s>, String> {
        let syntax = Syntax::parse(source)?;
        let checked = check(&syntax, &self.this, old)?;
        Ok(Compiled {
            cost: most(&syntax, &checked, &self.sizes),
            uses_old: syntax.mentions("oldSelf"),
            fails: failing(&syntax),
            gives: checked.gives,
        })
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
