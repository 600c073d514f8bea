//! Validation of the schemas of CustomResourceDefinitions. The server must be able to apply the schemas, and their CEL
//! rules must compile. The validation reads the original JSON, so that causes name its fields.

use berth_apimachinery::go_regex;
use serde_json::{Value, json};

use super::rules::variables;
use super::{custom, normalize, validate};
use crate::cel::{Expression, ResultType};
use crate::error::Cause;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Schema keywords that the server cannot apply.
const UNSUPPORTED: [&str; 7] = [
    "$ref",
    "additionalItems",
    "definitions",
    "dependencies",
    "id",
    "patternProperties",
    "uniqueItems",
];

/// Returns the causes for which the schema of a version is refused. `path` is the path of the schema in its definition.
pub(crate) fn problems(schema: &Value, path: &str) -> Vec<Cause> {
    let mut check = Check::default();
    match schema["type"].as_str() {
        Some("object") => {}
        Some("") | None => check.require(path, "type", "must not be empty at the root"),
        Some(other) => check.invalid(path, "type", &json!(other), "must be object at the root"),
    }
    check.node(schema, path, true);
    check.causes
}

#[derive(Default)]
struct Check {
    causes: Vec<Cause>,
}

impl Check {
    fn forbid(&mut self, path: &str, keyword: &str, detail: &str) {
        let cause = Cause::forbidden(format!("{path}.{keyword}"), detail);
        self.causes.push(cause);
    }

    fn require(&mut self, path: &str, keyword: &str, detail: &str) {
        let cause = Cause::required(format!("{path}.{keyword}"), detail);
        self.causes.push(cause);
    }

    fn invalid(&mut self, path: &str, keyword: &str, value: &Value, detail: &str) {
        let cause = Cause::invalid(format!("{path}.{keyword}"), value, detail);
        self.causes.push(cause);
    }

    fn node(&mut self, schema: &Value, path: &str, root: bool) {
        let before = self.causes.len();
        for keyword in UNSUPPORTED {
            if !schema[keyword].is_null() && schema[keyword] != false {
                self.forbid(path, keyword, &format!("{keyword} is not supported"));
            }
        }
        self.kind(schema, path, root);
        self.children(schema, path);
        self.patterns(schema, path);
        if schema["x-kubernetes-list-type"] == "map" {
            self.map_keys(schema, path);
        }
        if self.causes.len() == before {
            self.default_value(schema, path);
            self.rules(schema, path);
        }
    }

    /// Checks the type of a node. [`problems`] checks that the root has the type `object`.
    fn kind(&mut self, schema: &Value, path: &str, root: bool) {
        let kind = schema["type"].as_str().unwrap_or_default();
        let open = [
            "x-kubernetes-int-or-string",
            "x-kubernetes-preserve-unknown-fields",
        ];
        if kind.is_empty() && !root && !open.iter().any(|keyword| schema[keyword] == true) {
            self.require(path, "type", "must not be empty for fields and items");
        } else if !kind.is_empty() && !TYPES.contains(&kind) {
            let path = format!("{path}.type");
            let allowed = TYPES.map(str::to_owned);
            self.causes
                .push(Cause::not_supported(path, &json!(kind), &allowed));
        }
    }

    fn children(&mut self, schema: &Value, path: &str) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.node(property, &format!("{path}.properties[{name}]"), false);
        }
        let values = &schema["additionalProperties"];
        if values.is_object() {
            self.node(values, &format!("{path}.additionalProperties"), false);
        }
        match &schema["items"] {
            Value::Array(_) => self.forbid(path, "items", "must be a schema object, not an array"),
            Value::Object(_) => self.node(&schema["items"], &format!("{path}.items"), false),
            _ if schema["type"] == "array" => self.require(path, "items", "must be specified"),
            _ => {}
        }
    }

    /// Checks the pattern of a node, and the patterns in its `allOf`, `anyOf`, `oneOf` and `not`.
    fn patterns(&mut self, schema: &Value, path: &str) {
        if let Some(pattern) = schema["pattern"].as_str()
            && let Err(error) = go_regex::compile(pattern)
        {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.invalid(path, "pattern", &schema["pattern"], &detail);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (i, branch) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                self.patterns(branch, &format!("{path}.{keyword}[{i}]"));
            }
        }
        if schema["not"].is_object() {
            self.patterns(&schema["not"], &format!("{path}.not"));
        }
    }

    /// Checks the keys that identify the items of a list.
    fn map_keys(&mut self, schema: &Value, path: &str) {
        let keyword = "x-kubernetes-list-map-keys";
        let items = &schema["items"];
        let keys = schema[keyword].as_array().map_or(&[][..], Vec::as_slice);
        let is_property = |key: &Value| {
            let name = key.as_str().unwrap_or_default();
            !items["properties"][name].is_null()
        };
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.require(path, keyword, detail);
        } else if !keys.iter().all(is_property) {
            let detail = "entries must all be names of item properties";
            self.invalid(path, keyword, &json!(keys), detail);
        }
    }

    /// Checks that the default of a node is valid and has no unknown fields.
    fn default_value(&mut self, schema: &Value, path: &str) {
        let Some(default) = schema.get("default").filter(|d| !d.is_null()) else {
            return;
        };
        let Some(compiled) = custom::part(schema) else {
            return;
        };
        let (mut pruned, mut unknown) = (default.clone(), Vec::new());
        normalize::prune(&mut pruned, &compiled, &mut String::new(), &mut unknown);
        if !unknown.is_empty() {
            return self.invalid(path, "default", default, "must not have unknown fields");
        }
        for mut cause in validate::validate(default, &compiled) {
            let inner = if cause.field.is_empty() { "" } else { "." };
            cause.field = format!("{path}.default{inner}{}", cause.field);
            self.causes.push(cause);
        }
    }

    /// Checks that the CEL rules of a node compile.
    fn rules(&mut self, schema: &Value, path: &str) {
        let rules = schema["x-kubernetes-validations"].as_array();
        for (i, rule) in rules.into_iter().flatten().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{i}]");
            let text = |name: &str| rule[name].as_str().unwrap_or_default().trim();
            if text("rule").is_empty() {
                self.require(&path, "rule", "rule is not specified");
            }
            for (name, result) in [
                ("rule", ResultType::Bool),
                ("messageExpression", ResultType::String),
            ] {
                if !text(name).is_empty()
                    && let Err(problem) = Expression::compile(text(name), &variables(rule), result)
                {
                    self.invalid(&path, name, &rule[name], &problem);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spec: Value) -> Vec<String> {
        problems(
            &json!({"type": "object", "properties": {"spec": spec}}),
            "schema",
        )
        .into_iter()
        .map(|c| {
            format!(
                "{}: {}",
                c.field.trim_start_matches("schema.properties[spec]"),
                c.message
            )
        })
        .collect()
    }

    #[test]
    fn schemas_that_the_server_cannot_apply_are_refused() {
        let of = |a: Value| json!({"type": "object", "properties": {"a": a}});
        let cases = [
            (json!({"type": "string"}), ""),
            (
                json!({}),
                ".properties[a].type: Required value: must not be empty for fields and items",
            ),
            (
                json!({"type": "string", "$ref": "#/x"}),
                ".properties[a].$ref: Forbidden: $ref is not supported",
            ),
            (
                json!({"type": "array"}),
                ".properties[a].items: Required value: must be specified",
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
                "",
            ),
            (
                json!({"type": "integer", "minimum": 3, "default": 1}),
                ".properties[a].default: Invalid value: 1: should be greater than or equal to 3",
            ),
            (
                json!({"type": "object", "properties": {"c": {"type": "string"}}, "default": {"d": 1}}),
                ".properties[a].default: Invalid value: {\"d\":1}: must not have unknown fields",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
                ".properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ),
            (
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
                "",
            ),
        ];
        for (schema, expected) in cases {
            assert_eq!(refused(of(schema.clone())).concat(), expected, "{schema}");
        }
    }

    #[test]
    fn rules_must_compile() {
        let with = |rule: Value| {
            refused(
                json!({"type": "object", "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": [rule]}),
            )
        };
        assert_eq!(with(json!({"rule": "self.a > 1"})), Vec::<String>::new());
        for wrong in ["self.a >", "nofn(self.a)", "1 + self.a"] {
            let found = with(json!({"rule": wrong}));
            let at = ".x-kubernetes-validations[0].rule: Invalid value";
            assert!(found.len() == 1 && found[0].starts_with(at), "{found:?}");
        }
        assert_eq!(
            with(json!({"rule": ""})),
            [".x-kubernetes-validations[0].rule: Required value: rule is not specified"]
        );
    }
}
