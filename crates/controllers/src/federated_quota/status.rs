//! The status controller: aggregates the status of a quota's ResourceQuotas in members from the Works.

use std::sync::Arc;

use berth_api::cluster::ResourceList;
use berth_api::federated_quota::Amounts;
use berth_api::federated_resource_quota::{ClusterQuotaStatus, FederatedResourceQuotaStatus};
use berth_api::well_known::CONDITION_APPLIED;
use berth_api::{FederatedResourceQuota, Work, condition, names};
use berth_apimachinery::merge_diff::merge_diff;
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::StatusController;

/// The status of a ResourceQuota in a member.
#[derive(Default, Deserialize)]
struct ResourceQuotaStatus {
    #[serde(default)]
    hard: ResourceList,
    #[serde(default)]
    used: ResourceList,
}

/// Returns the patch of the status, or `None` if the status is up to date.
pub(super) fn patch(
    quota: &FederatedResourceQuota,
    works: &[Arc<Work>],
    source: StatusController,
) -> Option<Value> {
    let old = quota.status.clone().unwrap_or_default();
    let mut new = FederatedResourceQuotaStatus {
        aggregated_status: aggregated(works),
        ..old.clone()
    };
    if source == StatusController::SumOfMembers {
        let clusters = new.aggregated_status.iter();
        let used: Amounts = clusters.map(|cluster| Amounts::of(&cluster.used)).sum();
        new.overall = quota.spec.overall.clone();
        new.overall_used = used.to_list();
    }
    status_patch(quota, &old, &new)
}

/// Returns the merge patch of a status with the resourceVersion of the quota, or `None` if both states are equal.
pub(super) fn status_patch(
    quota: &FederatedResourceQuota,
    old: &FederatedResourceQuotaStatus,
    new: &FederatedResourceQuotaStatus,
) -> Option<Value> {
    let changed = merge_diff(&json!(old), &json!(new))?;
    Some(json!({
        "metadata": { "resourceVersion": quota.metadata.resource_version },
        "status": changed,
    }))
}

/// Returns the status in each cluster that has applied its Work and reports the status of the ResourceQuota, ordered by
/// the names of the clusters.
fn aggregated(works: &[Arc<Work>]) -> Vec<ClusterQuotaStatus> {
    let mut clusters: Vec<ClusterQuotaStatus> =
        works.iter().filter_map(|work| of_work(work)).collect();
    clusters.sort_by(|one, other| one.cluster_name.cmp(&other.cluster_name));
    clusters
}

fn of_work(work: &Work) -> Option<ClusterQuotaStatus> {
    let status = work.status.as_ref()?;
    let applied = condition::find(&status.conditions, CONDITION_APPLIED)?;
    if applied.status != "True" {
        return None;
    }
    let reported = status.manifest_statuses.first()?;
    let reported = ResourceQuotaStatus::deserialize(reported.status.as_ref()?).ok()?;
    let namespace = work.namespace()?;
    Some(ClusterQuotaStatus {
        cluster_name: names::cluster_of_execution_namespace(&namespace)?.to_owned(),
        hard: reported.hard,
        used: reported.used,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(status: &Value) -> FederatedResourceQuota {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "team", "resourceVersion": "7" },
            "spec": { "overall": { "cpu": "10" } },
            "status": status,
        }))
        .unwrap()
    }

    fn work(cluster: &str, applied: &str, used: &str) -> Arc<Work> {
        let condition = json!({ "type": "Applied", "status": applied, "reason": "r", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let identifier = json!({ "ordinal": 0, "version": "v1", "kind": "ResourceQuota",
            "resource": "", "namespace": "shop", "name": "team" });
        let work = json!({
            "metadata": { "namespace": format!("karmada-es-{cluster}"), "name": "w" },
            "spec": {},
            "status": { "conditions": [condition], "manifestStatuses": [{
                "identifier": identifier,
                "status": { "hard": { "cpu": "5" }, "used": { "cpu": used } } }] },
        });
        Arc::new(serde_json::from_value(work).unwrap())
    }

    #[test]
    fn the_status_of_applied_works_is_aggregated_by_cluster() {
        let works = [
            work("m2", "True", "1500m"),
            work("m3", "False", "9"),
            work("m1", "True", "1"),
        ];
        let clusters = json!([
            { "clusterName": "m1", "hard": { "cpu": "5" }, "used": { "cpu": "1" } },
            { "clusterName": "m2", "hard": { "cpu": "5" }, "used": { "cpu": "1500m" } },
        ]);
        for (about, source, old, expected) in [
            (
                "sum of members",
                StatusController::SumOfMembers,
                json!({ "overallUsed": { "cpu": "1", "memory": "1Gi" } }),
                Some(json!({
                    "aggregatedStatus": clusters, "overall": { "cpu": "10" },
                    "overallUsed": { "cpu": "2500m", "memory": null },
                })),
            ),
            (
                "usage of bindings",
                StatusController::Bindings,
                json!({ "overallUsed": { "cpu": "1" } }),
                Some(json!({ "aggregatedStatus": clusters })),
            ),
            (
                "up to date",
                StatusController::Bindings,
                json!({ "overallUsed": { "cpu": "1" }, "aggregatedStatus": clusters }),
                None,
            ),
        ] {
            let patch = patch(&quota(&old), &works, source);
            let status = patch.as_ref().map(|patch| patch["status"].clone());
            assert_eq!(status, expected, "{about}");
            let version = patch.map(|patch| patch["metadata"]["resourceVersion"].clone());
            assert_eq!(version, expected.map(|_| json!("7")), "{about}");
        }
    }
}
