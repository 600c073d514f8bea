//! The catalogue of the kinds that an API server serves, with their resource names and scopes. It also contains the
//! types of Karmada's own resources.

use std::collections::HashMap;
use std::sync::Arc;

use berth_controllers::binding_key::BindingKind;
use berth_controllers::detector::claim::PolicyKind;
use berth_controllers::resource_type::ResourceType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::core::{ApiResource, GroupVersion};

/// Cluster-scoped kinds of Kubernetes. The catalogue uses this list for kinds that the server does not serve.
const CLUSTER_SCOPED: [&str; 12] = [
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CSIDriver",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// API versions of frequently propagated kinds. Their kinds are suggested for a misspelled kind.
const COMMON: [&str; 7] = [
    "apps/v1",
    "autoscaling/v2",
    "batch/v1",
    "networking.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "v1",
];

/// The result of looking up a kind.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    /// The kind is served.
    Served(Arc<ResourceType>),
    /// The server serves the API version without this kind.
    Missing,
    /// The server does not serve the API version.
    UnknownGroup,
}

/// The cached lists of the kinds that a server serves, read once per API version.
pub(crate) struct Catalogue {
    client: Client,
    lists: HashMap<String, Option<APIResourceList>>,
}

impl Catalogue {
    /// Creates an empty catalogue for the server of the client.
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            lists: HashMap::new(),
        }
    }

    async fn read(&mut self, api_version: &str) -> Result<(), kube::Error> {
        if self.lists.contains_key(api_version) {
            return Ok(());
        }
        let list = if api_version.contains('/') {
            self.client.list_api_group_resources(api_version).await
        } else {
            self.client.list_core_api_resources(api_version).await
        };
        let list = match list {
            Ok(list) => Some(list),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => return Err(error),
        };
        self.lists.insert(api_version.to_owned(), list);
        Ok(())
    }

    /// Reads the kinds of the most common API versions.
    ///
    /// # Errors
    /// Fails if the server does not respond.
    pub(crate) async fn read_common(&mut self) -> Result<(), kube::Error> {
        for api_version in COMMON {
            self.read(api_version).await?;
        }
        Ok(())
    }

    /// Returns the kinds that have been read, each with its API version, sorted.
    pub(crate) fn kinds(&self) -> Vec<(&str, &str)> {
        let mut kinds: Vec<_> = self
            .lists
            .iter()
            .filter_map(|(api_version, list)| Some((api_version, list.as_ref()?)))
            .flat_map(|(api_version, list)| {
                let top = list.resources.iter().filter(|r| !r.name.contains('/'));
                top.map(|resource| (api_version.as_str(), resource.kind.as_str()))
            })
            .collect();
        kinds.sort_unstable();
        kinds
    }

    /// Looks up a kind in the catalogue, after reading its API version.
    ///
    /// # Errors
    /// Fails if the server does not respond.
    pub(crate) async fn find(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> Result<Lookup, kube::Error> {
        self.read(api_version).await?;
        let Some(Some(list)) = self.lists.get(api_version) else {
            return Ok(Lookup::UnknownGroup);
        };
        let found = list
            .resources
            .iter()
            .find(|resource| resource.kind == kind && !resource.name.contains('/'));
        Ok(found.map_or(Lookup::Missing, |resource| {
            Lookup::Served(resource_type(
                api_version,
                kind,
                &resource.name,
                resource.namespaced,
            ))
        }))
    }
}

/// Returns an assumed type for a kind that no server serves. The type is namespaced, unless it is in
/// [`CLUSTER_SCOPED`].
pub(crate) fn assume_type(api_version: &str, kind: &str) -> Arc<ResourceType> {
    let plural = format!("{}s", kind.to_lowercase());
    resource_type(api_version, kind, &plural, !CLUSTER_SCOPED.contains(&kind))
}

/// Returns the type of the resource `clusters`.
pub(crate) fn clusters() -> Arc<ResourceType> {
    resource_type("cluster.karmada.io/v1alpha1", "Cluster", "clusters", false)
}

/// Returns the type of the resource `configmaps`.
pub(crate) fn config_maps() -> Arc<ResourceType> {
    resource_type("v1", "ConfigMap", "configmaps", true)
}

/// Returns the type of PropagationPolicies or ClusterPropagationPolicies.
pub(crate) fn policies(kind: PolicyKind) -> Arc<ResourceType> {
    let (name, plural) = match kind {
        PolicyKind::Namespaced => ("PropagationPolicy", "propagationpolicies"),
        PolicyKind::Cluster => ("ClusterPropagationPolicy", "clusterpropagationpolicies"),
    };
    let namespaced = kind == PolicyKind::Namespaced;
    resource_type("policy.karmada.io/v1alpha1", name, plural, namespaced)
}

/// Returns the type of OverridePolicies or ClusterOverridePolicies.
pub(crate) fn overrides(kind: PolicyKind) -> Arc<ResourceType> {
    let (name, plural) = match kind {
        PolicyKind::Namespaced => ("OverridePolicy", "overridepolicies"),
        PolicyKind::Cluster => ("ClusterOverridePolicy", "clusteroverridepolicies"),
    };
    let namespaced = kind == PolicyKind::Namespaced;
    resource_type("policy.karmada.io/v1alpha1", name, plural, namespaced)
}

/// Returns the type of ResourceInterpreterCustomizations.
pub(crate) fn customizations() -> Arc<ResourceType> {
    resource_type(
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
        false,
    )
}

/// Returns the type of ResourceInterpreterWebhookConfigurations.
pub(crate) fn interpreter_webhooks() -> Arc<ResourceType> {
    resource_type(
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
        "resourceinterpreterwebhookconfigurations",
        false,
    )
}

/// Returns the type of ResourceBindings or ClusterResourceBindings.
pub(crate) fn bindings(kind: BindingKind) -> Arc<ResourceType> {
    let plural = match kind {
        BindingKind::Namespaced => "resourcebindings",
        BindingKind::Cluster => "clusterresourcebindings",
    };
    let namespaced = kind == BindingKind::Namespaced;
    resource_type("work.karmada.io/v1alpha2", kind.name(), plural, namespaced)
}

fn resource_type(
    api_version: &str,
    kind: &str,
    plural: &str,
    namespaced: bool,
) -> Arc<ResourceType> {
    let GroupVersion { group, version, .. } = api_version
        .parse()
        .unwrap_or_else(|_| GroupVersion::gv("", api_version));
    Arc::new(ResourceType {
        api: ApiResource {
            group,
            version,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        },
        namespaced,
    })
}
