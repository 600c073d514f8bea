//! Requests about the Works in clusters that are no longer targets of their binding: they are deleted, reduced or kept, as
//! the migration says.

use std::sync::Arc;

use berth_api::Work;
use berth_apimachinery::api_error::has_code;
use berth_interpreter::{InterpretError, Interpreter};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{SyncError, WorkSyncer};
use crate::propagation::binding::migration::observed::{Leaving, Migration};
use crate::propagation::binding::recorded_events;
use crate::propagation::binding::sync_input::SyncInput;
use crate::suspension::is_suspended;

impl WorkSyncer {
    /// Deletes or reduces the Works in clusters that are no targets.
    pub(super) async fn write_orphans(
        &self,
        input: &SyncInput,
        migration: &Migration,
        written: &mut Vec<Work>,
    ) -> Result<(), SyncError> {
        let binding = &input.binding;
        let expected = migration.expected_clusters(&binding.spec);
        let orphans = input.works.iter();
        for (cluster, works) in orphans.filter(|(cluster, _)| !expected.contains(*cluster)) {
            for work in works {
                let changed = match migration.leaving(cluster) {
                    Leaving::Delete => self.remove_orphan(input, cluster, work, written).await,
                    Leaving::Keep => Ok(()),
                    Leaving::Reduce(replicas) => {
                        self.reduce_orphan(input, cluster, work, replicas, written)
                            .await
                    }
                };
                if let Err(error) = changed {
                    if !error.is_transient() {
                        recorded_events::cleanup_failed(&self.events, binding, &error.to_string());
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Reduces the replicas in the Work of a cluster that is no target. Everything else of the Work stays as it is: a
    /// copy that leaves gets no new version.
    async fn reduce_orphan(
        &self,
        input: &SyncInput,
        cluster: &str,
        work: &Work,
        replicas: i32,
        written: &mut Vec<Work>,
    ) -> Result<(), SyncError> {
        let is_deleting = work.metadata.deletion_timestamp.is_some();
        let Some(manifest) = work.spec.workload.manifests.first() else {
            return Ok(());
        };
        if is_deleting || is_suspended(&input.binding.spec, cluster) {
            return Ok(());
        }
        let revise = |rules: &Interpreter| {
            let mut manifest = manifest.clone();
            rules.revise_replicas(&mut manifest, replicas)?;
            Ok::<_, InterpretError>(manifest)
        };
        let manifest = self.interpreter.interpret(revise).await?;
        let spec = json!({ "workload": { "manifests": [manifest] } });
        written.extend(self.patch_work_spec(work, spec).await?);
        Ok(())
    }

    /// Deletes a Work whose cluster is no longer a target. While dispatching to the cluster is suspended, the Work stays
    /// and is only marked as suspended. `preserveResourcesOnDeletion` concerns the deletion of the template: a workload
    /// that moves to another cluster leaves no object behind.
    async fn remove_orphan(
        &self,
        input: &SyncInput,
        cluster: &str,
        work: &Arc<Work>,
        written: &mut Vec<Work>,
    ) -> Result<(), SyncError> {
        if work.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let spec = &input.binding.spec;
        if is_suspended(spec, cluster) {
            if work.spec.suspend_dispatching != Some(true) {
                let suspended = json!({ "suspendDispatching": true });
                written.extend(self.patch_work_spec(work, suspended).await?);
            }
            return Ok(());
        }
        // A dependency whose last requiring template is deleted keeps the setting of this template.
        let is_move = spec.placement.is_some() || spec.preserve_resources_on_deletion == Some(true);
        let cluster = input.clusters.get(cluster);
        let stays = cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
        if work.spec.preserve_resources_on_deletion == Some(true) && is_move && stays {
            let removed = json!({ "preserveResourcesOnDeletion": false });
            written.extend(self.patch_work_spec(work, removed).await?);
        }
        self.delete(work).await
    }

    /// Changes fields of a Work's spec. Returns the written Work, or `None` if the Work no longer exists.
    async fn patch_work_spec(&self, work: &Work, spec: Value) -> Result<Option<Work>, SyncError> {
        let meta = &work.metadata;
        let patch =
            json!({ "metadata": { "resourceVersion": meta.resource_version }, "spec": spec });
        let name = meta.name.as_deref().unwrap_or_default();
        let patched = self
            .works(work)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(work) => Ok(Some(work)),
            Err(error) if has_code(&error, 404) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
