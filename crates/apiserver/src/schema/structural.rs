//! Validation of the schemas of definitions: they must be structural, their defaults valid, and their rules must compile.
//! The validation reads the original JSON, so that causes name its fields.

mod extensions;
mod form;
mod rules;

use serde_json::{Value, json};

use crate::error::Cause;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Returns the causes against the schema of a version. `path` is the path of the schema in its definition.
pub(crate) fn problems(schema: &Value, path: &str) -> Vec<Cause> {
    let mut check = Check::default();
    match schema["type"].as_str() {
        Some("object") => {}
        Some(other) if TYPES.contains(&other) => {
            let detail = "must be object at the root";
            check.invalid(path, "type", &json!(other), detail);
        }
        _ => {}
    }
    check.node(schema, path, &Position::root());
    if schema["type"].as_str().is_none_or(str::is_empty) {
        check.require(path, "type", "must not be empty at the root");
        check.unstructured = true;
    }
    // Rules can be compiled against structural schemas only.
    if !check.unstructured {
        check.causes.append(&mut check.cel);
    }
    check.causes
}

/// The position of a node in a schema. It restricts the keywords of the node.
#[derive(Clone)]
struct Position {
    root: bool,
    /// True within `allOf`, `anyOf`, `oneOf` or `not`, which may only contain value validations.
    junction: bool,
    /// The path of the enclosing list whose items cannot be matched with their old values; rules below it cannot use
    /// `oldSelf`.
    uncorrelated: Option<String>,
}

impl Position {
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

#[derive(Default)]
struct Check {
    causes: Vec<Cause>,
    /// Causes of rules that do not compile.
    cel: Vec<Cause>,
    /// True if the schema is not structural.
    unstructured: bool,
}

fn is_true(schema: &Value, keyword: &str) -> bool {
    schema[keyword] == true
}

fn has(schema: &Value, keyword: &str) -> bool {
    !schema[keyword].is_null()
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

    fn one_of(&mut self, path: &str, keyword: &str, value: &str, allowed: &[&str]) {
        if !allowed.contains(&value) {
            let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
            let path = format!("{path}.{keyword}");
            self.causes
                .push(Cause::not_supported(path, &json!(value), &allowed));
        }
    }

    fn node(&mut self, schema: &Value, path: &str, position: &Position) {
        if has(schema, "$ref") {
            self.forbid(path, "$ref", "$ref is not supported");
            return;
        }
        let before = self.causes.len();
        self.children(schema, path, position);
        let structure = self.causes.len();
        if position.junction {
            self.value_validations(schema, path);
        } else {
            self.shape(schema, path, position);
        }
        self.unstructured |= self.causes.len() > structure;
        self.keywords(schema, path);
        if position.junction {
            return;
        }
        self.extensions(schema, path);
        self.default_value(schema, path);
        self.rules(schema, path);
        if self.causes.len() == before {
            self.compiled_rules(schema, path, position);
        }
    }

    fn children(&mut self, schema: &Value, path: &str, position: &Position) {
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
                && !position.junction
                && (position.root || is_true(schema, "x-kubernetes-embedded-resource"))
            {
                let before = self.causes.len();
                self.metadata(property, &at);
                self.unstructured |= self.causes.len() > before;
            } else {
                self.node(property, &at, &position.below());
            }
        }
        if schema["additionalProperties"].is_object() {
            let at = format!("{path}.additionalProperties");
            self.node(&schema["additionalProperties"], &at, &position.below());
        }
        let is_map_list = schema["x-kubernetes-list-type"] == "map";
        let items = Position {
            uncorrelated: position
                .uncorrelated
                .clone()
                .or_else(|| (!is_map_list).then(|| path.to_owned())),
            ..position.below()
        };
        match &schema["items"] {
            Value::Array(_) => self.forbid(
                path,
                "items",
                "items must be a schema object and not an array",
            ),
            Value::Object(_) => self.node(&schema["items"], &format!("{path}.items"), &items),
            _ if schema["type"] == "array" && !position.junction => {
                self.unstructured = true;
                self.require(path, "items", "must be specified");
            }
            _ => {}
        }
        let junction = Position {
            junction: true,
            ..position.below()
        };
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (i, branch) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                // Older definitions list the two types in `anyOf`.
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
                ".properties[a].type: Required value: must not be empty for fields and items",
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
                ".properties[a].anyOf[0].type: Forbidden: must be undefined to be structural",
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
    fn rules_must_compile_against_the_schema() {
        let with = |rule: Value| {
            refused(
                json!({"type": "object", "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": [rule]}),
            )
        };
        assert_eq!(with(json!({"rule": "self.a > 1"})), Vec::<String>::new());
        for wrong in [
            "self.b > 1",
            "self.a.c > 1",
            "self.a >",
            "nofn(self.a)",
            "1 + self.a",
        ] {
            let found = with(json!({"rule": wrong}));
            let at = ".x-kubernetes-validations[0].rule: Invalid value";
            assert!(found.len() == 1 && found[0].starts_with(at), "{found:?}");
        }
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
    fn items_without_identity_cannot_have_transition_rules() {
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
