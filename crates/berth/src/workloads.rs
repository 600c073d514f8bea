//! The workloads of a control plane, as `berth status` and `berth top` read and show them. The crate `berth_diagnosis`
//! tells whether a workload is well; this module must not.

pub(crate) mod table;

use std::fmt::Debug;

use berth_api::{Binding, Cluster, ClusterResourceBinding, ResourceBinding};
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::paged_list::list_all;
use berth_diagnosis::{ClusterState, ClusterStates, HealthCounts, WorkloadRow, workload_rows};
use jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;

/// A list that the control plane refuses.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {what}: {}", api_error_message(.source))]
pub struct ListError {
    /// Plural name of the kind.
    what: &'static str,
    /// Cause.
    source: Box<kube::Error>,
}

/// The bindings and clusters of a control plane.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) bindings: Vec<Binding>,
}

impl Workloads {
    /// Lists all clusters, and the bindings of a namespace, or all bindings. The bindings of cluster-scoped resources
    /// belong to no namespace.
    ///
    /// # Errors
    /// When the control plane refuses a list.
    pub(crate) async fn list(client: &Client, namespace: Option<&str>) -> Result<Self, ListError> {
        let clusters = list(&Api::<Cluster>::all(client.clone()), "clusters").await?;
        let namespaced: Api<ResourceBinding> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let namespaced = list(&namespaced, "resourcebindings").await?;
        let mut bindings: Vec<Binding> = namespaced.into_iter().map(Binding::from).collect();
        if namespace.is_none() {
            let cluster_scoped: Api<ClusterResourceBinding> = Api::all(client.clone());
            let cluster_scoped = list(&cluster_scoped, "clusterresourcebindings").await?;
            bindings.extend(cluster_scoped.into_iter().map(Binding::from));
        }
        Ok(Self { clusters, bindings })
    }

    /// Returns the states of the clusters.
    pub(crate) fn cluster_states(&self) -> ClusterStates {
        let clusters = self.clusters.iter();
        let states = clusters.map(|cluster| (cluster.name_any(), ClusterState::of(Some(cluster))));
        states.collect()
    }

    /// Returns the rows of all workloads, the worst first, and their numbers by health.
    pub(crate) fn rows(&self, now: Timestamp) -> (Vec<WorkloadRow>, HealthCounts) {
        let (rows, counts) = workload_rows(self.bindings.iter(), &self.cluster_states(), now);
        (rows.into_iter().map(|(_, row)| row).collect(), counts)
    }
}

async fn list<K>(api: &Api<K>, what: &'static str) -> Result<Vec<K>, ListError>
where
    K: Clone + DeserializeOwned + Debug,
{
    list_all(api).await.map_err(|error| ListError {
        what,
        source: Box::new(error),
    })
}
