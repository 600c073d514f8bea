//! The sync controller: writes a Work with a ResourceQuota for each cluster that a quota assigns limits to, and removes
//! the Works of other clusters and of deleted quotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::well_known::{
    MANAGED, MANAGED_VALUE, QUOTA_NAME, QUOTA_NAMESPACE, WORK_NAME, WORK_NAMESPACE,
};
use berth_api::{FederatedResourceQuota, Work, names};
use berth_apimachinery::api_error::{has_code, is_stale};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::task::{Outcome, QuotaError};
use crate::owned_work::{Ensured, WriteError};
use crate::propagation::binding::desired_work::DesiredWork;
use crate::propagation::binding::work_patch;
use crate::reconciler::observe::ObjectName;

/// Returns the name of the quota that a Work belongs to, according to its labels.
pub(super) fn quota_of(work: &Work) -> ObjectName {
    let label = |key: &str| work.labels().get(key).cloned().unwrap_or_default();
    (label(QUOTA_NAMESPACE), label(QUOTA_NAME))
}

/// The Works to write and to delete.
#[derive(Debug, Default)]
pub(super) struct Changes {
    write: Vec<DesiredWork>,
    delete: Vec<Arc<Work>>,
}

/// Returns the changes for a quota, which is `None` if it was deleted. `works` are the stored Works of the quota.
pub(super) fn changes(
    name: &ObjectName,
    quota: Option<&FederatedResourceQuota>,
    clusters: &BTreeSet<String>,
    works: &[Arc<Work>],
) -> Changes {
    let clusters = clusters.iter();
    let write: Vec<DesiredWork> = clusters
        .filter_map(|cluster| desired(name, quota?, cluster))
        .collect();
    let is_assigned = |work: &Work| {
        let namespace = work.namespace().unwrap_or_default();
        let cluster = names::cluster_of_execution_namespace(&namespace);
        let hard = quota.zip(cluster);
        hard.is_some_and(|(quota, cluster)| quota.spec.assigned_to(cluster).is_some())
    };
    let stored = works.iter();
    let orphans = stored.filter(|work| work.metadata.deletion_timestamp.is_none());
    let delete = orphans.filter(|work| !is_assigned(work)).cloned().collect();
    Changes { write, delete }
}

/// Returns the Work of a quota for a cluster, or `None` if the quota assigns no limits to the cluster.
fn desired(
    (namespace, name): &ObjectName,
    quota: &FederatedResourceQuota,
    cluster: &str,
) -> Option<DesiredWork> {
    let hard = quota.spec.assigned_to(cluster)?;
    let work = names::work_name("ResourceQuota", name, namespace);
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": { (MANAGED): MANAGED_VALUE },
            "annotations": {
                (WORK_NAME): work,
                (WORK_NAMESPACE): names::execution_namespace(cluster),
            },
        },
        "spec": { "hard": hard },
    });
    let labels = [
        (QUOTA_NAMESPACE, namespace.clone()),
        (QUOTA_NAME, name.clone()),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value));
    Some(DesiredWork {
        cluster: cluster.to_owned(),
        name: work,
        labels: BTreeMap::from(labels),
        annotations: BTreeMap::new(),
        manifest,
        suspended: false,
        preserved: false,
    })
}

/// Writes and deletes Works. A failure does not prevent the other changes.
pub(super) async fn apply(client: &Client, changes: Changes) -> Outcome {
    let mut outcome = Outcome::Done;
    for work in &changes.delete {
        if let Err(error) = delete(client, work).await {
            outcome = Outcome::Failed(QuotaError(error.into()));
        }
    }
    for work in &changes.write {
        match ensure(client, work).await {
            Ok(Ensured::Unfinished) if matches!(outcome, Outcome::Done) => outcome = Outcome::Again,
            Ok(_) => {}
            Err(error) => outcome = Outcome::Failed(QuotaError(error)),
        }
    }
    outcome
}

async fn delete(client: &Client, work: &Work) -> Result<(), kube::Error> {
    let namespace = work.namespace().unwrap_or_default();
    let works: Api<Work> = Api::namespaced(client.clone(), &namespace);
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: work.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match works.delete(&work.name_any(), &parameters).await {
        Ok(_) => Ok(()),
        // Another object has the name by now.
        Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn ensure(client: &Client, desired: &DesiredWork) -> Result<Ensured, WriteError> {
    let works: Api<Work> = Api::namespaced(client.clone(), &desired.namespace());
    let written = match works.get_opt(&desired.name).await? {
        None => {
            let id = uuid::Uuid::new_v4().to_string();
            let new: Work = serde_json::from_value(work_patch::new_work(desired, &id))?;
            works.create(&PostParams::default(), &new).await.map(drop)
        }
        // A terminating Work must be deleted first.
        Some(work) if work.metadata.deletion_timestamp.is_some() => {
            return Ok(Ensured::Unfinished);
        }
        Some(work) => match work_patch::patch_for(&work, desired) {
            None => return Ok(Ensured::Unchanged),
            Some(patch) => {
                let parameters = PatchParams::default();
                let patch = Patch::Merge(patch);
                works
                    .patch(&desired.name, &parameters, &patch)
                    .await
                    .map(drop)
            }
        },
    };
    match written {
        Ok(()) => Ok(Ensured::Written),
        // The execution namespace does not exist yet, or the Work has changed.
        Err(error) if is_stale(&error) => Ok(Ensured::Unfinished),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(clusters: &[&str]) -> FederatedResourceQuota {
        let assignments = clusters.iter();
        let assignments: Vec<_> = assignments
            .map(|cluster| json!({ "clusterName": cluster, "hard": { "cpu": "2" } }))
            .collect();
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "team" },
            "spec": { "overall": { "cpu": "10" }, "staticAssignments": assignments },
        }))
        .unwrap()
    }

    fn name() -> ObjectName {
        ("shop".to_owned(), "team".to_owned())
    }

    fn work(cluster: &str) -> Arc<Work> {
        let desired = desired(&name(), &quota(&[cluster]), cluster).unwrap();
        let work = serde_json::from_value(work_patch::new_work(&desired, "w")).unwrap();
        Arc::new(work)
    }

    #[test]
    fn assigned_clusters_get_a_work_and_other_works_are_deleted() {
        let clusters = BTreeSet::from(["m1".to_owned(), "m2".to_owned(), "m3".to_owned()]);
        for (about, quota, stored, written, deleted) in [
            (
                "new quota",
                Some(quota(&["m1", "m3"])),
                vec![],
                vec!["m1", "m3"],
                vec![],
            ),
            (
                "no assignments",
                Some(quota(&[])),
                vec!["m1"],
                vec![],
                vec!["m1"],
            ),
            (
                "other cluster",
                Some(quota(&["m2"])),
                vec!["m1", "m2"],
                vec!["m2"],
                vec!["m1"],
            ),
            (
                "cluster that does not exist",
                Some(quota(&["m9"])),
                vec![],
                vec![],
                vec![],
            ),
            (
                "cluster that left",
                Some(quota(&["m9"])),
                vec!["m9"],
                vec![],
                vec![],
            ),
            (
                "deleted quota",
                None,
                vec!["m1", "m2"],
                vec![],
                vec!["m1", "m2"],
            ),
        ] {
            let stored: Vec<Arc<Work>> = stored.into_iter().map(work).collect();
            let changes = changes(&name(), quota.as_ref(), &clusters, &stored);
            let write: Vec<&str> = changes.write.iter().map(|work| &*work.cluster).collect();
            let namespaces = changes.delete.iter().map(|work| work.namespace().unwrap());
            let delete: Vec<String> = namespaces
                .map(|namespace| namespace.trim_start_matches("karmada-es-").to_owned())
                .collect();
            assert_eq!(write, written, "{about}");
            assert_eq!(delete, deleted, "{about}");
        }
    }

    #[test]
    fn the_work_contains_the_resource_quota_and_names_the_federated_quota() {
        let work = work("m1");
        assert_eq!(
            work.name_any(),
            names::work_name("ResourceQuota", "team", "shop")
        );
        assert_eq!(work.namespace().as_deref(), Some("karmada-es-m1"));
        assert_eq!(quota_of(&work), name());
        let manifest = &work.spec.workload.manifests[0];
        assert_eq!(manifest["metadata"]["namespace"], "shop");
        assert_eq!(manifest["spec"]["hard"], json!({ "cpu": "2" }));
        let desired = desired(&name(), &quota(&["m1"]), "m1").unwrap();
        assert_eq!(work_patch::patch_for(&work, &desired), None);
    }
}
