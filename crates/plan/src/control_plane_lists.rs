//! Lists of the bindings and clusters of a control plane.

use std::fmt::Debug;
use std::sync::Arc;

use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::paged_list::list_all;
use berth_scheduler::binding::Binding;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::error::ExplainError;
use crate::what_if::Clusters;

/// Lists the ResourceBindings of a namespace, or of all namespaces, and all ClusterResourceBindings.
pub(crate) async fn bindings(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<Binding>, ExplainError> {
    let namespaced: Api<ResourceBinding> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut bindings: Vec<Binding> = list(&namespaced, "resourcebindings")
        .await?
        .into_iter()
        .map(Binding::from)
        .collect();
    let unscoped: Api<ClusterResourceBinding> = Api::all(client.clone());
    let unscoped = list(&unscoped, "clusterresourcebindings").await?;
    bindings.extend(unscoped.into_iter().map(Binding::from));
    Ok(bindings)
}

/// Lists the clusters, keyed by name.
pub(crate) async fn clusters(client: &Client) -> Result<Clusters, ExplainError> {
    let clusters = list(&Api::<Cluster>::all(client.clone()), "clusters").await?;
    let named = clusters
        .into_iter()
        .map(|cluster| (cluster.name_any(), Arc::new(cluster)));
    Ok(named.collect())
}

async fn list<K>(api: &Api<K>, resource: &'static str) -> Result<Vec<K>, ExplainError>
where
    K: Clone + DeserializeOwned + Debug,
{
    list_all(api).await.map_err(|error| ExplainError::Read {
        what: resource,
        reason: api_error_message(&error),
    })
}
