//! Validation of the `x-kubernetes-` keywords and the default of a schema node.

use serde_json::{Value, json};

use super::{Check, has};
use crate::error::Cause;
use crate::schema::{custom, shape, validate};

impl Check {
    /// Checks the `x-kubernetes-` keywords of a node.
    pub(super) fn extensions(&mut self, schema: &Value, path: &str) {
        let map_type = "x-kubernetes-map-type";
        if let Some(text) = schema[map_type].as_str() {
            self.one_of(path, map_type, text, &["atomic", "granular"]);
        }
        let keyword = "x-kubernetes-list-type";
        let Some(list_type) = schema[keyword].as_str() else {
            return;
        };
        if schema["type"] != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            return self.invalid(path, "type", &schema["type"], detail);
        }
        self.one_of(path, keyword, list_type, &["atomic", "set", "map"]);
        if list_type == "map" {
            self.map_keys(schema, path);
        }
    }

    /// Checks the keys that identify the items of a list.
    fn map_keys(&mut self, schema: &Value, path: &str) {
        let keyword = "x-kubernetes-list-map-keys";
        let items = &schema["items"];
        let keys = schema[keyword].as_array().map_or(&[][..], Vec::as_slice);
        let property = |key: &Value| key.as_str().and_then(|k| items["properties"].get(k));
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            return self.require(path, keyword, detail);
        }
        if keys.iter().any(|k| property(k).is_none()) {
            let detail = "entries must all be names of item properties";
            return self.invalid(path, keyword, &json!(keys), detail);
        }
        for key in keys {
            let name = key.as_str().unwrap_or_default();
            let required = items["required"]
                .as_array()
                .is_some_and(|r| r.contains(key));
            if !required && property(key).is_some_and(|p| !has(p, "default")) {
                let keyword = format!("items.properties[{name}].default");
                self.require(path, &keyword, "keys must be required or have a default");
            }
        }
    }

    /// Checks that a default is valid and has no unknown fields.
    pub(super) fn default_value(&mut self, schema: &Value, path: &str) {
        let Some(default) = schema.get("default").filter(|d| !d.is_null()) else {
            return;
        };
        let Some(compiled) = custom::part(schema) else {
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
            cause.field = if cause.field.is_empty() {
                at.clone()
            } else {
                format!("{at}.{}", cause.field)
            };
            self.causes.push(cause);
        }
    }
}
