//! One look at a Cluster: what it should have is made, and what is left of it is taken away when it goes.

use std::collections::HashMap;

use berth_api::cluster::SyncMode;
use berth_api::names::execution_namespace;
use berth_api::well_known::{CLUSTER_FINALIZER, EXECUTION_FINALIZER, NAMESPACE_CLUSTER, SYSTEM};
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding, Work};
use berth_apimachinery::api_error::api_error_message;
use berth_events::{EventRecorder, Happening, Severity};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::heartbeat::ready;
use super::taints;

/// How many bindings are read at once.
const PAGE: u32 = 500;

/// What a look at a Cluster came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing is left to do until it changes.
    Done,
    /// It is to be looked at again, whether it changes or not.
    Unfinished,
}

pub(super) struct Keeper {
    client: Client,
    events: EventRecorder,
}

impl Keeper {
    pub(super) fn new(client: Client, events: EventRecorder) -> Self {
        Self { client, events }
    }

    pub(super) async fn look(&self, cluster: &Cluster) -> Result<Outcome, kube::Error> {
        if cluster.metadata.deletion_timestamp.is_some() {
            self.remove(cluster).await
        } else {
            self.furnish(cluster).await
        }
    }

    /// The execution namespace, the taints and the finalizer.
    async fn furnish(&self, cluster: &Cluster) -> Result<Outcome, kube::Error> {
        let space = self.make_space(cluster).await?;
        let now = jiff::Timestamp::now();
        let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
        let taints = taints::adjusted(&cluster.spec.taints, ready(cluster), &now);
        let finalizers = cluster.finalizers();
        let unfinalized = !finalizers.iter().any(|f| f == CLUSTER_FINALIZER);
        let mut patch = json!({});
        if let Some(taints) = &taints {
            patch["spec"]["taints"] = json!(taints);
        }
        if unfinalized {
            let all: Vec<&str> = finalizers
                .iter()
                .map(String::as_str)
                .chain([CLUSTER_FINALIZER])
                .collect();
            patch["metadata"]["finalizers"] = json!(all);
        }
        if taints.is_some() || unfinalized {
            self.change(cluster, patch).await?;
        }
        if let Some(taints) = &taints {
            let message = format!("Taint cluster succeed: {}.", taints::told(taints));
            self.tell(cluster, Severity::Normal, "TaintClusterSucceed", message);
        }
        Ok(space)
    }

    async fn make_space(&self, cluster: &Cluster) -> Result<Outcome, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let name = execution_namespace(&cluster.name_any());
        match namespaces.get_opt(&name).await? {
            // Of a Cluster of the same name that went a moment ago.
            Some(there) if there.metadata.deletion_timestamp.is_some() => {
                return Ok(Outcome::Unfinished);
            }
            Some(_) => return Ok(Outcome::Done),
            None => {}
        }
        let space = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([(SYSTEM.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        match namespaces.create(&PostParams::default(), &space).await {
            Ok(_) => {
                let message = format!(
                    "Created execution space({name}) for cluster({}).",
                    cluster.name_any()
                );
                self.tell(
                    cluster,
                    Severity::Normal,
                    "CreateExecutionSpaceSucceed",
                    message,
                );
                Ok(Outcome::Done)
            }
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                Ok(Outcome::Unfinished)
            }
            Err(error) => {
                let message = api_error_message(&error);
                self.tell(
                    cluster,
                    Severity::Warning,
                    "CreateExecutionSpaceFailed",
                    message,
                );
                Err(error)
            }
        }
    }

    /// Lets the Cluster go once its execution namespace is empty and gone, and no binding places anything in it.
    async fn remove(&self, cluster: &Cluster) -> Result<Outcome, kube::Error> {
        if !cluster.finalizers().iter().any(|f| f == CLUSTER_FINALIZER) {
            return Ok(Outcome::Done);
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let name = execution_namespace(&cluster.name_any());
        match namespaces.get_opt(&name).await? {
            Some(there) => {
                if there.metadata.deletion_timestamp.is_none() {
                    self.remove_space(cluster, &namespaces, &name).await?;
                }
                if cluster.spec.sync_mode == SyncMode::Pull && !is_ready(cluster) {
                    self.release_works(&name).await?;
                }
                return Ok(Outcome::Unfinished);
            }
            None if self.is_placed_upon(cluster).await? => return Ok(Outcome::Unfinished),
            None => {}
        }
        let others: Vec<&String> = cluster
            .finalizers()
            .iter()
            .filter(|f| *f != CLUSTER_FINALIZER)
            .collect();
        self.change(cluster, json!({ "metadata": { "finalizers": others } }))
            .await?;
        Ok(Outcome::Done)
    }

    async fn remove_space(
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
                self.tell(
                    cluster,
                    Severity::Normal,
                    "RemoveExecutionSpaceSucceed",
                    message,
                );
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => {
                let message = api_error_message(&error);
                self.tell(
                    cluster,
                    Severity::Warning,
                    "RemoveExecutionSpaceFailed",
                    message,
                );
                Err(error)
            }
        }
    }

    /// Lets the Works go that wait for an agent which is not there any more.
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
            unless_overtaken(released)?;
        }
        Ok(())
    }

    /// When the Leases of clusters were renewed last.
    pub(super) async fn renewals(&self) -> Result<HashMap<String, Timestamp>, kube::Error> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE_CLUSTER);
        let leases = leases.list(&ListParams::default()).await?;
        let renewed = leases.into_iter().filter_map(|lease| {
            let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
            Some((lease.name_any(), renewed))
        });
        Ok(renewed.collect())
    }

    /// Gives a Cluster this condition in place of the one of its type.
    pub(super) async fn doubt(
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
        unless_overtaken(patched)
    }

    async fn is_placed_upon(&self, cluster: &Cluster) -> Result<bool, kube::Error> {
        let name = cluster.name_any();
        macro_rules! any {
            ($kind:ty) => {{
                let api: Api<$kind> = Api::all(self.client.clone());
                let mut page = ListParams::default().limit(PAGE);
                loop {
                    let list = api.list(&page).await?;
                    let there =
                        |binding: &$kind| binding.spec.clusters.iter().any(|t| t.name == name);
                    if list.items.iter().any(there) {
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

    /// Changes a Cluster; what others changed meanwhile comes back as another look.
    async fn change(
        &self,
        cluster: &Cluster,
        mut patch: serde_json::Value,
    ) -> Result<(), kube::Error> {
        patch["metadata"]["resourceVersion"] = json!(cluster.metadata.resource_version);
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let changed = clusters
            .patch(
                &cluster.name_any(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await;
        unless_overtaken(changed)
    }

    fn tell(&self, cluster: &Cluster, severity: Severity, reason: &'static str, message: String) {
        self.events.record(Happening {
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

/// What was written, unless the object has changed or gone meanwhile: then there is another look.
fn unless_overtaken<T>(written: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match written {
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(()),
        written => written.map(drop),
    }
}
