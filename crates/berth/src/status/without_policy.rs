//! The workloads of a control plane that no policy propagates. They have no binding, so that no list of bindings shows them.

use std::collections::HashSet;
use std::fmt::Debug;

use berth_api::Binding;
use berth_api::names::is_reserved_namespace;
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::paged_list::all_pages;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A workload without a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct UnboundWorkload {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// Returns the workloads of a namespace, or of all namespaces, that are in none of the bindings. Only the kinds of Kubernetes
/// that run pods are looked at, and objects with an owner are left out.
///
/// # Errors
/// Returns the reason why a kind cannot be listed.
pub(super) async fn read(
    client: &Client,
    namespace: Option<&str>,
    bindings: &[Binding],
) -> Result<Vec<UnboundWorkload>, String> {
    let bound: HashSet<(&str, &str, &str)> = bindings
        .iter()
        .map(|binding| {
            let resource = &binding.spec.resource;
            let namespace = resource.namespace.as_deref().unwrap_or_default();
            (namespace, resource.kind.as_str(), resource.name.as_str())
        })
        .collect();
    let lists = tokio::try_join!(
        list::<Deployment>(client, namespace),
        list::<StatefulSet>(client, namespace),
        list::<DaemonSet>(client, namespace),
        list::<Job>(client, namespace),
        list::<CronJob>(client, namespace),
    );
    let (deployments, sets, daemons, jobs, cron_jobs) =
        lists.map_err(|error| api_error_message(&error))?;
    let all = [deployments, sets, daemons, jobs, cron_jobs].into_iter();
    let mut found: Vec<UnboundWorkload> = all.flatten().collect();
    found.retain(|of| !bound.contains(&(&*of.namespace, &*of.kind, &*of.name)));
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(found)
}

async fn list<K>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<UnboundWorkload>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let api = &api;
    let request = |params| async move { api.list_metadata(&params).await };
    let objects: Vec<PartialObjectMeta<K>> = all_pages(request).await?;
    let unowned = objects.into_iter().filter(|object| {
        let namespace = object.namespace().unwrap_or_default();
        object.owner_references().is_empty()
            && object.metadata.deletion_timestamp.is_none()
            && !is_reserved_namespace(&namespace)
    });
    let workloads = unowned.map(|object| UnboundWorkload {
        namespace: object.namespace().unwrap_or_default(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
    });
    Ok(workloads.collect())
}
