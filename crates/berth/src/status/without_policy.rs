//! The workloads of a control plane that no policy propagates. They have no binding, so that no list of bindings shows them.

use std::collections::HashSet;
use std::fmt::Debug;

use berth_api::Binding;
use berth_api::names::is_reserved_namespace;
use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID,
};
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::paged_list::all_pages;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The time within which the detector looks at a new object.
const DETECTION: SignedDuration = SignedDuration::from_secs(10);
/// The labels that a policy sets on the objects that it selects.
const CLAIMS: [&str; 2] = [
    PROPAGATION_POLICY_PERMANENT_ID,
    CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
];

/// A workload that no policy has claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct UnclaimedWorkload {
    pub(super) namespace: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// Returns the workloads of a namespace, or of all namespaces, that no policy has claimed and that are in none of the bindings.
/// Only the kinds of Kubernetes that run pods are looked at. Objects with an owner are left out, and those of the last
/// seconds, which the detector may not have seen yet.
///
/// # Errors
/// Returns the reason why a kind cannot be listed.
pub(super) async fn read(
    client: &Client,
    namespace: Option<&str>,
    bindings: &[Binding],
) -> Result<Vec<UnclaimedWorkload>, String> {
    let bound: HashSet<(&str, &str, &str, &str)> = bindings
        .iter()
        .map(|binding| {
            let resource = &binding.spec.resource;
            let namespace = resource.namespace.as_deref().unwrap_or_default();
            let group = resource.api_version.split_once('/');
            let group = group.map_or("", |(group, _)| group);
            let (kind, name) = (resource.kind.as_str(), resource.name.as_str());
            (namespace, group, kind, name)
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
    let mut found: Vec<UnclaimedWorkload> = all.flatten().collect();
    found.retain(|of| !bound.contains(&(&*of.namespace, &*of.group, &*of.kind, &*of.name)));
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(found)
}

async fn list<K>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<UnclaimedWorkload>, kube::Error>
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
    let now = Timestamp::now();
    let unclaimed = objects.into_iter().filter(|object| {
        let namespace = object.namespace().unwrap_or_default();
        let created = object.creation_timestamp();
        let is_new = created.is_some_and(|created| now.duration_since(created.0) < DETECTION);
        let is_claimed = CLAIMS
            .iter()
            .any(|label| object.labels().contains_key(*label));
        object.owner_references().is_empty()
            && object.metadata.deletion_timestamp.is_none()
            && !(is_new || is_claimed || is_reserved_namespace(&namespace))
    });
    let workloads = unclaimed.map(|object| UnclaimedWorkload {
        namespace: object.namespace().unwrap_or_default(),
        group: K::group(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
    });
    Ok(workloads.collect())
}
