use berth_api::ResourceBinding;
use berth_api::binding::ReplicaRequirements;

use super::*;

fn clusters() -> ClusterStates {
    let lost = ClusterState::NotReady { since: None };
    ClusterStates::from([
        ("m1".to_owned(), ClusterState::Ready),
        ("lost".to_owned(), lost),
    ])
}

fn item(cluster: &str, status: &Value) -> AggregatedStatusItem {
    serde_json::from_value(
        json!({ "clusterName": cluster, "applied": true, "health": "Healthy",
        "status": status }),
    )
    .unwrap()
}

fn resource(kind: &str) -> ObjectReference {
    serde_json::from_value(json!({ "apiVersion": "apps/v1", "kind": kind, "name": "web" })).unwrap()
}

#[test]
fn the_health_in_clusters_that_are_not_ready_is_unknown() {
    let mut items = ["m1", "lost", "gone"].map(|name| item(name, &json!({ "readyReplicas": 2 })));
    forget_stale_health(&mut items, &clusters());
    let health = items.each_ref().map(|item| item.health.clone().unwrap());
    let unknown = ResourceHealth::Unknown;
    assert_eq!(health, [ResourceHealth::Healthy, unknown.clone(), unknown]);
    assert!(
        items
            .iter()
            .all(|item| item.status == Some(json!({ "readyReplicas": 2 })))
    );
}

#[test]
fn only_ready_and_available_replicas_of_clusters_that_are_not_ready_are_left_out() {
    for (kind, status, expected) in [
        (
            "Deployment",
            json!({ "replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 3,
                "unavailableReplicas": 1 }),
            json!({ "replicas": 3, "updatedReplicas": 3, "unavailableReplicas": 3 }),
        ),
        (
            "Deployment",
            json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 2 }),
            json!({ "replicas": 2, "unavailableReplicas": 2 }),
        ),
        (
            "StatefulSet",
            json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 2 }),
            json!({ "replicas": 2 }),
        ),
        (
            "DaemonSet",
            json!({ "desiredNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2 }),
            json!({ "desiredNumberScheduled": 2, "numberUnavailable": 2 }),
        ),
        (
            "Job",
            json!({ "active": 1, "succeeded": 4 }),
            json!({ "active": 1, "succeeded": 4 }),
        ),
        ("Service", json!("text"), json!("text")),
    ] {
        let items = [item("m1", &status), item("lost", &status)];
        let counted = current_reports(&items, &clusters(), &resource(kind));
        let counted: Vec<&Value> = counted
            .iter()
            .filter_map(|item| item.status.as_ref())
            .collect();
        assert_eq!(counted, [&status, &expected], "{kind}");
    }
}

fn binding(ready: i64, wanted: i64) -> Binding {
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "replicas": wanted, "clusters": [{ "name": "m1", "replicas": wanted }], "placement": {} },
        "status": { "aggregatedStatus": [{ "clusterName": "m1", "applied": true,
            "health": if ready == wanted { "Healthy" } else { "Unhealthy" },
            "status": { "replicas": ready, "readyReplicas": ready } }],
            "conditions": [{ "type": "Scheduled", "status": "True", "reason": "Success", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
    }))
    .unwrap();
    binding.into()
}

fn work(reason: &str) -> Arc<Work> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": { "name": "w", "namespace": "karmada-es-m1" }, "spec": {},
            "status": { "conditions": [{ "type": "Healthy", "status": "False", "reason": reason,
                "message": "2 of 2 pods crash in m1: exit code 1",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        }))
        .unwrap(),
    )
}

/// Returns the input for a binding that has shown the condition.
fn input(works: &[Arc<Work>]) -> StatusInput {
    StatusInput {
        works: works.to_vec(),
        clusters: clusters(),
        has_shown_health: true,
        ..StatusInput::default()
    }
}

#[test]
fn the_first_condition_is_no_reason_to_write_unless_something_is_wrong() {
    let unshown = StatusInput {
        has_shown_health: false,
        ..input(&[])
    };
    for (ready, change) in [(2, HealthChange::None), (0, HealthChange::Progress)] {
        let mut binding = binding(ready, 2);
        assert_eq!(set_healthy(&mut binding, &unshown), change);
        let shown = condition::find(&binding.status.conditions, CONDITION_HEALTHY);
        assert!(shown.is_some(), "{ready}");
    }
}

#[test]
fn the_condition_contains_the_problem_that_the_work_reports() {
    for (about, works, reason, change) in [
        ("no problem", vec![], "NotReady", HealthChange::Progress),
        (
            "a problem",
            vec![work("CrashLoopBackOff")],
            "CrashLoopBackOff",
            HealthChange::Changed,
        ),
        (
            "a reason of another program",
            vec![work("Sick")],
            "NotReady",
            HealthChange::Progress,
        ),
    ] {
        let mut binding = binding(0, 2);
        assert_eq!(set_healthy(&mut binding, &input(&works)), change, "{about}");
        let found = condition::find(&binding.status.conditions, CONDITION_HEALTHY).unwrap();
        assert_eq!(
            (&*found.status, &*found.reason),
            ("False", reason),
            "{about}"
        );
        let shown = fingerprint(&binding.status.conditions);
        let again = set_healthy(&mut binding, &input(&works));
        assert_eq!(again, HealthChange::None, "{about}");
        assert_eq!(fingerprint(&binding.status.conditions), shown);
        // The problem ends.
        let mut well = self::binding(2, 2);
        well.status.conditions = binding.status.conditions;
        assert_eq!(
            set_healthy(&mut well, &input(&works)),
            HealthChange::Changed
        );
        assert!(condition::is_true(
            &well.status.conditions,
            CONDITION_HEALTHY
        ));
        assert_ne!(fingerprint(&well.status.conditions), shown);
    }
}

#[test]
fn a_binding_that_wants_nothing_has_no_condition() {
    let mut binding = binding(2, 2);
    assert_eq!(
        set_healthy(&mut binding, &input(&[])),
        HealthChange::Changed
    );
    binding.spec.replicas = 0;
    binding.spec.replica_requirements = Some(ReplicaRequirements::default());
    binding.spec.clusters.clear();
    binding.status.aggregated_status.clear();
    assert_eq!(
        set_healthy(&mut binding, &input(&[])),
        HealthChange::Changed
    );
    assert!(condition::find(&binding.status.conditions, CONDITION_HEALTHY).is_none());
}
