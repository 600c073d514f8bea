//! The status of a binding, made of its Works.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::Work;
use berth_api::binding::{
    AggregatedStatusItem, BindingSpec, BindingStatus, ObjectReference, ResourceHealth,
};
use berth_api::names::cluster_of_execution_namespace;
use berth_api::well_known::{CONDITION_APPLIED, CONDITION_FULLY_APPLIED};
use berth_api::work::ResourceIdentifier;
use serde_json::Value;

use crate::binding::targets::expected_clusters;
use crate::condition;
use crate::json_size::json_size;

/// The most that the statuses in one binding take, in bytes of JSON: a binding has to fit into a request.
const LARGEST_REPORTS: usize = 1024 * 1024;

/// What the members report of a resource, by the names of the clusters. Works that are going do not count.
pub fn aggregated_items(
    works: &[Arc<Work>],
    resource: &ObjectReference,
) -> Vec<AggregatedStatusItem> {
    let mut items: Vec<AggregatedStatusItem> = works
        .iter()
        .filter(|work| work.metadata.deletion_timestamp.is_none())
        .filter_map(|work| item(work, resource))
        .collect();
    items.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    leave_out_largest(&mut items);
    items
}

/// Leaves out the largest statuses until the others fit.
fn leave_out_largest(items: &mut [AggregatedStatusItem]) {
    let size = |item: &AggregatedStatusItem| item.status.as_ref().map_or(0, json_size);
    let mut sizes: Vec<(usize, usize)> = items.iter().map(size).zip(0..).collect();
    let mut all: usize = sizes.iter().map(|(size, _)| size).sum();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    for (size, index) in sizes {
        if all <= LARGEST_REPORTS {
            return;
        }
        items[index].status = None;
        all -= size;
    }
}

fn item(work: &Work, resource: &ObjectReference) -> Option<AggregatedStatusItem> {
    let namespace = work.metadata.namespace.as_deref()?;
    let manifests = &work.spec.workload.manifests;
    let ordinal = manifests.iter().position(|m| is_of(m, resource))?;
    let status = work.status.clone().unwrap_or_default();
    let applied = condition::find(&status.conditions, CONDITION_APPLIED);
    let is_applied = applied.is_some_and(|applied| applied.status == "True");
    let mut item = AggregatedStatusItem {
        cluster_name: cluster_of_execution_namespace(namespace)?.to_owned(),
        status: None,
        applied: Some(is_applied),
        applied_message: None,
        health: Some(ResourceHealth::Unknown),
    };
    if is_applied {
        let mut reports = status.manifest_statuses.into_iter();
        if let Some(report) = reports.find(|r| names(&r.identifier, ordinal, resource)) {
            item.status = report.status;
            item.health = report.health.or(item.health);
        }
    } else {
        let message = applied.map(|applied| applied.message.clone());
        item.applied_message = message.filter(|message| !message.is_empty());
    }
    Some(item)
}

fn is_of(manifest: &Value, resource: &ObjectReference) -> bool {
    let text = |pointer: &str| {
        let value = manifest.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    text("/apiVersion") == resource.api_version
        && text("/kind") == resource.kind
        && text("/metadata/namespace") == resource.namespace.as_deref().unwrap_or_default()
        && text("/metadata/name") == resource.name
}

fn names(identifier: &ResourceIdentifier, ordinal: usize, resource: &ObjectReference) -> bool {
    let api_version = if identifier.group.is_empty() {
        identifier.version.clone()
    } else {
        format!("{}/{}", identifier.group, identifier.version)
    };
    usize::try_from(identifier.ordinal) == Ok(ordinal)
        && api_version == resource.api_version
        && identifier.kind == resource.kind
        && identifier.namespace == resource.namespace.as_deref().unwrap_or_default()
        && identifier.name == resource.name
}

/// Whether the resource is in every cluster where it should be, and nowhere else.
pub fn is_fully_applied(spec: &BindingSpec, items: &[AggregatedStatusItem]) -> bool {
    let expected = expected_clusters(spec);
    let reported: BTreeSet<String> = items.iter().map(|item| item.cluster_name.clone()).collect();
    !expected.is_empty()
        && expected == reported
        && items.iter().all(|item| item.applied == Some(true))
}

/// Brings a status up to date; whether anything changed.
pub fn update(status: &mut BindingStatus, spec: &BindingSpec, works: &[Arc<Work>]) -> bool {
    let items = aggregated_items(works, &spec.resource);
    let applied = is_fully_applied(spec, &items);
    let (reason, message) = if applied {
        (
            "FullyAppliedSuccess",
            "All works have been successfully applied",
        )
    } else {
        (
            "FullyAppliedFailed",
            "Failed to apply all works, see status.aggregatedStatus for details",
        )
    };
    let conditions = &mut status.conditions;
    let told = condition::set(
        conditions,
        CONDITION_FULLY_APPLIED,
        applied,
        reason,
        message,
    );
    let changed = status.aggregated_status != items;
    status.aggregated_status = items;
    told || changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(cluster: &str, status: Value) -> Arc<Work> {
        let work = json!({"metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}")},
            "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop"}}]}}, "status": status});
        Arc::new(serde_json::from_value(work).unwrap())
    }

    fn applied(ready: i64) -> Value {
        json!({"conditions": [{"type": "Applied", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "manifestStatuses": [{"health": "Healthy", "status": {"readyReplicas": ready}, "identifier": {
                "ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "",
                "namespace": "shop", "name": "web"}}]})
    }

    fn refused() -> Value {
        json!({"conditions": [{"type": "Applied", "status": "False", "reason": "R", "message": "no",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    }

    fn spec(clusters: &[&str]) -> BindingSpec {
        let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
        serde_json::from_value(json!({"clusters": clusters, "resource": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}}))
        .unwrap()
    }

    #[test]
    fn reports_are_sorted_and_failures_say_why() {
        let works = [
            work("m2", refused()),
            work("m1", applied(2)),
            work("m3", json!({})),
        ];
        let items = aggregated_items(&works, &spec(&[]).resource);
        assert_eq!(
            json!(items),
            json!([
            {"clusterName": "m1", "status": {"readyReplicas": 2}, "applied": true, "health": "Healthy"},
            {"clusterName": "m2", "appliedMessage": "no", "health": "Unknown"},
            {"clusterName": "m3", "health": "Unknown"}])
        );
    }

    #[test]
    fn fully_applied_means_everywhere_and_nowhere_else() {
        for (clusters, works, expected) in [
            (&["m1"][..], vec![work("m1", applied(1))], true),
            (&["m1", "m2"], vec![work("m1", applied(1))], false),
            (
                &["m1"],
                vec![work("m1", applied(1)), work("m2", applied(1))],
                false,
            ),
            (
                &["m1", "m2"],
                vec![work("m1", applied(1)), work("m2", refused())],
                false,
            ),
            (&[], vec![], false),
        ] {
            let spec = spec(clusters);
            let items = aggregated_items(&works, &spec.resource);
            assert_eq!(is_fully_applied(&spec, &items), expected, "{clusters:?}");
        }
    }

    #[test]
    fn the_largest_statuses_are_left_out_until_the_others_fit() {
        let filled = |size: usize| {
            let mut status = applied(1);
            status["manifestStatuses"][0]["status"] = json!({"text": "x".repeat(size)});
            status
        };
        let third = LARGEST_REPORTS / 3;
        let sizes = [third, third + 3, 100, third + 2, third + 1];
        let works: Vec<_> = (1..)
            .zip(sizes)
            .map(|(n, size)| work(&format!("m{n}"), filled(size)))
            .collect();
        let items = aggregated_items(&works, &spec(&[]).resource);
        let kept = items.iter().filter(|item| item.status.is_some());
        let kept: Vec<&str> = kept.map(|item| item.cluster_name.as_str()).collect();
        assert_eq!(kept, ["m1", "m3", "m5"]);
        assert!(
            items
                .iter()
                .all(|item| item.health == Some(ResourceHealth::Healthy))
        );
    }

    #[test]
    fn the_second_look_changes_nothing() {
        let (spec, works) = (spec(&["m1"]), [work("m1", applied(1))]);
        let mut status = BindingStatus::default();
        assert!(update(&mut status, &spec, &works));
        assert!(!update(&mut status, &spec, &works));
        assert!(condition::holds(
            &status.conditions,
            CONDITION_FULLY_APPLIED
        ));
    }
}
