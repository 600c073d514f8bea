//! Structural schemas of API types, in the form that controller-gen writes.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

use crate::condition_message;

/// Returns the structural schema of a type, with inlined subschemas and without nullable fields.
pub(super) fn of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(kube::core::schema::StructuralSchemaRewriter)
        .with_transform(AsControllerGen)
        .into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Returns the schema of a status type. The conditions in this schema have the bounds that Kubernetes prescribes.
pub(super) fn of_status<T: JsonSchema>() -> Value {
    let mut schema = of::<T>();
    for (field, keyword, bound) in condition_bounds() {
        let path = format!("/properties/conditions/items/properties/{field}");
        if let Some(Value::Object(field)) = schema.pointer_mut(&path) {
            field.insert(keyword.to_owned(), bound);
        }
    }
    schema
}

/// Returns the bounds of `metav1.Condition`. Each row has a field, a keyword and a value.
fn condition_bounds() -> [(&'static str, &'static str, Value); 8] {
    let kind = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    [
        ("message", "maxLength", json!(condition_message::MAX_LENGTH)),
        ("observedGeneration", "minimum", json!(0)),
        ("reason", "maxLength", json!(1024)),
        ("reason", "minLength", json!(1)),
        (
            "reason",
            "pattern",
            json!("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        ),
        ("status", "enum", json!(["True", "False", "Unknown"])),
        ("type", "maxLength", json!(316)),
        ("type", "pattern", json!(kind)),
    ]
}

/// A transform that aligns the output of schemars with controller-gen.
///
/// It removes `nullable`, because an absent optional field is omitted and never null. It removes titles and unwanted
/// defaults. It adds keywords that the Kubernetes types lack.
#[derive(Clone, Debug)]
struct AsControllerGen;

/// The parts of a node selector that server-side apply replaces as a whole. Each row has a path and the keyword that is
/// set to `atomic`.
const NODE_SELECTOR: [(&str, &str); 6] = [
    ("/properties/nodeSelectorTerms", "x-kubernetes-list-type"),
    (
        "/properties/nodeSelectorTerms/items",
        "x-kubernetes-map-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchExpressions",
        "x-kubernetes-list-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchExpressions/items/properties/values",
        "x-kubernetes-list-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchFields",
        "x-kubernetes-list-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchFields/items/properties/values",
        "x-kubernetes-list-type",
    ),
];

impl Transform for AsControllerGen {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        transform_subschemas(self, schema);
        schema.remove("nullable");
        schema.remove("title");
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        // This default exists for serde only. The API server would store the default if the schema contained it.
        if schema.remove("x-no-default").is_some() {
            schema.remove("default");
        }
        if schema
            .get("default")
            .is_some_and(|default| default == false)
        {
            schema.remove("default");
        }
        if schema.get("x-kubernetes-int-or-string").is_some() {
            let either = json!([{ "type": "integer" }, { "type": "string" }]);
            schema.insert("anyOf".to_owned(), either);
        }
        for (path, keyword) in NODE_SELECTOR {
            if let Some(Value::Object(part)) = schema.pointer_mut(path) {
                part.insert(keyword.to_owned(), json!("atomic"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::{BindingSpec, BindingStatus};

    #[test]
    fn the_schema_contains_all_condition_bounds_and_atomic_node_selectors() {
        let status = of_status::<BindingStatus>();
        for (field, keyword, bound) in condition_bounds() {
            let path = format!("/properties/conditions/items/properties/{field}/{keyword}");
            assert_eq!(status.pointer(&path), Some(&bound), "{path}");
        }
        let spec = of::<BindingSpec>();
        let claim =
            "/properties/replicaRequirements/properties/nodeClaim/properties/hardNodeAffinity";
        for (path, keyword) in NODE_SELECTOR {
            let path = format!("{claim}{path}/{keyword}");
            assert_eq!(spec.pointer(&path), Some(&json!("atomic")), "{path}");
        }
    }

    #[test]
    fn quantities_are_integers_or_strings() {
        let spec = of::<BindingSpec>();
        let path =
            "/properties/replicaRequirements/properties/resourceRequest/additionalProperties/anyOf";
        let either = json!([{ "type": "integer" }, { "type": "string" }]);
        assert_eq!(spec.pointer(path), Some(&either));
    }
}
