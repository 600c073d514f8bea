//! The CEL rules of schemas, in `x-kubernetes-validations`.

pub(crate) mod evaluate;
mod values;

use std::sync::Arc;

use berth_cel::Variable;
use serde_json::Value;

use crate::cel::{Expression, ResultType};

/// The type of the cause for a broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Refusal {
    #[default]
    Invalid,
    Required,
    Duplicate,
    Forbidden,
}

impl Refusal {
    fn parse(name: &str) -> Self {
        match name {
            "FieldValueRequired" => Self::Required,
            "FieldValueDuplicate" => Self::Duplicate,
            "FieldValueForbidden" => Self::Forbidden,
            _ => Self::Invalid,
        }
    }
}

/// A compiled CEL rule.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    expression: Arc<Expression>,
    /// The source text of the expression.
    text: String,
    message: Option<String>,
    message_expression: Option<Arc<Expression>>,
    refusal: Refusal,
    /// The path of the reported field relative to the value, possibly empty.
    field_path: String,
    /// True if the rule uses `oldSelf`, the value before an update.
    transition: bool,
    /// True if `oldSelf` is a CEL optional. The rule then also applies to new values.
    optional_old: bool,
    /// True if sets and keyed lists may be sorted, so that comparisons in the rule ignore the order of items.
    unordered: bool,
}

impl Rule {
    /// Returns the message of the rule, or the text of the expression if the rule has no message.
    fn shown(&self) -> &str {
        self.message.as_deref().unwrap_or(self.text.as_str()).trim()
    }
}

/// Returns the variables of a rule.
pub(crate) fn variables(rule: &Value) -> [Variable; 2] {
    ["self", "oldSelf"].map(|name| Variable {
        name,
        optional: name == "oldSelf" && rule["optionalOldSelf"] == true,
    })
}

/// Compiles the rules of a schema node. A rule that does not compile is skipped, because validation refuses definitions
/// with such a rule.
pub(crate) fn compile(schema: &Value) -> Vec<Rule> {
    let rules = schema["x-kubernetes-validations"].as_array();
    rules
        .into_iter()
        .flatten()
        .filter_map(|json| {
            let text = |name: &str| json[name].as_str().filter(|text| !text.is_empty());
            let variables = variables(json);
            let compile = |source: &str, result_type: ResultType| {
                Expression::compile(source, &variables, result_type)
                    .ok()
                    .map(Arc::new)
            };
            let rule = json["rule"].as_str()?;
            let expression = compile(rule, ResultType::Bool)?;
            let optional_old = json["optionalOldSelf"] == true;
            let program = expression.program();
            let transition = program.mentions("oldSelf");
            Some(Rule {
                transition,
                unordered: transition && !program.indexes(),
                message: text("message").map(str::to_owned),
                message_expression: text("messageExpression")
                    .and_then(|source| compile(source, ResultType::String)),
                refusal: text("reason").map(Refusal::parse).unwrap_or_default(),
                field_path: text("fieldPath")
                    .and_then(|path| field_path(path, schema))
                    .unwrap_or_default(),
                optional_old,
                text: rule.to_owned(),
                expression,
            })
        })
        .collect()
}

/// Converts the `fieldPath` of a rule to a path for causes, such as `.a.b[key]`. Returns `None` if the schema has no
/// such field.
fn field_path(path: &str, schema: &Value) -> Option<String> {
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
