//! Tests of deviations from Karmada, where Karmada crashes, overflows an integer or lacks a feature. Further tests
//! cover surprising behaviour of Karmada that Berth keeps.

use serde_json::{Value, json};

use crate::fixtures::{
    aggregated, binding, cluster, decide, duplicated, dynamic, static_weights, text,
    with_binding_spec, with_label, with_reschedule_request, with_spec,
};

fn fleet() -> Vec<Value> {
    let located = |name, pods, provider: &str, region: &str, zones: &[&str]| {
        let cluster = with_spec(
            cluster(name, pods),
            json!({"provider": provider, "region": region, "zones": zones}),
        );
        with_label(cluster, "rack", if pods > 20 { "big" } else { "small" })
    };
    vec![
        located("m1", 10, "aws", "eu", &["eu-a"]),
        located("m2", 20, "aws", "us", &["us-a"]),
        located("m3", 30, "gcp", "eu", &["eu-b"]),
        located("m4", 40, "gcp", "us", &["us-b", "us-c"]),
    ]
}

fn spread(by: &str, min: i64, max: i64) -> Value {
    if by.starts_with("label:") {
        json!({"spreadByLabel": by.trim_start_matches("label:"), "minGroups": min, "maxGroups": max})
    } else {
        json!({"spreadByField": by, "minGroups": min, "maxGroups": max})
    }
}

#[test]
fn missing_upper_bound_means_no_limit() {
    for (scheduling, constraints, expected) in [
        (
            duplicated(),
            json!([{"spreadByField": "cluster", "minGroups": 1}]),
            "m1:4 m2:4 m3:4 m4:4",
        ),
        (
            dynamic(),
            json!([{"spreadByField": "cluster", "minGroups": 2}]),
            "m2:1 m3:1 m4:2",
        ),
        (
            aggregated(),
            json!([{"spreadByField": "cluster", "minGroups": 2}]),
            "m4:4",
        ),
        (
            duplicated(),
            json!([spread("region", 1, 0), spread("cluster", 1, 4)]),
            "m1:4 m3:4",
        ),
    ] {
        let placement = json!({"replicaScheduling": scheduling, "spreadConstraints": constraints});
        assert_eq!(
            text(&decide(&fleet(), &binding(4, placement))),
            expected,
            "{constraints}"
        );
    }
}

#[test]
fn single_zone_provider_or_label_constraint_selects_best_groups() {
    for (constraint, replicas, expected) in [
        (spread("provider", 1, 1), 35, "m3:15 m4:20"),
        (spread("provider", 1, 2), 35, "m3:15 m4:20"),
        // The capacity of one provider is too small.
        (spread("provider", 1, 2), 100, "m1:10 m2:20 m3:30 m4:40"),
        (spread("provider", 2, 2), 10, "m1:1 m2:2 m3:3 m4:4"),
        (spread("zone", 1, 1), 25, "m3:25"),
        (spread("zone", 5, 5), 10, "m1:1 m2:2 m3:3 m4:4"),
        (spread("label:rack", 1, 1), 35, "m3:15 m4:20"),
        (
            spread("provider", 3, 3),
            7,
            "failed to select clusters: the number of feasible provider is less than spreadConstraint.MinGroups",
        ),
    ] {
        let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": [constraint]});
        assert_eq!(
            text(&decide(&fleet(), &binding(replicas, placement))),
            expected,
            "{constraint}"
        );
    }
}

#[test]
fn single_region_constraint_selects_one_cluster_per_region() {
    let placement =
        json!({"replicaScheduling": dynamic(), "spreadConstraints": [spread("region", 2, 2)]});
    assert_eq!(text(&decide(&fleet(), &binding(7, placement))), "m3:3 m4:4");
}

#[test]
fn zero_replicas_succeed_with_an_empty_result() {
    for scheduling in [
        duplicated(),
        dynamic(),
        aggregated(),
        static_weights(&[("m1", 1)]),
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}),
    ] {
        let placement = json!({"replicaScheduling": scheduling});
        let current =
            json!({"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]});
        let steady = with_binding_spec(binding(0, placement), current);
        assert_eq!(text(&decide(&fleet(), &steady)), "", "{scheduling}");
        // Karmada adds up 2147483647 for each cluster here, and fails when the sum overflows.
        assert_eq!(
            text(&decide(&fleet(), &with_reschedule_request(steady))),
            "",
            "{scheduling}, rescheduled"
        );
    }
}

#[test]
fn sums_of_replicas_do_not_overflow() {
    let huge: Vec<Value> = ["m1", "m2", "m3"]
        .map(|name| cluster(name, 2_000_000_000))
        .into();
    let no_request = json!({"replicaRequirements": {}});
    for (scheduling, replicas, expected) in [
        (dynamic(), 6, "m1:2 m2:2 m3:2"),
        (aggregated(), i32::MAX, "m1:1073741824 m2:1073741823"),
    ] {
        let binding = with_binding_spec(
            binding(replicas, json!({"replicaScheduling": scheduling})),
            no_request.clone(),
        );
        assert_eq!(text(&decide(&huge, &binding)), expected);
        assert_eq!(
            text(&decide(&huge, &with_reschedule_request(binding))),
            expected,
            "rescheduled"
        );
    }
}

#[test]
fn extreme_static_weights_do_not_overflow() {
    let weights = static_weights(&[
        ("m1", i64::MAX),
        ("m2", i64::MAX),
        ("m3", i64::MAX),
        ("m4", 0),
    ]);
    let placement = json!({"replicaScheduling": weights});
    assert_eq!(
        text(&decide(&fleet(), &binding(7, placement))),
        "m1:3 m2:2 m3:2"
    );
}

#[test]
fn unknown_spread_field_is_rejected_like_karmada() {
    let placement = json!({"spreadConstraints": [spread("planet", 1, 1)]});
    assert_eq!(
        text(&decide(&fleet(), &binding(1, placement))),
        "failed to select clusters: just support cluster and region spread constraint"
    );
}

#[test]
fn unknown_strategy_is_rejected_like_karmada() {
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}});
    assert_eq!(
        text(&decide(&fleet(), &binding(1, placement))),
        "failed to assign replicas: unsupported replica scheduling strategy, replicaSchedulingType: Divided, \
         replicaDivisionPreference: , please try another scheduling strategy"
    );
}

#[test]
fn overflow_tiers_are_filled_in_order() {
    let placement = json!({"replicaScheduling": dynamic(), "clusterAffinities": [{
        "affinityName": "own", "clusterNames": ["m1"],
        "overflowAffinities": [
            {"affinityName": "near", "clusterNames": ["m2"]},
            {"affinityName": "far", "clusterNames": ["m3", "m4"]},
        ],
    }]});
    for (replicas, expected) in [
        (8, "m1:8"),
        (25, "m1:10 m2:15"),
        (44, "m1:10 m2:20 m3:6 m4:8"),
        (
            101,
            "failed to assign replicas: Clusters available replicas are not enough to schedule.",
        ),
    ] {
        assert_eq!(
            text(&decide(&fleet(), &binding(replicas, placement.clone()))),
            expected,
            "{replicas}"
        );
    }
}

#[test]
fn negative_replicas_count_as_zero() {
    let mut request = binding(-3, json!({ "replicaScheduling": dynamic() }));
    request["spec"]["replicaRequirements"] = json!({});
    assert_eq!(text(&decide(&fleet(), &request)), "");
}

#[test]
fn exempt_cluster_is_rejected_after_the_workload_left_it() {
    let mut clusters = vec![cluster("m1", 10), cluster("m2", 10), cluster("m3", 10)];
    clusters[2]["status"]["apiEnablements"] = json!([]);
    let placement =
        json!({"replicaScheduling": aggregated(), "spreadConstraints": [spread("cluster", 3, 3)]});
    let both = json!({"clusters": [{"name": "m1", "replicas": 2}, {"name": "m3", "replicas": 1}]});
    assert_eq!(
        text(&decide(
            &clusters,
            &with_binding_spec(binding(1, placement.clone()), both)
        )),
        "m1:1"
    );
    let one = json!({"clusters": [{"name": "m1", "replicas": 1}]});
    assert_eq!(
        text(&decide(
            &clusters,
            &with_binding_spec(binding(1, placement), one)
        )),
        "failed to select clusters: the number of feasible clusters is less than spreadConstraint.MinGroups"
    );
}
