//! Lists of the bindings, clusters and quotas of a control plane.

use std::fmt::Debug;
use std::sync::Arc;

use berth_api::{
    Binding, Cluster, ClusterResourceBinding, ClusterScore, FederatedResourceQuota, ResourceBinding,
};
use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_component_base::paged_list::list_all;
use berth_scheduler::config::QuotaEnforcement;
use kube::api::{Api, ApiResource};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::control_plane_state::{Clusters, ControlPlaneState};

/// A list that the control plane refuses.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {resource}: {reason}")]
pub struct ListError {
    /// Plural name of the requested resource.
    pub resource: &'static str,
    /// Cause.
    pub reason: String,
}

/// Returns the resources that contain placements: Clusters and the two kinds of bindings.
pub fn placement_resources() -> [ApiResource; 3] {
    [
        ApiResource::erase::<Cluster>(&()),
        ApiResource::erase::<ResourceBinding>(&()),
        ApiResource::erase::<ClusterResourceBinding>(&()),
    ]
}

/// Lists the ResourceBindings of a namespace, or of all namespaces, and all ClusterResourceBindings.
///
/// # Errors
/// When the control plane refuses a request.
pub async fn bindings(client: &Client, namespace: Option<&str>) -> Result<Vec<Binding>, ListError> {
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

/// Lists the ResourceBindings of a namespace.
pub(crate) async fn bindings_in(
    client: &Client,
    namespace: &str,
) -> Result<Vec<Binding>, ListError> {
    let api: Api<ResourceBinding> = Api::namespaced(client.clone(), namespace);
    let bindings = list(&api, "resourcebindings").await?;
    Ok(bindings.into_iter().map(Binding::from).collect())
}

/// Lists the FederatedResourceQuotas of a namespace.
pub(crate) async fn quotas(
    client: &Client,
    namespace: &str,
) -> Result<Vec<FederatedResourceQuota>, ListError> {
    let api: Api<FederatedResourceQuota> = Api::namespaced(client.clone(), namespace);
    list(&api, "federatedresourcequotas").await
}

/// Lists the FederatedResourceQuotas of all namespaces. The list is empty if the control plane does not serve this kind.
///
/// # Errors
/// When the control plane refuses the request.
async fn all_quotas(client: &Client) -> Result<Vec<FederatedResourceQuota>, ListError> {
    list_if_served(client, "federatedresourcequotas").await
}

/// Lists the ClusterScores. The list is empty if the control plane does not serve this kind.
///
/// # Errors
/// When the control plane refuses the request.
pub(crate) async fn scores(client: &Client) -> Result<Vec<ClusterScore>, ListError> {
    list_if_served(client, "clusterscores").await
}

async fn list_if_served<K>(client: &Client, resource: &'static str) -> Result<Vec<K>, ListError>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match list_all(&Api::all(client.clone())).await {
        Err(error) if has_code(&error, 404) => Ok(Vec::new()),
        listed => listed.map_err(|error| ListError {
            resource,
            reason: api_error_message(&error),
        }),
    }
}

/// Returns the state of a control plane with these clusters: reads its bindings, its scores and, if `quotas` are enforced,
/// its quotas. Scores and quotas that cannot be read are left out, and the second value has a remark about each of them.
///
/// # Errors
/// When the control plane refuses to list the bindings.
pub(crate) async fn state(
    client: &Client,
    clusters: Clusters,
    quotas: QuotaEnforcement,
) -> Result<(ControlPlaneState, Vec<String>), ListError> {
    let bindings = bindings(client, None).await?.into_iter();
    let mut remarks = Vec::new();
    let scores = scores(client).await.unwrap_or_else(|error| {
        remarks.push(format!("scores are ignored: {error}"));
        Vec::new()
    });
    let quotas = match quotas {
        QuotaEnforcement::On => all_quotas(client).await.unwrap_or_else(|error| {
            remarks.push(format!("quotas are ignored: {error}"));
            Vec::new()
        }),
        QuotaEnforcement::Off => Vec::new(),
    };
    let state = ControlPlaneState {
        clusters,
        scores: scores.into(),
        bindings: bindings
            .map(|binding| (binding.key.clone(), binding.into()))
            .collect(),
        quotas: quotas.into(),
        ..ControlPlaneState::default()
    };
    Ok((state, remarks))
}

/// Lists the clusters, keyed by name.
pub(crate) async fn clusters(client: &Client) -> Result<Clusters, ListError> {
    let clusters = list(&Api::<Cluster>::all(client.clone()), "clusters").await?;
    let named = clusters
        .into_iter()
        .map(|cluster| (cluster.name_any(), Arc::new(cluster)));
    Ok(named.collect())
}

async fn list<K>(api: &Api<K>, resource: &'static str) -> Result<Vec<K>, ListError>
where
    K: Clone + DeserializeOwned + Debug,
{
    list_all(api).await.map_err(|error| ListError {
        resource,
        reason: api_error_message(&error),
    })
}
