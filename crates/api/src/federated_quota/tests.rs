use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster::ResourceList;

fn binding(spec: Value) -> BindingSpec {
    let mut complete = json!({
        "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
    });
    json_merge(&mut complete, spec);
    serde_json::from_value(complete).unwrap()
}

fn json_merge(target: &mut Value, source: Value) {
    let source = source.as_object().cloned().unwrap();
    target.as_object_mut().unwrap().extend(source);
}

/// A binding with a request of cpu and a number of replicas in each of several clusters.
fn replicas(cpu: &str, clusters: &[i32]) -> BindingSpec {
    let clusters = clusters.iter().enumerate();
    let clusters: Vec<Value> = clusters
        .map(|(index, replicas)| json!({ "name": format!("m{index}"), "replicas": replicas }))
        .collect();
    binding(json!({
        "replicaRequirements": { "resourceRequest": { "cpu": cpu } },
        "clusters": clusters,
    }))
}

/// A binding with components of some replicas and a request of cpu, and a number of clusters.
fn components(list: &[(i32, &str)], clusters: usize) -> BindingSpec {
    let components: Vec<Value> = list
        .iter()
        .map(|(replicas, cpu)| {
            json!({ "name": format!("c{replicas}{cpu}"), "replicas": replicas,
                "replicaRequirements": { "resourceRequest": { "cpu": cpu } } })
        })
        .collect();
    let clusters: Vec<Value> = (0..clusters)
        .map(|index| json!({ "name": format!("m{index}") }))
        .collect();
    binding(json!({ "components": components, "clusters": clusters }))
}

fn list(value: Value) -> ResourceList {
    serde_json::from_value(value).unwrap()
}

fn quota(overall: Value, used: Value) -> FederatedResourceQuota {
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "team" },
        "spec": { "overall": overall },
        "status": { "overallUsed": used },
    }))
    .unwrap()
}

#[test]
fn a_binding_uses_the_requests_of_the_replicas_in_its_clusters() {
    for (about, spec, expected) in [
        ("unscheduled", replicas("1", &[]), json!({})),
        ("no request", binding(json!({})), json!({})),
        ("zero replicas", replicas("1", &[0, 0]), json!({})),
        (
            "replicas of all clusters",
            binding(json!({
                "replicaRequirements": { "resourceRequest": { "cpu": "1", "memory": "2Gi", "pods": "0" } },
                "clusters": [{ "name": "m1", "replicas": 3 }, { "name": "m2", "replicas": 2 }],
            })),
            json!({ "cpu": "5", "memory": "10Gi" }),
        ),
        (
            "components in each cluster",
            components(&[(2, "500m"), (3, "1")], 2),
            json!({ "cpu": "8" }),
        ),
        (
            "components without clusters",
            components(&[(2, "1")], 0),
            json!({}),
        ),
        (
            "component without replicas",
            components(&[(0, "500m")], 1),
            json!({}),
        ),
        (
            "components hide the requirements",
            binding(json!({
                "replicaRequirements": { "resourceRequest": { "cpu": "7" } },
                "components": [{ "name": "a", "replicas": 1 }],
                "clusters": [{ "name": "m1", "replicas": 3 }],
            })),
            json!({}),
        ),
    ] {
        assert_eq!(usage(&spec).to_list(), list(expected), "{about}");
    }
}

#[test]
fn a_write_changes_the_usage_by_its_difference() {
    for (about, old, new, expected) in [
        (
            "creation",
            None,
            replicas("200m", &[1]),
            json!({ "cpu": "200m" }),
        ),
        (
            "moved replicas",
            Some(replicas("100m", &[0, 2])),
            replicas("200m", &[1]),
            json!({}),
        ),
        (
            "more replicas",
            Some(replicas("50m", &[1])),
            replicas("50m", &[2]),
            json!({ "cpu": "50m" }),
        ),
        (
            "smaller request",
            Some(replicas("50m", &[2])),
            replicas("20m", &[2]),
            json!({ "cpu": "-60m" }),
        ),
        (
            "other components",
            Some(components(&[(1, "50m")], 1)),
            components(&[(2, "40m")], 1),
            json!({ "cpu": "30m" }),
        ),
    ] {
        assert_eq!(
            delta(old.as_ref(), &new).to_list(),
            list(expected),
            "{about}"
        );
    }
}

#[test]
fn a_quota_refuses_growth_beyond_its_limits() {
    let allowed = |used: Value| Ok(list(used));
    let refused = |resource: &str, requested: &str, limit: &str| {
        Err(format!(
            "FederatedResourceQuota(shop/team) exceeded for resource {resource}: requested sum {requested}, limit {limit}."
        ))
    };
    for (about, overall, used, change, expected) in [
        (
            "fits exactly",
            json!({ "cpu": "200m" }),
            json!({ "cpu": "100m" }),
            json!({ "cpu": "100m" }),
            allowed(json!({ "cpu": "200m" })),
        ),
        (
            "first usage exceeds",
            json!({ "cpu": "150m" }),
            json!({}),
            json!({ "cpu": "200m" }),
            refused("cpu", "200m", "150m"),
        ),
        (
            "sum exceeds",
            json!({ "cpu": "100m" }),
            json!({ "cpu": "60m" }),
            json!({ "cpu": "50m" }),
            refused("cpu", "110m", "100m"),
        ),
        (
            "memory is printed in binary notation",
            json!({ "memory": "1Gi" }),
            json!({ "memory": "512Mi" }),
            json!({ "memory": "1073741824" }),
            refused("memory", "1536Mi", "1Gi"),
        ),
        (
            "other usage is kept",
            json!({ "cpu": "1", "memory": "1Gi" }),
            json!({ "memory": "512Mi" }),
            json!({ "cpu": "1", "nvidia.com/gpu": "8" }),
            allowed(json!({ "cpu": "1", "memory": "512Mi" })),
        ),
        (
            "shrinking is allowed beyond the limit",
            json!({ "cpu": "1" }),
            json!({ "cpu": "5" }),
            json!({ "cpu": "-1" }),
            allowed(json!({ "cpu": "4" })),
        ),
        (
            "growth of another resource is allowed while cpu is beyond its limit",
            json!({ "cpu": "1", "memory": "1Gi" }),
            json!({ "cpu": "5" }),
            json!({ "memory": "1Gi" }),
            allowed(json!({ "cpu": "5", "memory": "1Gi" })),
        ),
        (
            "a limit of zero forbids the resource",
            json!({ "nvidia.com/gpu": "0" }),
            json!({}),
            json!({ "nvidia.com/gpu": "1" }),
            refused("nvidia.com/gpu", "1", "0"),
        ),
        (
            "usage never becomes negative",
            json!({ "cpu": "1" }),
            json!({ "cpu": "100m" }),
            json!({ "cpu": "-1" }),
            allowed(json!({})),
        ),
    ] {
        let found = match charge(&Amounts::of(&list(change)), &quota(overall, used)) {
            Charge::Used(amounts) => Ok(amounts.to_list()),
            Charge::Exceeded(refusal) => Err(refusal.to_string()),
            Charge::Unaffected => panic!("{about}: unaffected"),
        };
        assert_eq!(found, expected, "{about}");
    }
}

#[test]
fn a_change_of_other_resources_does_not_affect_a_quota() {
    let quota = quota(json!({ "cpu": "1" }), json!({ "cpu": "7" }));
    for change in [json!({}), json!({ "memory": "1Gi" }), json!({ "cpu": "0" })] {
        let charged = charge(&Amounts::of(&list(change.clone())), &quota);
        assert_eq!(charged, Charge::Unaffected, "{change}");
    }
}

#[test]
fn the_total_usage_contains_the_limited_resources_of_all_bindings() {
    let bindings = [
        replicas("1", &[1, 2]),
        replicas("500m", &[1]),
        replicas("1", &[]),
    ];
    let limits_cpu = quota(json!({ "cpu": "10" }), json!({}));
    let total = total_usage(&bindings, &limits_cpu);
    assert_eq!(total.to_list(), list(json!({ "cpu": "3500m" })));
    let limits_memory = quota(json!({ "memory": "10" }), json!({}));
    assert!(total_usage(&bindings, &limits_memory).is_empty());
}

/// Charges the changes one after the other, and returns the quota and the changes that it allowed.
fn charge_all(
    mut quota: FederatedResourceQuota,
    changes: &[Amounts],
) -> (FederatedResourceQuota, Vec<Amounts>) {
    let mut allowed = Vec::new();
    for change in changes {
        if let Charge::Used(used) = charge(change, &quota) {
            quota.status.get_or_insert_default().overall_used = used.to_list();
            allowed.push(change.clone());
        }
    }
    (quota, allowed)
}

fn millis(milli: i64) -> Amounts {
    Amounts::of(&list(json!({ "cpu": format!("{milli}m") })))
}

proptest! {
    #[test]
    fn charges_never_exceed_the_limit_and_add_up(
        limit in 0..2000_i64,
        requests in prop::collection::vec(1..500_i64, 0..20),
    ) {
        let empty = quota(json!({ "cpu": format!("{limit}m") }), json!({}));
        let changes: Vec<Amounts> = requests.into_iter().map(millis).collect();
        let (charged, allowed) = charge_all(empty, &changes);
        let used = used(&charged);
        prop_assert_eq!(&used, &allowed.into_iter().sum());
        prop_assert!(used.get("cpu") <= Quantity::from_milli(limit));
    }

    #[test]
    fn the_order_of_charges_does_not_matter(
        (requests, shuffled) in prop::collection::vec(1..500_i64, 0..20)
            .prop_flat_map(|requests| (Just(requests.clone()), Just(requests).prop_shuffle())),
    ) {
        let unlimited = || quota(json!({ "cpu": "1000" }), json!({}));
        let all = |requests: Vec<i64>| requests.into_iter().map(millis).collect::<Vec<_>>();
        let (one, _) = charge_all(unlimited(), &all(requests));
        let (other, _) = charge_all(unlimited(), &all(shuffled));
        prop_assert_eq!(used(&one), used(&other));
    }

    #[test]
    fn undone_charges_leave_no_usage(requests in prop::collection::vec(1..500_i64, 0..20)) {
        let unlimited = quota(json!({ "cpu": "1000" }), json!({}));
        let there = requests.iter().copied().map(millis);
        let back = requests.iter().rev().map(|request| millis(-request));
        let changes: Vec<Amounts> = there.chain(back).collect();
        let (charged, allowed) = charge_all(unlimited, &changes);
        prop_assert_eq!(allowed.len(), changes.len());
        prop_assert!(used(&charged).is_empty());
    }
}
