//! CustomResourceDefinitions of a simulated member, for the custom APIs in its Cluster manifest. The schema of the
//! definitions accepts objects with any content.

use berth_api::Cluster;
use berth_api::cluster::{ApiEnablement, ApiResource};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceValidation, JSONSchemaProps,
};
use kube::api::ObjectMeta;

/// Returns a definition for each resource of a custom API group. The API server serves the groups of Kubernetes
/// (`*.k8s.io`) itself, except `gateway.networking.k8s.io`.
pub(super) fn of(cluster: &Cluster) -> Vec<CustomResourceDefinition> {
    let status = cluster.status.clone().unwrap_or_default();
    let mut definitions: Vec<CustomResourceDefinition> = Vec::new();
    for ApiEnablement {
        group_version,
        resources,
    } in &status.api_enablements
    {
        let Some((group, version)) = group_version.split_once('/') else {
            continue;
        };
        if !is_custom(group) {
            continue;
        }
        for resource in resources {
            let name = format!("{}.{group}", resource.name);
            let known = definitions
                .iter_mut()
                .find(|known| known.metadata.name.as_ref() == Some(&name));
            match known {
                Some(known) => known.spec.versions.push(served(version, false)),
                None => definitions.push(definition(name, group, version, resource)),
            }
        }
    }
    definitions
}

fn is_custom(group: &str) -> bool {
    group.contains('.') && (!group.ends_with(".k8s.io") || group.starts_with("gateway."))
}

fn definition(
    name: String,
    group: &str,
    version: &str,
    resource: &ApiResource,
) -> CustomResourceDefinition {
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(name),
            // The server requires this annotation for groups under k8s.io.
            annotations: Some(
                [(
                    "api-approved.kubernetes.io".to_owned(),
                    "unapproved, simulated".to_owned(),
                )]
                .into(),
            ),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: group.to_owned(),
            names: CustomResourceDefinitionNames {
                kind: resource.kind.clone(),
                plural: resource.name.clone(),
                ..CustomResourceDefinitionNames::default()
            },
            scope: "Namespaced".to_owned(),
            versions: vec![served(version, true)],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

fn served(version: &str, storage: bool) -> CustomResourceDefinitionVersion {
    CustomResourceDefinitionVersion {
        name: version.to_owned(),
        served: true,
        storage,
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(JSONSchemaProps {
                type_: Some("object".to_owned()),
                x_kubernetes_preserve_unknown_fields: Some(true),
                ..JSONSchemaProps::default()
            }),
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_custom_apis_are_defined() {
        let cluster = crate::fleet::generate(1).remove(0);
        let names: Vec<_> = of(&cluster)
            .into_iter()
            .filter_map(|definition| definition.metadata.name)
            .collect();
        assert_eq!(
            names,
            [
                "gateways.gateway.networking.k8s.io",
                "servicemonitors.monitoring.coreos.com"
            ]
        );
    }
}
