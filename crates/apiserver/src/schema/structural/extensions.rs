//! Validation of the `x-kubernetes-` keywords and the default of a schema node.

use serde_json::{Value, json};

use super::{Check, has, is_true};
use crate::error::Cause;
use crate::schema::{compile, shape, validate};

impl Check {
    /// Checks the `x-kubernetes-` keywords of a node.
    pub(super) fn extensions(&mut self, schema: &Value, path: &str) {
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

    /// Checks that a default is valid and has no unknown fields.
    pub(super) fn default_value(&mut self, schema: &Value, path: &str) {
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
}
