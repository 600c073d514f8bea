//! The kinds that an API server serves, with their resource names and scopes. The module `well_known_types` has the
//! types that are known without a server.

use std::collections::HashMap;
use std::sync::Arc;

use berth_controllers::resource_type::ResourceType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;

use crate::well_known_types::resource_type;

/// Cluster-scoped kinds of Kubernetes, for [`assumed_type`].
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
const COMMON_API_VERSIONS: [&str; 7] = [
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
pub(crate) enum KindLookup {
    /// The kind is served.
    Served(Arc<ResourceType>),
    /// The server serves the API version without this kind.
    Missing,
    /// The server does not serve the API version.
    UnknownApiVersion,
}

/// The kinds that a server serves. The kinds of an API version are read once, and then cached.
pub(crate) struct ServedKinds {
    client: Client,
    lists: HashMap<String, Option<APIResourceList>>,
}

impl ServedKinds {
    /// Creates an empty cache for the server of the client.
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
        for api_version in COMMON_API_VERSIONS {
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

    /// Looks up a kind. Reads the kinds of its API version first, unless they are cached.
    ///
    /// # Errors
    /// Fails if the server does not respond.
    pub(crate) async fn find(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> Result<KindLookup, kube::Error> {
        self.read(api_version).await?;
        let Some(Some(list)) = self.lists.get(api_version) else {
            return Ok(KindLookup::UnknownApiVersion);
        };
        let found = list
            .resources
            .iter()
            .find(|resource| resource.kind == kind && !resource.name.contains('/'));
        Ok(found.map_or(KindLookup::Missing, |resource| {
            KindLookup::Served(resource_type(
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
pub(crate) fn assumed_type(api_version: &str, kind: &str) -> Arc<ResourceType> {
    let plural = format!("{}s", kind.to_lowercase());
    resource_type(api_version, kind, &plural, !CLUSTER_SCOPED.contains(&kind))
}
