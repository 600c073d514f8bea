//! The CustomResourceDefinitions of the kinds, which kube-derive generates from the API types.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

use crate::{
    Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, ClusterQueue, ClusterResourceBinding,
    ClusterScore, ClusterTaintPolicy, FederatedResourceQuota, OverridePolicy, PropagationPolicy,
    ResourceBinding, ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration,
    Work, WorkloadRebalancer,
};

/// A definition cannot be written as YAML. Such an error is a bug in the API types, and a test finds it.
#[derive(Debug, thiserror::Error)]
#[error("definition of {name} as YAML: {message}")]
pub struct CrdError {
    /// The name of the file for the definition.
    pub name: String,
    /// The error of the YAML writer.
    pub message: String,
}

/// Returns all definitions.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![
        Cluster::crd(),
        PropagationPolicy::crd(),
        ClusterPropagationPolicy::crd(),
        OverridePolicy::crd(),
        ClusterOverridePolicy::crd(),
        ClusterTaintPolicy::crd(),
        FederatedResourceQuota::crd(),
        ResourceBinding::crd(),
        ClusterResourceBinding::crd(),
        Work::crd(),
        WorkloadRebalancer::crd(),
        ResourceInterpreterCustomization::crd(),
        ResourceInterpreterWebhookConfiguration::crd(),
        ClusterQueue::crd(),
        ClusterScore::crd(),
    ];
    definitions.iter_mut().for_each(align);
    definitions
}

/// Returns the names and contents of the files in `crds/`.
///
/// # Errors
/// When a definition cannot be written.
pub fn files() -> Result<Vec<(String, String)>, CrdError> {
    all()
        .into_iter()
        .map(|definition| {
            let file = format!(
                "{}_{}.yaml",
                definition.spec.group, definition.spec.names.plural
            );
            let text = serde_saphyr::to_string(&definition).map_err(|error| CrdError {
                name: file.clone(),
                message: error.to_string(),
            })?;
            Ok((
                file,
                format!("# Generated from crates/api by hack/update-crds.sh; do not edit.\n{text}"),
            ))
        })
        .collect()
}

/// Aligns a definition with the output of controller-gen, where kube-derive has no attribute for the difference.
fn align(definition: &mut CustomResourceDefinition) {
    let names = &mut definition.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    let versions = definition.spec.versions.iter_mut();
    let validations = versions.filter_map(|version| version.schema.as_mut());
    for schema in validations.filter_map(|validation| validation.open_api_v3_schema.as_mut()) {
        align_schema(schema);
        let identity = [
            (
                "apiVersion",
                "string",
                Some("The versioned schema of this object."),
            ),
            ("kind", "string", Some("The kind of this object.")),
            ("metadata", "object", None),
        ];
        let properties = schema.properties.get_or_insert_default();
        properties.extend(identity.map(|(name, type_, description)| {
            let mut property = of_type(type_);
            property.description = description.map(str::to_owned);
            (name.to_owned(), property)
        }));
    }
}

/// Aligns a schema and its subschemas. An optional field is never null, because an absent value is omitted.
fn align_schema(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.any_of = Some(vec![of_type("integer"), of_type("string")]);
    }
    let properties = schema.properties.iter_mut().flat_map(BTreeMap::values_mut);
    properties.for_each(align_schema);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        align_schema(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        align_schema(values);
    }
}

fn of_type(name: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(name.to_owned()),
        ..JSONSchemaProps::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::field_schema;

    #[test]
    fn crd_files_are_up_to_date() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
        for (name, text) in files().unwrap() {
            let kept = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(
                kept == text,
                "crds/{name} is stale: run hack/update-crds.sh"
            );
        }
    }

    fn schema(kind: &str) -> Value {
        let mut definitions = all().into_iter();
        let definition = definitions.find(|definition| definition.spec.names.kind == kind);
        let version = definition.unwrap().spec.versions.remove(0);
        let schema = version.schema.unwrap().open_api_v3_schema;
        serde_json::to_value(schema).unwrap()
    }

    #[test]
    fn the_schema_contains_all_condition_bounds_and_atomic_node_selectors() {
        let binding = schema("ResourceBinding");
        for (field, keyword, bound) in field_schema::condition_bounds() {
            let path = format!(
                "/properties/status/properties/conditions/items/properties/{field}/{keyword}"
            );
            assert_eq!(binding.pointer(&path), Some(&bound), "{path}");
        }
        let claim = "/properties/spec/properties/replicaRequirements/properties/nodeClaim/properties/hardNodeAffinity";
        for (path, keyword) in field_schema::NODE_SELECTOR {
            let path = format!("{claim}{path}/{keyword}");
            assert_eq!(binding.pointer(&path), Some(&json!("atomic")), "{path}");
        }
    }

    #[test]
    fn quantities_are_integers_or_strings() {
        let binding = schema("ResourceBinding");
        let path = "/properties/spec/properties/replicaRequirements/properties/resourceRequest/additionalProperties/anyOf";
        let either = json!([{ "type": "integer" }, { "type": "string" }]);
        assert_eq!(binding.pointer(path), Some(&either));
    }

    #[test]
    fn constraints_of_policies_do_not_apply_to_bindings() {
        let (policy, binding) = (schema("PropagationPolicy"), schema("ResourceBinding"));
        let groups = "/placement/properties/spreadConstraints/items/properties";
        let application = "/failover/properties/application";
        for constraint in [
            "/schedulerName/x-kubernetes-validations".to_owned(),
            "/suspension/x-kubernetes-validations".to_owned(),
            "/placement/x-kubernetes-validations".to_owned(),
            "/placement/properties/workloadAffinity/x-kubernetes-validations".to_owned(),
            format!("{application}/x-kubernetes-validations"),
            format!("{application}/properties/gracePeriodSeconds/minimum"),
            format!(
                "{application}/properties/decisionConditions/properties/tolerationSeconds/minimum"
            ),
            format!("{groups}/maxGroups/minimum"),
            format!("{groups}/minGroups/minimum"),
            format!("{groups}/minGroups/default"),
        ] {
            let path = format!("/properties/spec/properties{constraint}");
            assert!(policy.pointer(&path).is_some(), "{path}");
            assert_eq!(binding.pointer(&path), None, "{path}");
        }
    }
}
