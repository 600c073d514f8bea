//! Which kinds a server serves, and how they are addressed.

use std::collections::HashMap;
use std::sync::Arc;

use berth_controllers::binding_key::BindingKind;
use berth_controllers::detector::claim::PolicyKind;
use berth_controllers::resource_type::ResourceType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::core::{ApiResource, GroupVersion};

/// Kinds of Kubernetes that live outside of namespaces and that a small server need not serve.
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

/// The API versions of what is propagated most, for hints at kinds.
const COMMON: [&str; 7] = [
    "apps/v1",
    "autoscaling/v2",
    "batch/v1",
    "networking.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "v1",
];

/// What a server says of a kind.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// It is served.
    Served(Arc<ResourceType>),
    /// Its group and version are served, and it is not among them.
    Missing,
    /// Nothing of its group and version is served.
    Foreign,
}

/// Remembers what a server serves.
pub(crate) struct Catalogue {
    client: Client,
    lists: HashMap<String, Option<APIResourceList>>,
}

impl Catalogue {
    /// Of the server behind this client.
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

    /// Reads the API versions of what is propagated most.
    ///
    /// # Errors
    /// When the server does not answer.
    pub(crate) async fn read_common(&mut self) -> Result<(), kube::Error> {
        for api_version in COMMON {
            self.read(api_version).await?;
        }
        Ok(())
    }

    /// The API versions and kinds that have been read, sorted.
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

    /// Looks a kind up.
    ///
    /// # Errors
    /// When the server does not answer.
    pub(crate) async fn find(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> Result<Known, kube::Error> {
        self.read(api_version).await?;
        let Some(Some(list)) = self.lists.get(api_version) else {
            return Ok(Known::Foreign);
        };
        let found = list
            .resources
            .iter()
            .find(|resource| resource.kind == kind && !resource.name.contains('/'));
        Ok(found.map_or(Known::Missing, |resource| {
            Known::Served(resource_type(
                api_version,
                kind,
                &resource.name,
                resource.namespaced,
            ))
        }))
    }
}

/// A kind that no server tells of: of well-known kinds the scope is known, all others are taken to live in
/// namespaces, as most do.
pub(crate) fn assumed(api_version: &str, kind: &str) -> Arc<ResourceType> {
    let plural = format!("{}s", kind.to_lowercase());
    resource_type(api_version, kind, &plural, !CLUSTER_SCOPED.contains(&kind))
}

/// The type of Clusters.
pub(crate) fn clusters() -> Arc<ResourceType> {
    resource_type("cluster.karmada.io/v1alpha1", "Cluster", "clusters", false)
}

/// The type of ConfigMaps.
pub(crate) fn config_maps() -> Arc<ResourceType> {
    resource_type("v1", "ConfigMap", "configmaps", true)
}

/// The type of the policies of a kind.
pub(crate) fn policies(kind: PolicyKind) -> Arc<ResourceType> {
    let (name, plural) = match kind {
        PolicyKind::Namespaced => ("PropagationPolicy", "propagationpolicies"),
        PolicyKind::Cluster => ("ClusterPropagationPolicy", "clusterpropagationpolicies"),
    };
    let namespaced = kind == PolicyKind::Namespaced;
    resource_type("policy.karmada.io/v1alpha1", name, plural, namespaced)
}

/// The type of the override policies of a kind.
pub(crate) fn overrides(kind: PolicyKind) -> Arc<ResourceType> {
    let (name, plural) = match kind {
        PolicyKind::Namespaced => ("OverridePolicy", "overridepolicies"),
        PolicyKind::Cluster => ("ClusterOverridePolicy", "clusteroverridepolicies"),
    };
    let namespaced = kind == PolicyKind::Namespaced;
    resource_type("policy.karmada.io/v1alpha1", name, plural, namespaced)
}

/// The type of the bindings of a kind.
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
