//! Structural validation of a schema node: types, keywords, and the schema of `metadata`.

use serde_json::{Value, json};

use super::{Check, Position, TYPES, has, is_true};
use crate::error::Cause;

impl Check {
    /// Checks the schema of `metadata`, which may restrict only names.
    pub(super) fn metadata(&mut self, schema: &Value, path: &str) {
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

    /// Checks that a node within a junction has value validations only.
    pub(super) fn value_validations(&mut self, schema: &Value, path: &str) {
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
        if has(schema, "x-kubernetes-validations") {
            let detail = "must be empty to be structural";
            self.forbid(path, "x-kubernetes-validations", detail);
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

    /// Checks that a node has a supported type.
    pub(super) fn shape(&mut self, schema: &Value, path: &str, position: &Position) {
        let kind = schema["type"].as_str().unwrap_or_default();
        let open = is_true(schema, "x-kubernetes-int-or-string")
            || is_true(schema, "x-kubernetes-preserve-unknown-fields");
        if kind.is_empty() {
            if !position.root && !open {
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

    /// Checks the pattern of a node, and forbids unsupported keywords.
    pub(super) fn keywords(&mut self, schema: &Value, path: &str) {
        if let Some(pattern) = schema["pattern"].as_str()
            && let Err(error) = crate::pattern::compile(pattern)
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
