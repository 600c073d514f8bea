//! The reconciler of one Cluster, with the requests that it sends. [`ClusterReconciler::reconcile`] creates the
//! execution namespace of a Cluster and sets the taints and the finalizer, or deletes the execution namespace if the
//! Cluster is deleted. Other methods read the Leases of the agents and write the condition `Ready`.

use berth_apimachinery::api_error::{api_error_message, has_code, is_stale};
use berth_apimachinery::timestamp;
use std::collections::HashMap;

use berth_api::cluster::SyncMode;
use berth_api::names::execution_namespace;
use berth_api::well_known::{CLUSTER_FINALIZER, EXECUTION_FINALIZER, NAMESPACE_CLUSTER};
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding, Work};
use berth_events::{Event, EventRecorder, Severity};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::heartbeat::ready;
use super::taints;
use crate::execution_namespace::create_execution_namespace;

/// Maximum number of bindings in a page of a list.
const PAGE: u32 = 500;

/// The progress of reconciling a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is left to do until the Cluster changes.
    Done,
    /// The Cluster must be reconciled again later, even if it does not change.
    Unfinished,
}

/// A client of the control plane that reconciles Clusters. Clones are cheap.
#[derive(Clone)]
pub(super) struct ClusterReconciler {
    client: Client,
    events: EventRecorder,
}

impl ClusterReconciler {
    pub(super) fn new(client: Client, events: EventRecorder) -> Self {
        Self { client, events }
    }

    /// Reconciles a Cluster.
    pub(super) async fn reconcile(&self, cluster: &Cluster) -> Result<Progress, kube::Error> {
        if cluster.metadata.deletion_timestamp.is_some() {
            self.remove(cluster).await
        } else {
            self.ensure(cluster).await
        }
    }

    /// Creates the execution namespace of a Cluster, and sets the taints and the finalizer.
    async fn ensure(&self, cluster: &Cluster) -> Result<Progress, kube::Error> {
        let progress = self.ensure_execution_namespace(cluster).await?;
        let taints = taints::adjusted(
            &cluster.spec.taints,
            ready(cluster),
            &Time(timestamp::now()),
        );
        let finalizers = cluster.finalizers();
        let lacks_finalizer = !finalizers.iter().any(|f| f == CLUSTER_FINALIZER);
        let mut patch = json!({});
        if let Some(taints) = &taints {
            patch["spec"]["taints"] = json!(taints);
        }
        if lacks_finalizer {
            let all: Vec<&str> = finalizers
                .iter()
                .map(String::as_str)
                .chain([CLUSTER_FINALIZER])
                .collect();
            patch["metadata"]["finalizers"] = json!(all);
        }
        if taints.is_some() || lacks_finalizer {
            self.patch(cluster, patch).await?;
        }
        if let Some(taints) = &taints {
            let message = format!("Taint cluster succeed: {}.", taints::describe(taints));
            self.record(cluster, Severity::Normal, "TaintClusterSucceed", message);
        }
        Ok(progress)
    }

    async fn ensure_execution_namespace(&self, cluster: &Cluster) -> Result<Progress, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let name = execution_namespace(&cluster.name_any());
        match namespaces.get_opt(&name).await? {
            // This namespace was created for a deleted Cluster of the same name. A new namespace can be created only
            // when this namespace no longer exists.
            Some(existing) if existing.metadata.deletion_timestamp.is_some() => {
                return Ok(Progress::Unfinished);
            }
            Some(_) => return Ok(Progress::Done),
            None => {}
        }
        match create_execution_namespace(self.client.clone(), &cluster.name_any()).await {
            Ok(()) => {
                let message = format!(
                    "Created execution space({name}) for cluster({}).",
                    cluster.name_any()
                );
                self.record(
                    cluster,
                    Severity::Normal,
                    "CreateExecutionSpaceSucceed",
                    message,
                );
                Ok(Progress::Done)
            }
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                Ok(Progress::Unfinished)
            }
            Err(error) => {
                let message = api_error_message(&error);
                self.record(
                    cluster,
                    Severity::Warning,
                    "CreateExecutionSpaceFailed",
                    message,
                );
                Err(error)
            }
        }
    }

    /// Deletes the execution namespace of a deleted Cluster. Removes the Cluster's finalizer once this namespace no
    /// longer exists and no binding is placed on the Cluster.
    async fn remove(&self, cluster: &Cluster) -> Result<Progress, kube::Error> {
        if !cluster.finalizers().iter().any(|f| f == CLUSTER_FINALIZER) {
            return Ok(Progress::Done);
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let name = execution_namespace(&cluster.name_any());
        match namespaces.get_opt(&name).await? {
            Some(existing) => {
                if existing.metadata.deletion_timestamp.is_none() {
                    self.remove_execution_namespace(cluster, &namespaces, &name)
                        .await?;
                }
                if cluster.spec.sync_mode == SyncMode::Pull && !is_ready(cluster) {
                    self.release_works(&name).await?;
                }
                return Ok(Progress::Unfinished);
            }
            None if self.has_bindings(cluster).await? => return Ok(Progress::Unfinished),
            None => {}
        }
        let others: Vec<&String> = cluster
            .finalizers()
            .iter()
            .filter(|f| *f != CLUSTER_FINALIZER)
            .collect();
        self.patch(cluster, json!({ "metadata": { "finalizers": others } }))
            .await?;
        Ok(Progress::Done)
    }

    async fn remove_execution_namespace(
        &self,
        cluster: &Cluster,
        namespaces: &Api<Namespace>,
        name: &str,
    ) -> Result<(), kube::Error> {
        match namespaces.delete(name, &DeleteParams::default()).await {
            Ok(_) => {
                let message = format!(
                    "Removed execution space for cluster({}).",
                    cluster.name_any()
                );
                self.record(
                    cluster,
                    Severity::Normal,
                    "RemoveExecutionSpaceSucceed",
                    message,
                );
                Ok(())
            }
            Err(error) if has_code(&error, 404) => Ok(()),
            Err(error) => {
                let message = api_error_message(&error);
                self.record(
                    cluster,
                    Severity::Warning,
                    "RemoveExecutionSpaceFailed",
                    message,
                );
                Err(error)
            }
        }
    }

    /// Removes the execution finalizer from the Works in a namespace, because a stopped agent no longer removes this
    /// finalizer.
    async fn release_works(&self, namespace: &str) -> Result<(), kube::Error> {
        let works: Api<Work> = Api::namespaced(self.client.clone(), namespace);
        for work in works.list(&ListParams::default()).await? {
            let finalizers = work.finalizers();
            if !finalizers.iter().any(|f| f == EXECUTION_FINALIZER) {
                continue;
            }
            let others = finalizers.iter().filter(|f| *f != EXECUTION_FINALIZER);
            let patch = json!({ "metadata": {
                "finalizers": others.collect::<Vec<_>>(),
                "resourceVersion": work.metadata.resource_version } });
            let (name, patch) = (work.name_any(), Patch::Merge(patch));
            let released = works.patch(&name, &PatchParams::default(), &patch).await;
            ignore_stale(released)?;
        }
        Ok(())
    }

    /// Returns the renew times of the Leases of all agents, by cluster.
    pub(super) async fn renew_times(&self) -> Result<HashMap<String, Timestamp>, kube::Error> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE_CLUSTER);
        let leases = leases.list(&ListParams::default()).await?;
        let renew_times = leases.into_iter().filter_map(|lease| {
            let renew_time = lease.spec.as_ref()?.renew_time.as_ref()?.0;
            Some((lease.name_any(), renew_time))
        });
        Ok(renew_times.collect())
    }

    /// Writes a condition to the status of a Cluster, in place of the condition of the same type.
    pub(super) async fn set_condition(
        &self,
        cluster: &Cluster,
        condition: Condition,
    ) -> Result<(), kube::Error> {
        let stored = cluster.status.as_ref().map(|status| &status.conditions);
        let mut conditions = stored.cloned().unwrap_or_default();
        conditions.retain(|other| other.type_ != condition.type_);
        conditions.push(condition);
        let patch = json!({
            "metadata": { "resourceVersion": cluster.metadata.resource_version },
            "status": { "conditions": conditions },
        });
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let (name, patch) = (cluster.name_any(), Patch::Merge(patch));
        let patched = clusters
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
        ignore_stale(patched)
    }

    async fn has_bindings(&self, cluster: &Cluster) -> Result<bool, kube::Error> {
        let name = cluster.name_any();
        macro_rules! any {
            ($kind:ty) => {{
                let api: Api<$kind> = Api::all(self.client.clone());
                let mut page = ListParams::default().limit(PAGE);
                loop {
                    let list = api.list(&page).await?;
                    let is_placed =
                        |binding: &$kind| binding.spec.clusters.iter().any(|t| t.name == name);
                    if list.items.iter().any(is_placed) {
                        return Ok(true);
                    }
                    match list.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => page = page.continue_token(&token),
                        None => break,
                    }
                }
            }};
        }
        any!(ResourceBinding);
        any!(ClusterResourceBinding);
        Ok(false)
    }

    /// Patches a Cluster. A conflict is ignored, because the watch event of the other change triggers another attempt.
    async fn patch(
        &self,
        cluster: &Cluster,
        mut patch: serde_json::Value,
    ) -> Result<(), kube::Error> {
        patch["metadata"]["resourceVersion"] = json!(cluster.metadata.resource_version);
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let patched = clusters
            .patch(
                &cluster.name_any(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await;
        ignore_stale(patched)
    }

    fn record(&self, cluster: &Cluster, severity: Severity, reason: &'static str, message: String) {
        self.events.record(Event {
            object: cluster.object_ref(&()),
            severity,
            reason,
            message,
        });
    }
}

fn is_ready(cluster: &Cluster) -> bool {
    ready(cluster).is_some_and(|condition| condition.status == "True")
}

/// Ignores the error of a write to a changed or deleted object, because the watch event of the change triggers another
/// attempt.
fn ignore_stale<T>(written: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match written {
        Err(error) if is_stale(&error) => Ok(()),
        written => written.map(drop),
    }
}
