//! The writer of a Cluster's status and of the annotation with its nodes. It writes only the fields that differ, and
//! keeps the conditions of other clients.

use berth_api::cluster::ClusterStatus;
use berth_api::node_pools::NodePools;
use berth_api::well_known::NODE_POOLS;
use berth_api::{Cluster, condition};
use berth_apimachinery::conflict_retry::Attempts;
use berth_apimachinery::merge_diff::merge_diff;
use berth_apimachinery::timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// The collected parts of a Cluster's status.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusUpdate {
    /// Type, status, reason and message of each condition.
    pub(super) conditions: Vec<(&'static str, bool, String, String)>,
    /// The status without its conditions, or `None` if it was not collected.
    pub(super) collected: Option<ClusterStatus>,
}

/// Writes the update to the status of a Cluster. Returns the written Cluster, or `None` if nothing was written.
pub(super) async fn write(
    client: &Client,
    cluster: &Cluster,
    update: &StatusUpdate,
) -> Result<Option<Cluster>, kube::Error> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let name = cluster.name_any();
    let parameters = PatchParams::default();
    let mut attempts = Attempts::new(Some(cluster.clone()));
    while attempts.begin() {
        let Some(current) = attempts.known() else {
            return Ok(None);
        };
        let Some(status) = status_patch(&current.status.clone().unwrap_or_default(), update) else {
            return Ok(None);
        };
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": current.metadata.resource_version },
            "status": status,
        }));
        let response = clusters.patch_status(&name, &parameters, &patch).await;
        let written = attempts.end(response, clusters.get_opt(&name)).await?;
        if written.is_some() {
            return Ok(written);
        }
    }
    Ok(None)
}

/// The annotation with the nodes by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum NodePoolReport {
    /// The nodes are not known yet. The annotation stays.
    #[default]
    Unknown,
    /// The nodes by pool.
    Known(NodePools),
    /// Nodes are not watched or not summarised. The annotation is removed, because it would become outdated.
    Off,
}

/// Writes the nodes by pool into the annotation of a Cluster, or removes the annotation. Returns the written Cluster, or
/// `None` if the report changes nothing.
pub(super) async fn write_node_pools(
    client: &Client,
    cluster: &Cluster,
    report: &NodePoolReport,
) -> Result<Option<Cluster>, kube::Error> {
    let Some(patch) = node_pool_patch(cluster, report).map_err(kube::Error::SerdeError)? else {
        return Ok(None);
    };
    let clusters: Api<Cluster> = Api::all(client.clone());
    let (name, parameters) = (cluster.name_any(), PatchParams::default());
    let written = clusters
        .patch(&name, &parameters, &Patch::Merge(patch))
        .await?;
    Ok(Some(written))
}

/// Returns the merge patch that sets or removes the annotation, or `None` if the report changes nothing.
fn node_pool_patch(
    cluster: &Cluster,
    report: &NodePoolReport,
) -> Result<Option<Value>, serde_json::Error> {
    let present = cluster.annotations().get(NODE_POOLS);
    let wanted = match report {
        NodePoolReport::Unknown => return Ok(None),
        NodePoolReport::Known(pools) => Some(serde_json::to_string(pools)?),
        NodePoolReport::Off => None,
    };
    let patch = json!({ "metadata": { "annotations": { NODE_POOLS: wanted } } });
    Ok((present != wanted.as_ref()).then_some(patch))
}

/// Returns the merge patch that applies an update to a status, or `None` if the update changes nothing.
fn status_patch(current: &ClusterStatus, update: &StatusUpdate) -> Option<Value> {
    let mut next = current.clone();
    if let Some(collected) = update.collected.clone() {
        next.kubernetes_version = collected.kubernetes_version;
        next.api_enablements = collected.api_enablements;
        next.node_summary = collected.node_summary;
        next.resource_summary = collected.resource_summary;
    }
    for (kind, status, reason, message) in &update.conditions {
        condition::set(
            &mut next.conditions,
            kind,
            (*status).into(),
            reason,
            message,
            timestamp::now(),
        );
    }
    merge_diff(&json!(current), &json!(next))
}

#[cfg(test)]
mod tests {
    use berth_api::cluster::ResourceSummary;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn ready(status: bool, message: &str) -> StatusUpdate {
        StatusUpdate {
            conditions: vec![("Ready", status, "Reason".to_owned(), message.to_owned())],
            collected: None,
        }
    }

    #[test]
    fn only_differences_are_written_and_foreign_conditions_stay() {
        let mut status = ClusterStatus::default();
        condition::set(
            &mut status.conditions,
            "Foreign",
            condition::Status::True,
            "Reason",
            "foreign",
            timestamp::now(),
        );
        condition::set(
            &mut status.conditions,
            "Ready",
            condition::Status::True,
            "Reason",
            "fine",
            timestamp::now(),
        );
        status.conditions[1].last_transition_time = Time(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(status_patch(&status, &ready(true, "fine")), None);

        let patch = status_patch(&status, &ready(true, "still fine")).unwrap();
        assert_eq!(patch["conditions"][0]["message"], "foreign");
        assert_eq!(
            patch["conditions"][1]["lastTransitionTime"],
            "1970-01-01T00:00:00Z"
        );

        let patch = status_patch(&status, &ready(false, "gone")).unwrap();
        assert_ne!(
            patch["conditions"][1]["lastTransitionTime"],
            "1970-01-01T00:00:00Z"
        );
        assert_eq!(patch.as_object().unwrap().len(), 1);
    }

    #[test]
    fn node_pools_are_written_if_they_differ_and_removed_if_they_are_off() {
        let pools = NodePools {
            omitted_labels: vec!["host".to_owned()],
            ..NodePools::default()
        };
        let text = r#"{"omittedLabels":["host"]}"#;
        let patch = |annotation: Option<&str>, report: NodePoolReport| {
            let mut cluster = Cluster::default();
            let annotations = annotation.map(|text| (NODE_POOLS.to_owned(), text.to_owned()));
            cluster.metadata.annotations = Some(annotations.into_iter().collect());
            let patch = node_pool_patch(&cluster, &report).unwrap();
            patch.map(|patch| patch["metadata"]["annotations"][NODE_POOLS].clone())
        };
        let known = || NodePoolReport::Known(pools.clone());
        for (annotation, report, expected) in [
            (None, known(), Some(json!(text))),
            (Some("{}"), known(), Some(json!(text))),
            (Some(text), known(), None),
            (Some(text), NodePoolReport::Unknown, None),
            (Some(text), NodePoolReport::Off, Some(Value::Null)),
            (None, NodePoolReport::Off, None),
        ] {
            assert_eq!(
                patch(annotation, report.clone()),
                expected,
                "{annotation:?} {report:?}"
            );
        }
    }

    #[test]
    fn a_resource_that_is_no_longer_reported_is_removed() {
        let status = ClusterStatus {
            resource_summary: Some(ResourceSummary {
                allocated: [("cpu".to_owned(), "1".into())].into(),
                allocatable: [("cpu".to_owned(), "4".into())].into(),
                ..ResourceSummary::default()
            }),
            ..ClusterStatus::default()
        };
        let mut collected = status.clone();
        collected
            .resource_summary
            .as_mut()
            .unwrap()
            .allocated
            .clear();
        let update = StatusUpdate {
            collected: Some(collected),
            ..StatusUpdate::default()
        };
        let patch = status_patch(&status, &update).unwrap();
        assert_eq!(patch["resourceSummary"]["allocated"], Value::Null);
        assert_eq!(patch["resourceSummary"].get("allocatable"), None);
    }
}
