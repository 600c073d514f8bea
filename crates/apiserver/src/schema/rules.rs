//! Validation rules beyond the structural schema: the CEL expressions of `x-kubernetes-validations`.
//!
//! A rule is read once, with the schema it belongs to ([`syntax`]), checked against the types of that schema
//! ([`mod@check`]) and made ready to run ([`expression`]); [`evaluate`] runs the rules of a schema against an object,
//! with [`values`] as what CEL sees of it. [`condition`] is for expressions about a request. Nothing here knows kinds.

mod bounds;
mod check;
mod condition;
mod constants;
mod cost;
pub(crate) mod evaluate;
mod expression;
mod functions;
mod macros;
mod prepare;
mod syntax;
mod types;
mod uses;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

pub(crate) use check::check;
pub(crate) use condition::{About, Condition};
pub(crate) use constants::failing;
pub(crate) use cost::{Sizes, most, most_values};
use expression::Expression;
pub(crate) use syntax::Syntax;
pub(crate) use types::CelType;
use values::escape;

/// What kind of refusal a rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Refusal {
    #[default]
    Invalid,
    Required,
    Duplicate,
    Forbidden,
}

impl Refusal {
    /// The names that CRDs use.
    pub(crate) const NAMES: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];

    fn parse(name: &str) -> Self {
        match name {
            "FieldValueRequired" => Self::Required,
            "FieldValueDuplicate" => Self::Duplicate,
            "FieldValueForbidden" => Self::Forbidden,
            _ => Self::Invalid,
        }
    }
}

/// One rule, ready to be run.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    expression: Arc<Expression>,
    /// The rule as written.
    text: String,
    message: Option<String>,
    message_expression: Option<Arc<Expression>>,
    refusal: Refusal,
    /// Appended to the path of the value; empty if the rule names no field.
    field_path: String,
    /// True if the rule is about a change, and says nothing of new values.
    transition: bool,
    /// `oldSelf` is an optional value, and the rule applies to new values too.
    optional_old: bool,
    /// The only fields of `self` and `oldSelf` that the rule looks at, if that can be told.
    fields: Option<BTreeSet<String>>,
    /// True if lists may be compared regardless of order where the schema says that order means nothing.
    unordered: bool,
}

impl Rule {
    /// What errors call the rule: its message, or else its text.
    fn shown(&self) -> &str {
        self.message.as_deref().unwrap_or(self.text.as_str()).trim()
    }
}

/// The rules of a schema node, `schema` being its JSON, and `resource` whether it is the root of one. Rules that
/// cannot be run are left out: a definition with such a rule is refused before it gets here.
pub(crate) fn compile(schema: &Value, resource: bool) -> Vec<Rule> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let this = rules.and_then(|_| CelType::of(schema, "self", resource));
    let this = this.unwrap_or(CelType::Dyn);
    rules
        .into_iter()
        .flatten()
        .filter_map(|json| {
            let text = json["rule"].as_str()?.to_owned();
            let optional_old = json["optionalOldSelf"] == true;
            let ready = |source: &str| {
                let old = if optional_old {
                    CelType::optional(this.clone())
                } else {
                    this.clone()
                };
                let syntax = Syntax::parse(source).ok()?;
                let special =
                    check(&syntax, &this, &old).map_or_else(|_| BTreeMap::new(), |c| c.special);
                Expression::new(syntax, &special)
            };
            let expression = ready(&text)?;
            let said = |name: &str| {
                json[name]
                    .as_str()
                    .filter(|s| !s.is_empty())
                    .map(str::to_owned)
            };
            let transition = expression.uses().variable("oldSelf");
            Some(Rule {
                transition,
                fields: expression
                    .uses()
                    .fields_of(&["self", "oldSelf"])
                    .filter(|_| !optional_old),
                unordered: transition && !expression.uses().indexes(),
                expression: Arc::new(expression),
                message: said("message"),
                message_expression: said("messageExpression")
                    .and_then(|source| ready(&source))
                    .map(Arc::new),
                refusal: json["reason"]
                    .as_str()
                    .map(Refusal::parse)
                    .unwrap_or_default(),
                field_path: json["fieldPath"]
                    .as_str()
                    .and_then(|path| field_path(path, schema))
                    .unwrap_or_default(),
                optional_old,
                text,
            })
        })
        .collect()
}

/// The `fieldPath` of a rule as it is appended to paths: `.a.b`, with keys of maps in brackets. None if the
/// schema has no such field.
pub(crate) fn field_path(path: &str, schema: &Value) -> Option<String> {
    let (mut rest, mut at, mut out) = (path, schema, String::new());
    while !rest.is_empty() {
        let name = if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']")?;
            rest = &quoted[end + 2..];
            &quoted[..end]
        } else {
            let dotted = rest.strip_prefix('.')?;
            let end = dotted.find(['.', '[']).unwrap_or(dotted.len());
            rest = &dotted[end..];
            &dotted[..end]
        };
        if name.is_empty() {
            return None;
        }
        if let Some(property) = at["properties"].get(name) {
            out.push('.');
            out.push_str(name);
            at = property;
        } else if at["additionalProperties"].is_object() {
            out.push('[');
            out.push_str(name);
            out.push(']');
            at = &at["additionalProperties"];
        } else {
            return None;
        }
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn field_paths_follow_the_schema() {
        let schema = json!({"properties": {"a": {"properties": {"b": {}}}, "m": {"additionalProperties": {}}, "x.y": {}}});
        let cases = [
            (".a.b", Some(".a.b")),
            (".m['k']", Some(".m[k]")),
            ("['x.y']", Some(".x.y")),
            (".a.c", None),
            ("a", None),
            ("", None),
        ];
        for (path, expected) in cases {
            assert_eq!(field_path(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
