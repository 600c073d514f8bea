//! Tests of PodDisruptionBudgets.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Cluster, default_key, deployment, edit_deployment, from, template};
use crate::cache::key;

fn budget(cluster: &mut Cluster, name: &str, spec: Value) {
    let metadata = cluster.metadata(name);
    cluster
        .cache
        .budgets
        .put(from(json!({"metadata": metadata, "spec": spec})));
}

/// Returns the numbers of expected, healthy, required and disruptable pods of a budget, and its condition in the form
/// `STATUS REASON`.
fn budgeted(cluster: &Cluster, name: &str) -> ([i32; 4], String) {
    let budget = cluster.cache.budgets.get(&default_key(name)).unwrap();
    let status = budget.status.clone().unwrap();
    let condition = status.conditions.unwrap().remove(0);
    let numbers = [
        status.expected_pods,
        status.current_healthy,
        status.desired_healthy,
        status.disruptions_allowed,
    ];
    let numbers = numbers.map(Option::unwrap_or_default);
    (
        numbers,
        format!("{} {}", condition.status, condition.reason),
    )
}

#[test]
fn budgets_allow_surplus_pods_to_be_disrupted() {
    let mut cluster = Cluster::with_nodes(2, "4");
    deployment(&mut cluster, "web", 4, "1");
    let web = json!({"matchLabels": {"app": "web"}});
    for (name, spec) in [
        ("least", json!({"selector": web, "minAvailable": 3})),
        ("share", json!({"selector": web, "minAvailable": "30%"})),
        ("most", json!({"selector": web, "maxUnavailable": 1})),
        ("part", json!({"selector": web, "maxUnavailable": "30%"})),
        ("all", json!({"selector": web, "maxUnavailable": "0%"})),
        ("none", json!({"minAvailable": 0})),
        (
            "others",
            json!({"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}),
        ),
    ] {
        budget(&mut cluster, name, spec);
    }
    cluster.plan_until_idle();
    assert_eq!(
        budgeted(&cluster, "least"),
        ([4, 0, 3, 0], "False InsufficientPods".to_owned())
    );
    cluster.advance_until_idle();
    let sufficient = || "True SufficientPods".to_owned();
    let insufficient = || "False InsufficientPods".to_owned();
    for (name, numbers, why) in [
        ("least", [4, 4, 3, 1], sufficient()),
        ("share", [4, 4, 2, 2], sufficient()),
        ("most", [4, 4, 3, 1], sufficient()),
        ("part", [4, 4, 2, 2], sufficient()),
        ("all", [4, 4, 4, 0], insufficient()),
        ("none", [0, 0, 0, 0], insufficient()),
        ("others", [0, 0, 1, 0], insufficient()),
    ] {
        assert_eq!(budgeted(&cluster, name), (numbers, why), "{name}");
    }
    // The budget is counted again when the requirement or the pods change.
    edit_deployment(&mut cluster, "web", |web| {
        web["spec"]["replicas"] = json!(1);
    });
    cluster.advance_until_idle();
    assert_eq!(budgeted(&cluster, "least").0, [1, 1, 3, 0]);
    assert_eq!(budgeted(&cluster, "most").0, [1, 1, 0, 1]);
    edit_deployment(&mut cluster, "web", |web| {
        web["spec"]["replicas"] = json!(0);
    });
    cluster.advance_until_idle();
    assert_eq!(budgeted(&cluster, "least").0, [0, 0, 3, 0]);
}

#[test]
fn evicted_pods_are_not_healthy_until_deleted_or_timed_out() {
    let mut cluster = Cluster::with_nodes(1, "4");
    deployment(&mut cluster, "web", 2, "1");
    let web = json!({"matchLabels": {"app": "web"}});
    budget(
        &mut cluster,
        "b",
        json!({"selector": web, "minAvailable": 1}),
    );
    cluster.advance_until_idle();
    assert_eq!(budgeted(&cluster, "b").0, [2, 2, 1, 1]);
    // The API server records an eviction in this way.
    let evicted = cluster.cache.pods.iter().next().unwrap().clone();
    let record_eviction = |cluster: &mut Cluster| {
        let budget = cluster.cache.budgets.get(&default_key("b")).unwrap();
        let mut value = serde_json::to_value(budget).unwrap();
        value["status"]["disruptionsAllowed"] = json!(0);
        value["status"]["disruptedPods"] = json!({evicted.name_any(): cluster.now});
        cluster.cache.budgets.put(from(value));
    };
    record_eviction(&mut cluster);
    let since = cluster.now;
    let next = cluster.plan_until_idle().unwrap();
    assert_eq!(budgeted(&cluster, "b").0, [2, 1, 1, 0]);
    // An evicted pod that is not deleted is healthy again after two minutes.
    assert_eq!(next.duration_since(since).as_secs(), 120);
    cluster.advance_until_idle();
    assert_eq!(budgeted(&cluster, "b").0, [2, 2, 1, 1]);
    // The evicted pod is deleted and replaced.
    record_eviction(&mut cluster);
    cluster.plan_until_idle();
    cluster.cache.pods.remove(&key(&evicted));
    cluster.plan_until_idle();
    assert_eq!(budgeted(&cluster, "b").0, [2, 1, 1, 0]);
    cluster.advance_until_idle();
    assert_eq!(budgeted(&cluster, "b").0, [2, 2, 1, 1]);
    let status = cluster
        .cache
        .budgets
        .get(&default_key("b"))
        .unwrap()
        .status
        .clone();
    assert_eq!(status.unwrap().disrupted_pods, None);
}

#[test]
fn a_budget_without_a_known_scale_reports_a_failed_sync() {
    let mut cluster = Cluster::with_nodes(1, "4");
    let metadata = cluster.metadata("agent");
    cluster.cache.daemon_sets.put(from(json!({"metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "1", "one")}})));
    let agent = json!({"matchLabels": {"app": "agent"}});
    budget(
        &mut cluster,
        "b",
        json!({"selector": agent, "maxUnavailable": 1}),
    );
    budget(
        &mut cluster,
        "c",
        json!({"selector": agent, "minAvailable": 1}),
    );
    cluster.advance_until_idle();
    assert_eq!(
        budgeted(&cluster, "b"),
        ([0, 0, 0, 0], "False SyncFailed".to_owned())
    );
    assert_eq!(budgeted(&cluster, "c").0, [1, 1, 1, 0]);
}
