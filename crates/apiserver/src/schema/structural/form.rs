//! Structural validation of a schema node: types, keywords, and the schema of `metadata`.

use serde_json::Value;

use super::{Check, Position, TYPES, has, is_true};
use crate::error::Cause;

impl Check {
    /// Checks the schema of `metadata`, which may restrict only names.
    pub(super) fn metadata(&mut self, schema: &Value, path: &str) {
        if schema["type"] != "object" {
            return self.invalid(path, "type", &schema["type"], "must be object");
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

    /// Checks that a node within a junction has value validations only.
    pub(super) fn value_validations(&mut self, schema: &Value, path: &str) {
        const FORBIDDEN: [&str; 9] = [
            "default",
            "x-kubernetes-validations",
            "description",
            "title",
            "type",
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ];
        let detail = "must be undefined to be structural";
        let open = &schema["additionalProperties"];
        if *open == true || open.is_object() {
            self.forbid(path, "additionalProperties", detail);
        }
        for keyword in FORBIDDEN {
            if has(schema, keyword) && (keyword == "default" || schema[keyword] != false) {
                self.forbid(path, keyword, detail);
            }
        }
    }

    /// Checks that a node has a supported type.
    pub(super) fn shape(&mut self, schema: &Value, path: &str, position: &Position) {
        let kind = schema["type"].as_str().unwrap_or_default();
        let open = is_true(schema, "x-kubernetes-int-or-string")
            || is_true(schema, "x-kubernetes-preserve-unknown-fields");
        if !kind.is_empty() {
            self.one_of(path, "type", kind, &TYPES);
        } else if !position.root && !open {
            self.require(path, "type", "must not be empty for fields and items");
        }
    }

    /// Checks the pattern of a node, and forbids unsupported keywords.
    pub(super) fn keywords(&mut self, schema: &Value, path: &str) {
        if let Some(pattern) = schema["pattern"].as_str()
            && let Err(error) = crate::pattern::compile(pattern)
        {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.invalid(path, "pattern", &schema["pattern"], &detail);
        }
        if is_true(schema, "uniqueItems") {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path, "uniqueItems", detail);
        }
        for keyword in [
            "id",
            "patternProperties",
            "definitions",
            "dependencies",
            "additionalItems",
        ] {
            if has(schema, keyword) {
                self.forbid(path, keyword, &format!("{keyword} is not supported"));
            }
        }
    }
}
