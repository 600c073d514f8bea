//! Removal of unknown keywords from the OpenAPI schemas of CustomResourceDefinitions, as a typed decoder does.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::builtin::definitions;
use super::join;
use super::report_limit;

const PREFIX: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

static KEYWORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| fields("JSONSchemaProps"));
static RULE_KEYWORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| fields("ValidationRule"));
static DOCUMENTATION_KEYWORDS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| fields("ExternalDocumentation"));

fn fields(definition: &str) -> BTreeSet<&'static str> {
    let definition = definitions().get(&format!("{PREFIX}{definition}"));
    let properties = definition.and_then(|d| d["properties"].as_object());
    properties
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Removes unknown keywords, and adds the paths of the first unknown keywords to `unknown`.
pub(super) fn prune(schema: &mut Map<String, Value>, path: &str, unknown: &mut Vec<String>) {
    let mut pruner = Pruner {
        unknown,
        reports: true,
    };
    pruner.schema(schema, path);
}

struct Pruner<'u> {
    /// Paths of the unknown keywords.
    unknown: &'u mut Vec<String>,
    /// True if unknown keywords are reported. Go decodes a keyword such as `items`, which is a schema or another value,
    /// with a decoder that reports no unknown keywords.
    reports: bool,
}

impl Pruner<'_> {
    fn drop(&mut self, object: &mut Map<String, Value>, known: &BTreeSet<&str>, path: &str) {
        object.retain(|name, _| {
            let keep = known.contains(name.as_str());
            if !keep && self.reports && report_limit::has_space(self.unknown.iter()) {
                self.unknown.push(join(path, name));
            }
            keep
        });
    }

    fn schema(&mut self, schema: &mut Map<String, Value>, path: &str) {
        self.drop(schema, &KEYWORDS, path);
        for (keyword, value) in schema.iter_mut() {
            let at = join(path, keyword);
            match keyword.as_str() {
                "properties" | "patternProperties" | "definitions" => self.each(value, &at),
                "allOf" | "anyOf" | "oneOf" | "not" => self.any(value, &at),
                "items" | "additionalItems" | "additionalProperties" => {
                    self.silently(|pruner| pruner.any(value, &at));
                }
                "dependencies" => self.silently(|pruner| pruner.each(value, &at)),
                "x-kubernetes-validations" => {
                    for (i, rule) in value.as_array_mut().into_iter().flatten().enumerate() {
                        if let Value::Object(rule) = rule {
                            self.drop(rule, &RULE_KEYWORDS, &format!("{at}[{i}]"));
                        }
                    }
                }
                "externalDocs" => {
                    if let Value::Object(documentation) = value {
                        self.drop(documentation, &DOCUMENTATION_KEYWORDS, &at);
                    }
                }
                _ => {}
            }
        }
    }

    /// Removes unknown keywords, without a report, while `visit` runs.
    fn silently(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.reports, false);
        visit(self);
        self.reports = before;
    }

    /// Prunes each schema in a map of schemas.
    fn each(&mut self, value: &mut Value, path: &str) {
        for (name, value) in value.as_object_mut().into_iter().flatten() {
            self.any(value, &join(path, name));
        }
    }

    /// Prunes a schema, or each schema in a list.
    fn any(&mut self, value: &mut Value, path: &str) {
        match value {
            Value::Object(schema) => self.schema(schema, path),
            Value::Array(schemas) => {
                for (i, schema) in schemas.iter_mut().enumerate() {
                    self.any(schema, &format!("{path}[{i}]"));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_report_of_unknown_keywords_is_limited() {
        let names = |count: usize, prefix: &str| -> Map<String, Value> {
            let name = |i| (format!("{prefix}{i}"), json!(1));
            (0..count).map(name).collect()
        };
        let long = "x".repeat(1000);
        for (mut schema, expected) in [
            (
                names(report_limit::MAX_FIELDS + 1, "x"),
                report_limit::MAX_FIELDS..report_limit::MAX_FIELDS + 1,
            ),
            (
                names(report_limit::MAX_FIELDS, &long),
                1..report_limit::MAX_FIELDS,
            ),
        ] {
            let mut unknown = Vec::new();
            prune(&mut schema, "s", &mut unknown);
            assert!(schema.is_empty());
            assert!(expected.contains(&unknown.len()), "{}", unknown.len());
        }
    }

    #[test]
    fn unknown_keywords_are_dropped_and_reported() {
        let mut schema = json!({"type": "object", "minimun": 1, "default": {"any": 1}, "example": {"any": 1},
            "properties": {"minimun": {"type": "string", "enum": [{"any": 1}], "x-other": 1,
                "x-kubernetes-validations": [{"rule": "true", "nope": 1}]}},
            "additionalProperties": {"type": "string", "silent": 1, "properties": {"a": {"silent": 1}}},
            "allOf": [{"wrong": 1}], "not": {"wrong": 1}, "externalDocs": {"url": "u", "wrong": 1}});
        let mut unknown = Vec::new();
        prune(schema.as_object_mut().unwrap(), "s", &mut unknown);
        unknown.sort();
        assert_eq!(
            unknown,
            [
                "s.allOf[0].wrong",
                "s.externalDocs.wrong",
                "s.minimun",
                "s.not.wrong",
                "s.properties.minimun.x-kubernetes-validations[0].nope",
                "s.properties.minimun.x-other",
            ]
        );
        let expected = json!({"type": "object", "default": {"any": 1}, "example": {"any": 1},
            "properties": {"minimun": {"type": "string", "enum": [{"any": 1}],
                "x-kubernetes-validations": [{"rule": "true"}]}},
            "additionalProperties": {"type": "string", "properties": {"a": {}}},
            "allOf": [{}], "not": {}, "externalDocs": {"url": "u"}});
        assert_eq!(schema, expected);
    }
}
