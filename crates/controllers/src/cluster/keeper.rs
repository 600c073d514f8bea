//! One look at a Cluster: what it should have is made, and what is left of it is taken away when it goes.

use berth_api::names::execution_namespace;
use berth_api::well_known::{CLUSTER_FINALIZER, SYSTEM};
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::taints;
use crate::events::{EventRecorder, Happening, Severity};

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
        let ready = cluster
            .status
            .as_ref()
            .and_then(|status| status.conditions.iter().find(|c| c.type_ == "Ready"));
        let now = jiff::Timestamp::now();
        let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
        let taints = taints::adjusted(&cluster.spec.taints, ready, &now);
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
                let message = error.to_string();
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
                let message = error.to_string();
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
        match changed {
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(()),
            changed => changed.map(drop),
        }
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
