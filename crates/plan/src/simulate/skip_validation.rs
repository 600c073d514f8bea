//! `--no-validate`: the schemas of the simulation's API server fill in defaults and skip validation.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value};

/// Schema keywords that define structure and defaults. All other keywords only validate.
const STRUCTURAL: [&str; 8] = [
    "type",
    "description",
    "default",
    "properties",
    "additionalProperties",
    "items",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];

/// Removes the validation from the schemas of a CustomResourceDefinition. The schemas keep the types of the fields.
///
/// # Errors
/// When the result is not a valid definition. The tests check that this does not occur for Karmada's definitions.
pub(crate) fn relax(
    definition: &CustomResourceDefinition,
) -> Result<CustomResourceDefinition, serde_json::Error> {
    let mut value = serde_json::to_value(definition)?;
    if let Some(versions) = value["spec"]["versions"].as_array_mut() {
        for version in versions {
            relax_schema(&mut version["schema"]["openAPIV3Schema"]);
        }
    }
    serde_json::from_value(value)
}

fn relax_schema(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    keywords.retain(|keyword, _| STRUCTURAL.contains(&keyword.as_str()));
    if let Some(properties) = keywords
        .get_mut("properties")
        .and_then(Value::as_object_mut)
    {
        relax_all(properties);
    }
    for keyword in ["additionalProperties", "items"] {
        if let Some(inner) = keywords.get_mut(keyword) {
            relax_schema(inner);
        }
    }
}

fn relax_all(properties: &mut Map<String, Value>) {
    for schema in properties.values_mut() {
        relax_schema(schema);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn validation_is_removed_and_structure_is_kept() {
        let mut schema = json!({ "type": "object", "required": ["pattern"], "properties": {
            "pattern": { "type": "string", "pattern": "^a$", "default": "a" },
            "list": { "type": "array", "minItems": 1, "items": { "type": "string", "enum": ["a"] } },
        } });
        relax_schema(&mut schema);
        assert_eq!(
            schema,
            json!({ "type": "object", "properties": {
                "pattern": { "type": "string", "default": "a" },
                "list": { "type": "array", "items": { "type": "string" } },
            } })
        );
    }

    #[test]
    fn every_definition_can_be_relaxed() {
        for definition in berth_api::crds::all() {
            let relaxed = serde_json::to_string(&relax(&definition).unwrap()).unwrap();
            assert!(!relaxed.contains("\"enum\"") && !relaxed.contains("\"minimum\""));
        }
    }
}
