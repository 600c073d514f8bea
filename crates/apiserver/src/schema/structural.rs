//! Whether the schema of a definition is one a server can work with: structural, with defaults that fit and
//! rules that compile. Works on the JSON as written, so that refusals name the place in it.

use serde_json::{Value, json};

use super::rules::expression::{Expression, located};
use super::rules::{Refusal, escape, field_path};
use super::{compile, shape, validate};
use crate::error::Cause;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Everything wrong with the schema of a version, which is at `path`.
pub(crate) fn problems(schema: &Value, path: &str) -> Vec<Cause> {
    let mut check = Check { causes: Vec::new() };
    match schema["type"].as_str() {
        Some("object") => {}
        Some(other) if TYPES.contains(&other) => {
            let detail = "must be object at the root";
            check.causes.push(Cause::invalid(
                format!("{path}.type"),
                &json!(other),
                detail,
            ));
        }
        _ => {}
    }
    check.node(schema, path, &Place::root());
    if schema["type"].as_str().is_none_or(str::is_empty) {
        check.causes.push(Cause::required(
            format!("{path}.type"),
            "must not be empty at the root",
        ));
    }
    check.causes
}

/// Where in a schema a node is, as far as it matters for what it may say.
#[derive(Clone)]
struct Place {
    root: bool,
    /// Within `allOf`, `anyOf`, `oneOf` or `not`: only values are judged there.
    junction: bool,
    /// The list or map above whose items cannot be told apart across updates.
    uncorrelated: Option<String>,
}

impl Place {
    fn root() -> Self {
        Self {
            root: true,
            junction: false,
            uncorrelated: None,
        }
    }

    fn below(&self) -> Self {
        Self {
            root: false,
            ..self.clone()
        }
    }
}

struct Check {
    causes: Vec<Cause>,
}

fn is_true(schema: &Value, keyword: &str) -> bool {
    schema[keyword] == true
}

fn has(schema: &Value, keyword: &str) -> bool {
    !schema[keyword].is_null()
}

impl Check {
    fn forbid(&mut self, path: &str, keyword: &str, detail: &str) {
        self.causes
            .push(Cause::forbidden(format!("{path}.{keyword}"), detail));
    }

    fn node(&mut self, schema: &Value, path: &str, place: &Place) {
        if has(schema, "$ref") {
            self.forbid(path, "$ref", "$ref is not supported");
            return;
        }
        self.children(schema, path, place);
        if place.junction {
            self.only_values(schema, path);
        } else {
            self.shape(schema, path, place);
            self.extensions(schema, path);
            self.default(schema, path);
        }
        self.keywords(schema, path);
        self.rules(schema, path, place);
    }

    fn children(&mut self, schema: &Value, path: &str, place: &Place) {
        let has_properties = schema["properties"]
            .as_object()
            .is_some_and(|p| !p.is_empty());
        if has_properties && schema["additionalProperties"].is_object() {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.forbid(path, "additionalProperties", detail);
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{path}.properties[{name}]");
            if name == "metadata"
                && !place.junction
                && (place.root || is_true(schema, "x-kubernetes-embedded-resource"))
            {
                self.metadata(property, &at);
            } else {
                self.node(property, &at, &place.below());
            }
        }
        if schema["additionalProperties"].is_object() {
            let at = format!("{path}.additionalProperties");
            self.node(&schema["additionalProperties"], &at, &place.below());
        }
        let is_map_list = schema["x-kubernetes-list-type"] == "map";
        let items = Place {
            uncorrelated: place
                .uncorrelated
                .clone()
                .or_else(|| (!is_map_list).then(|| path.to_owned())),
            ..place.below()
        };
        match &schema["items"] {
            Value::Array(_) => self.forbid(
                path,
                "items",
                "items must be a schema object and not an array",
            ),
            Value::Object(_) => self.node(&schema["items"], &format!("{path}.items"), &items),
            _ if schema["type"] == "array" && !place.junction => {
                self.causes.push(Cause::required(
                    format!("{path}.items"),
                    "must be specified",
                ));
            }
            _ => {}
        }
        let junction = Place {
            junction: true,
            ..place.below()
        };
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (i, branch) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                // This one shape says int-or-string in older words.
                if is_true(schema, "x-kubernetes-int-or-string") && has(branch, "type") {
                    continue;
                }
                self.node(branch, &format!("{path}.{keyword}[{i}]"), &junction);
            }
        }
        if schema["not"].is_object() {
            self.node(&schema["not"], &format!("{path}.not"), &junction);
        }
    }

    fn metadata(&mut self, schema: &Value, path: &str) {
        if schema["type"] != "object" {
            let at = format!("{path}.type");
            self.causes
                .push(Cause::invalid(at, &schema["type"], "must be object"));
            return;
        }
        let known = schema
            .as_object()
            .into_iter()
            .flatten()
            .all(|(keyword, value)| match keyword.as_str() {
                "type" => true,
                "properties" => value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .all(|(k, _)| k == "name" || k == "generateName"),
                _ => false,
            });
        if !known {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.causes.push(Cause::forbidden(path, detail));
        }
    }

    fn only_values(&mut self, schema: &Value, path: &str) {
        if is_true(schema, "additionalProperties") || schema["additionalProperties"].is_object() {
            self.forbid(
                path,
                "additionalProperties",
                "must be undefined to be structural",
            );
        }
        if has(schema, "default") {
            self.forbid(path, "default", "must be undefined to be structural");
        }
        for keyword in ["description", "title", "type"] {
            if has(schema, keyword) {
                self.forbid(path, keyword, "must be empty to be structural");
            }
        }
        if is_true(schema, "nullable") {
            self.forbid(path, "nullable", "must be false to be structural");
        }
        for keyword in [
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ] {
            if is_true(schema, keyword) {
                self.forbid(path, keyword, "must be false to be structural");
            }
        }
    }

    fn shape(&mut self, schema: &Value, path: &str, place: &Place) {
        let kind = schema["type"].as_str().unwrap_or_default();
        let open = is_true(schema, "x-kubernetes-int-or-string")
            || is_true(schema, "x-kubernetes-preserve-unknown-fields");
        if kind.is_empty() {
            if !place.root && !open {
                let detail = if path.rsplit('.').next() == Some("items") {
                    "must not be empty for specified array items"
                } else {
                    "must not be empty for specified object fields"
                };
                self.causes
                    .push(Cause::required(format!("{path}.type"), detail));
            }
        } else if !TYPES.contains(&kind) {
            let allowed = TYPES.map(str::to_owned);
            self.causes.push(Cause::not_supported(
                format!("{path}.type"),
                &json!(kind),
                &allowed,
            ));
        }
    }

    fn keywords(&mut self, schema: &Value, path: &str) {
        if let Some(pattern) = schema["pattern"].as_str()
            && let Err(error) = regex::Regex::new(pattern)
        {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.causes.push(Cause::invalid(
                format!("{path}.pattern"),
                &json!(pattern),
                &detail,
            ));
        }
        if is_true(schema, "uniqueItems") {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path, "uniqueItems", detail);
        }
    }

    fn extensions(&mut self, schema: &Value, path: &str) {
        let kind = &schema["type"];
        if is_true(schema, "x-kubernetes-embedded-resource") {
            let empty = schema["properties"]
                .as_object()
                .is_none_or(serde_json::Map::is_empty);
            if empty && !is_true(schema, "x-kubernetes-preserve-unknown-fields") {
                let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
                self.causes
                    .push(Cause::required(format!("{path}.properties"), detail));
            }
            if kind != "object" {
                let detail = "must be object if x-kubernetes-embedded-resource is true";
                self.causes
                    .push(Cause::invalid(format!("{path}.type"), kind, detail));
            }
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            let at = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.causes.push(Cause::invalid(
                at,
                &json!(false),
                "must be true or undefined",
            ));
        }
        if let Some(map_type) = schema["x-kubernetes-map-type"].as_str()
            && !matches!(map_type, "atomic" | "granular")
        {
            let allowed = ["atomic", "granular"].map(str::to_owned);
            let at = format!("{path}.x-kubernetes-map-type");
            self.causes
                .push(Cause::not_supported(at, &json!(map_type), &allowed));
        }
        if let Some(list_type) = schema["x-kubernetes-list-type"].as_str() {
            self.list_type(schema, path, list_type);
        }
    }

    fn list_type(&mut self, schema: &Value, path: &str, list_type: &str) {
        if schema["type"] != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            self.causes.push(Cause::invalid(
                format!("{path}.type"),
                &schema["type"],
                detail,
            ));
            return;
        }
        let items = &schema["items"];
        match list_type {
            "atomic" => {}
            "set" => {
                if items["type"] == "object" && items["x-kubernetes-map-type"] != "atomic" {
                    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
                    let at = format!("{path}.items.x-kubernetes-map-type");
                    self.causes
                        .push(Cause::invalid(at, &items["x-kubernetes-map-type"], detail));
                }
            }
            "map" => {
                let at = format!("{path}.x-kubernetes-list-map-keys");
                let keys = schema["x-kubernetes-list-map-keys"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                if keys.is_empty() {
                    self.causes.push(Cause::required(
                        at,
                        "must not be empty if x-kubernetes-list-type is map",
                    ));
                    return;
                }
                let property = |key: &Value| key.as_str().and_then(|k| items["properties"].get(k));
                if keys.iter().any(|k| property(k).is_none()) {
                    let detail = "entries must all be names of item properties";
                    self.causes.push(Cause::invalid(at, &json!(keys), detail));
                    return;
                }
                for key in keys {
                    let name = key.as_str().unwrap_or_default();
                    let required = items["required"]
                        .as_array()
                        .is_some_and(|r| r.contains(key));
                    if !required && property(key).is_some_and(|p| !has(p, "default")) {
                        let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                        self.causes.push(Cause::required(
                            format!("{path}.items.properties[{name}].default"),
                            detail,
                        ));
                    }
                }
            }
            other => {
                let allowed = ["atomic", "set", "map"].map(str::to_owned);
                let at = format!("{path}.x-kubernetes-list-type");
                self.causes
                    .push(Cause::not_supported(at, &json!(other), &allowed));
            }
        }
    }

    fn default(&mut self, schema: &Value, path: &str) {
        let Some(default) = schema.get("default").filter(|d| !d.is_null()) else {
            return;
        };
        let Ok(compiled) = compile::node(schema) else {
            return;
        };
        let at = format!("{path}.default");
        let (mut pruned, mut unknown) = (default.clone(), Vec::new());
        shape::prune(&mut pruned, &compiled, &mut String::new(), &mut unknown);
        if !unknown.is_empty() {
            self.causes
                .push(Cause::invalid(at, default, "must not have unknown fields"));
            return;
        }
        for mut cause in validate::validate(default, &compiled) {
            cause.message = cause.message.replace("<nil> in body", " in body");
            cause.field = if cause.field.is_empty() {
                at.clone()
            } else {
                format!("{at}.{}", cause.field)
            };
            self.causes.push(cause);
        }
    }

    fn rules(&mut self, schema: &Value, path: &str, place: &Place) {
        for (i, rule) in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            self.rule(
                rule,
                schema,
                &format!("{path}.x-kubernetes-validations[{i}]"),
                place,
            );
        }
    }

    fn not_compiled(&mut self, rule: &Value, path: &str, problem: &str) {
        let detail = format!("compilation failed: {problem}");
        self.causes.push(Cause::invalid_as(
            format!("{path}.rule"),
            &as_go(rule),
            &detail,
        ));
    }

    fn rule(&mut self, rule: &Value, schema: &Value, path: &str, place: &Place) {
        let text = rule["rule"].as_str().unwrap_or_default();
        let message = rule["message"].as_str().unwrap_or_default();
        if text.trim().is_empty() {
            self.causes.push(Cause::required(
                format!("{path}.rule"),
                "rule is not specified",
            ));
            return;
        }
        if message.contains('\n') {
            self.causes.push(Cause::invalid(
                format!("{path}.message"),
                &json!(message),
                "must not contain line breaks",
            ));
        }
        if text.trim().contains('\n') && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            self.causes
                .push(Cause::required(format!("{path}.message"), detail));
        }
        if let Some(reason) = rule["reason"].as_str()
            && !Refusal::NAMES.contains(&reason)
        {
            let allowed = Refusal::NAMES.map(str::to_owned);
            self.causes.push(Cause::not_supported(
                format!("{path}.reason"),
                &json!(reason),
                &allowed,
            ));
        }
        if let Some(field) = rule["fieldPath"].as_str().filter(|f| !f.is_empty())
            && field_path(field, schema).is_none()
        {
            self.causes.push(Cause::invalid(
                format!("{path}.fieldPath"),
                &json!(field),
                "must be a valid path",
            ));
        }
        match Expression::parse(text) {
            Err(problem) => self.not_compiled(rule, path, &problem),
            Ok(expression) => {
                if expression.mentions("oldSelf")
                    && let Some(above) = &place.uncorrelated
                {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
                    );
                    self.causes.push(Cause::invalid(
                        format!("{path}.rule"),
                        &json!(text),
                        &detail,
                    ));
                }
                if let Some(problem) = undefined(&expression, text, schema, place.root) {
                    self.not_compiled(rule, path, &problem);
                } else if let Some(chain) = expression.value_chain()
                    && typed(&chain, schema).is_some_and(|t| t != "boolean")
                {
                    let detail = "cel expression must evaluate to a bool";
                    self.causes.push(Cause::invalid_as(
                        format!("{path}.rule"),
                        &as_go(rule),
                        detail,
                    ));
                }
            }
        }
        if let Some(source) = rule["messageExpression"].as_str().filter(|e| !e.is_empty())
            && let Err(problem) = Expression::parse(source)
        {
            let detail = format!("messageExpression compilation failed: {problem}");
            self.causes.push(Cause::invalid_as(
                format!("{path}.messageExpression"),
                &as_go(rule),
                &detail,
            ));
        }
    }
}

/// The type of the field that a chain selects, if it is a declared one.
fn typed<'a>(chain: &[String], schema: &'a Value) -> Option<&'a str> {
    let mut at = schema;
    for name in chain {
        let properties = at["properties"].as_object()?;
        at = properties.iter().find(|(n, _)| escape(n) == *name)?.1;
    }
    at["type"].as_str()
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

/// The first field of `self` that the schema does not have.
fn undefined(expression: &Expression, text: &str, schema: &Value, root: bool) -> Option<String> {
    for chain in expression.chains() {
        let mut at = schema;
        for (depth, name) in chain.iter().enumerate() {
            if at["additionalProperties"].is_object() {
                at = &at["additionalProperties"];
                continue;
            }
            if root && depth == 0 && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                break;
            }
            let properties = at["properties"].as_object();
            let found = properties.and_then(|p| p.iter().find(|(n, _)| escape(n) == *name));
            if let Some((_, property)) = found {
                at = property;
                continue;
            }
            if is_true(at, "x-kubernetes-embedded-resource")
                || is_true(at, "x-kubernetes-int-or-string")
            {
                break;
            }
            let problem = match at["type"].as_str() {
                Some("object") => format!("undefined field '{name}'"),
                Some("integer") => "type 'int' does not support field selection".to_owned(),
                Some("boolean") => "type 'bool' does not support field selection".to_owned(),
                Some("number") => "type 'double' does not support field selection".to_owned(),
                Some("string") if !has(at, "format") => {
                    "type 'string' does not support field selection".to_owned()
                }
                _ => break,
            };
            let dotted = format!("self.{}", chain[..=depth].join("."));
            let column = text
                .find(&dotted)
                .map_or(1, |start| start + dotted.len() - name.len());
            return Some(located(
                text,
                (1, isize::try_from(column).unwrap_or(1)),
                &problem,
            ));
        }
    }
    None
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
    fn schemas_must_be_structural() {
        let of = |a: Value| json!({"type": "object", "properties": {"a": a}});
        let cases = [
            (json!({"type": "string"}), ""),
            (
                json!({}),
                ".properties[a].type: Required value: must not be empty for specified object fields",
            ),
            (
                json!({"$ref": "#/x"}),
                ".properties[a].$ref: Forbidden: $ref is not supported",
            ),
            (
                json!({"type": "array"}),
                ".properties[a].items: Required value: must be specified",
            ),
            (
                json!({"type": "string", "anyOf": [{"type": "string"}]}),
                ".properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
                "",
            ),
            (
                json!({"type": "integer", "minimum": 3, "default": 1}),
                ".properties[a].default: Invalid value: 1:  in body should be greater than or equal to 3",
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
    fn rules_must_compile_against_the_schema() {
        let with = |rule: Value| {
            refused(
                json!({"type": "object", "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": [rule]}),
            )
        };
        assert_eq!(with(json!({"rule": "self.a > 1"})), Vec::<String>::new());
        let found = with(json!({"rule": "self.b > 1"}));
        assert!(found[0].ends_with("compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > 1\n | ....^"), "{found:?}");
        let found = with(json!({"rule": "self.a.c > 1"}));
        assert!(
            found[0].contains("<input>:1:7: type 'int' does not support field selection"),
            "{found:?}"
        );
        assert_eq!(
            with(json!({"rule": ""})),
            [".x-kubernetes-validations[0].rule: Required value: rule is not specified"]
        );
        assert_eq!(
            with(json!({"rule": "true", "fieldPath": ".zz"})),
            [
                ".x-kubernetes-validations[0].fieldPath: Invalid value: \".zz\": must be a valid path"
            ]
        );
    }

    #[test]
    fn changes_of_items_without_identity_cannot_be_ruled() {
        let found = refused(json!({"type": "array", "items": {"type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}));
        assert_eq!(
            found,
            [
                ".items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[spec]"
            ]
        );
    }
}
