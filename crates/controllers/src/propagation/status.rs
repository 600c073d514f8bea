//! Aggregation of the status of a binding from its Works. The functions of this module are pure. The submodule
//! [`writer`] sends the requests.
//!
//! This module must not connect to members: the reports of the members are in the status of the Works.

pub(crate) mod health;
pub(crate) mod shown_health;
pub(crate) mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::binding::{
    AggregatedStatusItem, BindingSpec, BindingStatus, ObjectReference, ResourceHealth,
};
use berth_api::condition::Status;
use berth_api::names::cluster_of_execution_namespace;
use berth_api::well_known::{CONDITION_APPLIED, CONDITION_FULLY_APPLIED, CONDITION_MIGRATING};
use berth_api::work::ResourceIdentifier;
use berth_api::{Binding, Work, condition};
use berth_apimachinery::timestamp;
use berth_diagnosis::ClusterStates;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use self::health::{HealthChange, StaleStatus, forget_stale_health, problem_of, set_healthy};
use crate::propagation::binding::migration::known::KnownMigration;
use crate::propagation::execution::work_status::{has_failed, has_unhealthy_object};
use berth_apimachinery::json_fields::text_at;
use berth_apimachinery::json_size::json_size;

/// Maximum total size of the member statuses in one binding, in bytes of JSON, so that the binding fits into one
/// request.
const MAX_STATUS_BYTES: usize = 1024 * 1024;

/// Returns the members' reports about a resource, sorted by cluster. A Work with a deletion timestamp adds no report.
pub(crate) fn aggregated_items(
    works: &[Arc<Work>],
    resource: &ObjectReference,
) -> Vec<AggregatedStatusItem> {
    let mut items: Vec<AggregatedStatusItem> = works
        .iter()
        .filter(|work| work.metadata.deletion_timestamp.is_none())
        .filter_map(|work| item(work, resource))
        .collect();
    items.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    drop_largest_statuses(&mut items);
    items
}

/// Removes the largest statuses until the total size of the remaining statuses is at most [`MAX_STATUS_BYTES`].
fn drop_largest_statuses(items: &mut [AggregatedStatusItem]) {
    let size = |item: &AggregatedStatusItem| item.status.as_ref().map_or(0, json_size);
    let mut sizes: Vec<(usize, usize)> = items.iter().map(size).zip(0..).collect();
    let mut total: usize = sizes.iter().map(|(size, _)| size).sum();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    for (size, index) in sizes {
        if total <= MAX_STATUS_BYTES {
            return;
        }
        items[index].status = None;
        total -= size;
    }
}

/// Returns the report of one Work, or `None` if the Work contains another resource.
fn item(work: &Work, resource: &ObjectReference) -> Option<AggregatedStatusItem> {
    let namespace = work.metadata.namespace.as_deref()?;
    let manifests = &work.spec.workload.manifests;
    let ordinal = manifests.iter().position(|m| is_manifest_of(m, resource))?;
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
        if let Some(report) = reports.find(|r| identifies(&r.identifier, ordinal, resource)) {
            item.status = report.status;
            item.health = report.health.or(item.health);
        }
    } else {
        let message = applied.map(|applied| applied.message.clone());
        item.applied_message = message.filter(|message| !message.is_empty());
    }
    Some(item)
}

fn is_manifest_of(manifest: &Value, resource: &ObjectReference) -> bool {
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    text_at(manifest, "/apiVersion") == resource.api_version
        && text_at(manifest, "/kind") == resource.kind
        && text_at(manifest, "/metadata/namespace") == namespace
        && text_at(manifest, "/metadata/name") == resource.name
}

fn identifies(identifier: &ResourceIdentifier, ordinal: usize, resource: &ObjectReference) -> bool {
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

/// The state of the application of a binding, which the condition `FullyApplied` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Application {
    /// The resource is applied in exactly the expected clusters.
    Complete,
    Incomplete,
    /// No cluster is expected to have the resource.
    NoClusters,
}

impl Application {
    /// `kept` are the clusters that are no targets, and keep a copy while the workload migrates.
    fn of(spec: &BindingSpec, items: &[AggregatedStatusItem], kept: &BTreeSet<String>) -> Self {
        let mut expected = spec.expected_clusters();
        expected.extend(kept.iter().cloned());
        let reported: BTreeSet<String> =
            items.iter().map(|item| item.cluster_name.clone()).collect();
        let is_applied = |item: &AggregatedStatusItem| item.applied == Some(true);
        if expected.is_empty() {
            Self::NoClusters
        } else if expected == reported && items.iter().all(is_applied) {
            Self::Complete
        } else {
            Self::Incomplete
        }
    }

    /// Returns the reason and the message of the condition.
    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Complete => (
                "FullyAppliedSuccess",
                "All works have been successfully applied",
            ),
            Self::Incomplete => (
                "FullyAppliedFailed",
                "Failed to apply all works, see status.aggregatedStatus for details",
            ),
            Self::NoClusters => (
                "NoClusters",
                "The binding has no clusters, so that there are no works to apply",
            ),
        }
    }
}

/// Reports whether the status of a binding is about to change again, because its Works are not applied everywhere yet, or
/// because they are and their objects are not healthy yet. A failure or a problem of the pods is no progress, and neither is
/// an object that the status reports as healthy and that no longer is.
pub(crate) fn is_progressing(
    status: &BindingStatus,
    spec: &BindingSpec,
    works: &[&Arc<Work>],
) -> bool {
    let mut missing = spec.expected_clusters();
    let mut unhealthy = BTreeSet::new();
    for work in works {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        let (Some(cluster), Some(report)) =
            (cluster_of_execution_namespace(namespace), &work.status)
        else {
            continue;
        };
        if has_failed(work) || problem_of(work).is_some() {
            return false;
        }
        if condition::is_true(&report.conditions, CONDITION_APPLIED) {
            missing.remove(cluster);
        }
        if has_unhealthy_object(report) {
            unhealthy.insert(cluster);
        }
    }
    let mut items = status.aggregated_status.iter();
    let has_degraded = items.any(|item| {
        item.health == Some(ResourceHealth::Healthy)
            && unhealthy.contains(item.cluster_name.as_str())
    });
    let is_applied = condition::is_true(&status.conditions, CONDITION_FULLY_APPLIED);
    !has_degraded && (!missing.is_empty() || is_applied && !unhealthy.is_empty())
}

/// The result of the last sync of a binding's Works.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncReport {
    /// The reason why an override could not be applied: the Works are then outdated.
    pub(crate) override_failure: Option<String>,
    /// The migration, if it is known.
    pub(crate) migration: KnownMigration,
}

/// The input of the status of a binding, beside the binding itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusInput {
    /// The Works of the binding.
    pub(crate) works: Vec<Arc<Work>>,
    /// The last sync of these Works.
    pub(crate) sync: SyncReport,
    /// The states of the clusters that have or are to have a copy.
    pub(crate) clusters: ClusterStates,
    /// The weight of the reports of clusters that are not ready.
    pub(crate) stale_status: StaleStatus,
    /// True if this process has written the condition `Healthy` of the binding before.
    pub(crate) has_shown_health: bool,
}

/// The change of a binding's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusChange {
    /// The status is the same.
    None,
    /// Only the health changed, because a step is under way. The members report soon, and one write contains both.
    Progress,
    /// Any other change.
    Changed,
}

/// Updates the status of a binding. Returns the change.
pub(crate) fn update(binding: &mut Binding, input: &StatusInput) -> StatusChange {
    let (spec, status, sync) = (&binding.spec, &mut binding.status, &input.sync);
    let mut items = aggregated_items(&input.works, &spec.resource);
    if input.stale_status == StaleStatus::Exclude {
        forget_stale_health(&mut items, &input.clusters);
    }
    let kept = sync.migration.wait().map(|wait| &wait.kept);
    let application = Application::of(spec, &items, kept.unwrap_or(&BTreeSet::new()));
    let override_failure = sync.override_failure.as_deref();
    let is_complete = override_failure.is_none() && application == Application::Complete;
    let (reason, message) = override_failure.map_or_else(
        || application.describe(),
        |failure| ("FullyAppliedFailed", failure),
    );
    let conditions = &mut status.conditions;
    let condition_changed = condition::set(
        conditions,
        CONDITION_FULLY_APPLIED,
        is_complete.into(),
        reason,
        message,
        timestamp::now(),
    );
    let wait_changed = set_migrating(conditions, &sync.migration);
    let items_changed = status.aggregated_status != items;
    status.aggregated_status = items;
    let health = set_healthy(binding, input);
    if condition_changed || wait_changed || items_changed {
        return StatusChange::Changed;
    }
    match health {
        HealthChange::None => StatusChange::None,
        HealthChange::Progress => StatusChange::Progress,
        HealthChange::Changed => StatusChange::Changed,
    }
}

/// Sets the condition `Migrating`, which a binding has only while old copies wait. Its transition time is the start of the
/// wait. Reports whether the condition changed.
fn set_migrating(conditions: &mut Vec<Condition>, migration: &KnownMigration) -> bool {
    let wait = match migration {
        KnownMigration::Waits(wait) => wait,
        KnownMigration::Unknown => return false,
        KnownMigration::None => {
            let before = conditions.len();
            conditions.retain(|known| known.type_ != CONDITION_MIGRATING);
            return conditions.len() != before;
        }
    };
    let (kind, now) = (CONDITION_MIGRATING, timestamp::now());
    condition::set(
        conditions,
        kind,
        Status::True,
        wait.cause.reason(),
        &wait.message,
        now,
    )
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use berth_diagnosis::ClusterState;
    use serde_json::json;

    use super::*;
    use crate::propagation::binding::migration::observed::{Cause, Wait};

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

    fn failed() -> Value {
        json!({"conditions": [{"type": "Applied", "status": "False", "reason": "R", "message": "no",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    }

    fn spec(clusters: &[&str]) -> BindingSpec {
        let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
        serde_json::from_value(json!({"clusters": clusters, "resource": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}}))
        .unwrap()
    }

    /// Updates a status. The members are ready. Reports whether the status changed.
    fn updated(
        status: &mut BindingStatus,
        spec: &BindingSpec,
        works: &[Arc<Work>],
        sync: &SyncReport,
    ) -> bool {
        let ready = |n: usize| (format!("m{n}"), ClusterState::Ready);
        let input = StatusInput {
            works: works.to_vec(),
            sync: sync.clone(),
            clusters: (1..=3).map(ready).collect(),
            stale_status: StaleStatus::Exclude,
            has_shown_health: false,
        };
        let mut binding = Binding::from(ResourceBinding::new("web", spec.clone()));
        binding.status = status.clone();
        let change = update(&mut binding, &input);
        *status = binding.status;
        change != StatusChange::None
    }

    #[test]
    fn items_are_sorted_and_failures_have_a_message() {
        let works = [
            work("m2", failed()),
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
    fn fully_applied_means_applied_in_exactly_the_expected_clusters() {
        use Application::{Complete, Incomplete, NoClusters};
        for (clusters, works, expected) in [
            (&["m1"][..], vec![work("m1", applied(1))], Complete),
            (&["m1", "m2"], vec![work("m1", applied(1))], Incomplete),
            (
                &["m1"],
                vec![work("m1", applied(1)), work("m2", applied(1))],
                Incomplete,
            ),
            (
                &["m1", "m2"],
                vec![work("m1", applied(1)), work("m2", failed())],
                Incomplete,
            ),
            (&[], vec![], NoClusters),
            (&[], vec![work("m1", applied(1))], NoClusters),
        ] {
            let spec = spec(clusters);
            let items = aggregated_items(&works, &spec.resource);
            let actual = Application::of(&spec, &items, &BTreeSet::new());
            assert_eq!(actual, expected, "{clusters:?}");
            let mut status = BindingStatus::default();
            updated(&mut status, &spec, &works, &SyncReport::default());
            let condition = condition::find(&status.conditions, CONDITION_FULLY_APPLIED).unwrap();
            assert_eq!(condition.status == "True", expected == Complete);
            let fails = condition.message.starts_with("Failed");
            assert_eq!(fails, expected == Incomplete, "{clusters:?}");
        }
    }

    #[test]
    fn a_status_waits_for_reports_but_not_for_failures() {
        let starting = || {
            let mut status = applied(0);
            status["manifestStatuses"][0]["health"] = json!("Unhealthy");
            status
        };
        // A written status, and the later reports of the members m1 and m2.
        for (written, reports, expected) in [
            (None, [applied(1), json!({})], true),
            (None, [applied(1), failed()], false),
            (None, [applied(1), starting()], false),
            (None, [applied(1), applied(1)], false),
            (
                Some([applied(1), starting()]),
                [applied(1), starting()],
                true,
            ),
            (
                Some([applied(1), starting()]),
                [applied(1), applied(1)],
                false,
            ),
            (
                Some([applied(1), applied(1)]),
                [applied(1), starting()],
                false,
            ),
        ] {
            let works = |[one, two]: [Value; 2]| [work("m1", one), work("m2", two)];
            let (spec, mut status) = (spec(&["m1", "m2"]), BindingStatus::default());
            if let Some(written) = written.clone() {
                let written = works(written);
                updated(&mut status, &spec, &written, &SyncReport::default());
            }
            let works = works(reports.clone());
            let works: Vec<_> = works.iter().collect();
            let actual = is_progressing(&status, &spec, &works);
            assert_eq!(actual, expected, "{written:?} {reports:?}");
        }
    }

    #[test]
    fn a_kept_copy_is_expected_and_the_condition_says_until_when() {
        let (spec, works) = (
            spec(&["m2"]),
            [work("m1", applied(2)), work("m2", applied(0))],
        );
        let wait = |message: &str| SyncReport {
            override_failure: None,
            migration: KnownMigration::Waits(Wait {
                kept: ["m1".to_owned()].into(),
                cause: Cause::Replicas,
                message: message.to_owned(),
                until: None,
            }),
        };
        let mut status = BindingStatus::default();
        assert!(updated(&mut status, &spec, &works, &wait("m1 keeps 2")));
        assert!(!updated(&mut status, &spec, &works, &wait("m1 keeps 2")));
        assert!(condition::is_true(
            &status.conditions,
            CONDITION_FULLY_APPLIED
        ));
        let migrating = |status: &BindingStatus| {
            let found = condition::find(&status.conditions, CONDITION_MIGRATING);
            found.map(|found| (found.status.clone(), found.message.clone()))
        };
        let expected = ("True".to_owned(), "m1 keeps 2".to_owned());
        assert_eq!(migrating(&status), Some(expected));
        // After a restart, the condition stays until the first sync.
        let unknown = SyncReport::default();
        updated(&mut status, &spec, &works, &unknown);
        assert!(migrating(&status).is_some());
        let ended = SyncReport {
            override_failure: None,
            migration: KnownMigration::None,
        };
        assert!(updated(&mut status, &spec, &works[1..], &ended));
        assert_eq!(migrating(&status), None);
    }

    #[test]
    fn the_largest_statuses_are_dropped_until_the_rest_fits() {
        let filled = |size: usize| {
            let mut status = applied(1);
            status["manifestStatuses"][0]["status"] = json!({"text": "x".repeat(size)});
            status
        };
        let third = MAX_STATUS_BYTES / 3;
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
    fn a_second_update_changes_nothing() {
        let (spec, works) = (spec(&["m1"]), [work("m1", applied(1))]);
        let mut status = BindingStatus::default();
        let failed = SyncReport {
            override_failure: Some("policy \"p\" fails".to_owned()),
            migration: KnownMigration::None,
        };
        assert!(updated(&mut status, &spec, &works, &failed));
        assert_eq!(status.conditions[0].status, "False");
        assert_eq!(status.conditions[0].message, "policy \"p\" fails");
        let synced = SyncReport::default();
        assert!(updated(&mut status, &spec, &works, &synced));
        assert!(!updated(&mut status, &spec, &works, &synced));
        assert!(condition::is_true(
            &status.conditions,
            CONDITION_FULLY_APPLIED
        ));
    }
}
