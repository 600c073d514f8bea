//! Tests of fixes: the search finds the smallest fix for each reason, and every fix places the workload.

use std::collections::BTreeMap;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{Binding, BindingKey, Cluster};
use berth_engine::{Assumed, Engine, EngineOptions, Fleet, Outcome, Request, WorkloadPeers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{cluster, dynamic, spec, with};
use crate::{Case, Fix, Limits, Report, explain};

fn clusters(list: &[Value]) -> BTreeMap<String, Cluster> {
    list.iter()
        .map(|value| {
            let cluster: Cluster = serde_json::from_value(value.clone()).unwrap();
            (cluster.metadata.name.clone().unwrap(), cluster)
        })
        .collect()
}

fn analyse(list: &[Value], spec: &Value) -> Report {
    analyse_with(list, spec, &Limits::default())
}

fn analyse_with(list: &[Value], spec: &Value, limits: &Limits) -> Report {
    let binding = Binding {
        key: BindingKey::new("shop", "web-deployment"),
        metadata: ObjectMeta::default(),
        spec: serde_json::from_value(spec.clone()).unwrap(),
        status: BindingStatus::default(),
    };
    let mut fleet = Fleet::new().keeping_objects();
    for cluster in clusters(list).values() {
        fleet.apply(cluster);
    }
    let case = Case {
        fleet: &fleet,
        binding: &binding,
        peers: WorkloadPeers::default(),
        assumed: &Assumed::default(),
    };
    let mut engine = Engine::new(EngineOptions::default()).unwrap();
    explain(&mut engine, &case, limits).unwrap()
}

fn summaries(fixes: &[Fix]) -> Vec<&str> {
    fixes.iter().map(|fix| &*fix.summary).collect()
}

fn duplicated(more: Value) -> Value {
    let mut placement = json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    for (key, value) in more.as_object().unwrap() {
        placement[key] = value.clone();
    }
    placement
}

fn tainted(name: &str, key: &str) -> Value {
    let taints = json!([{"key": key, "value": "x", "effect": "NoSchedule"}]);
    with(cluster(name, 10), "/spec/taints", taints)
}

fn labelled(name: &str, key: &str, value: &str) -> Value {
    with(
        cluster(name, 10),
        &format!("/metadata/labels/{key}"),
        json!(value),
    )
}

/// A description of the case, its clusters, the spec of its binding, and the expected fixes for the cluster m2.
type Expected<'a> = (&'a str, Vec<Value>, Value, &'a [&'a str]);

fn check(cases: &[Expected<'_>]) {
    for (case, list, spec, expected) in cases {
        let report = analyse(list, spec);
        let cluster = report.cluster("m2").unwrap();
        assert_eq!(
            summaries(&cluster.fixes),
            *expected,
            "{case}: {}",
            cluster.why
        );
    }
}

#[test]
fn each_mismatch_of_metadata_has_its_smallest_fix() {
    let selector =
        |selector: Value| duplicated(json!({"clusterAffinity": {"labelSelector": selector}}));
    let regional =
        |name: &str, region: &str| with(cluster(name, 10), "/spec/region", json!(region));
    check(&[
        (
            "a label is missing",
            vec![labelled("m1", "tier", "web"), cluster("m2", 10)],
            spec(1, selector(json!({"matchLabels": {"tier": "web"}}))),
            &["label m2 with tier=web"][..],
        ),
        (
            "two labels are missing",
            vec![cluster("m2", 10)],
            spec(1, selector(json!({"matchLabels": {"a": "1", "b": "2"}}))),
            &["label m2 with a=1, and label m2 with b=2"],
        ),
        (
            "a label must be absent",
            vec![labelled("m2", "old", "yes")],
            spec(
                1,
                selector(json!({"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]})),
            ),
            &["remove the label old of m2"],
        ),
        (
            "a field differs",
            vec![regional("m2", "east")],
            spec(
                1,
                duplicated(
                    json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [
                {"key": "region", "operator": "In", "values": ["west"]}]}}}),
                ),
            ),
            &["set the region of m2 to west"],
        ),
        (
            "the name is not listed",
            vec![cluster("m2", 10)],
            spec(
                1,
                duplicated(json!({"clusterAffinity": {"clusterNames": ["m9"]}})),
            ),
            &["add m2 to clusterNames of clusterAffinity"],
        ),
        (
            "excluded",
            vec![cluster("m2", 10)],
            spec(
                1,
                duplicated(json!({"clusterAffinity": {"exclude": ["m2"]}})),
            ),
            &["remove m2 from exclude of clusterAffinity"],
        ),
        (
            "a taint",
            vec![tainted("m2", "gone")],
            spec(1, duplicated(json!({}))),
            &[
                "remove the taint gone=x:NoSchedule of m2",
                "tolerate gone=x:NoSchedule in the policy",
            ],
        ),
        (
            "cordoned",
            vec![tainted("m2", "cluster.karmada.io/unschedulable")],
            spec(1, duplicated(json!({}))),
            &[
                "uncordon m2",
                "tolerate cluster.karmada.io/unschedulable=x:NoSchedule in the policy",
            ],
        ),
    ]);
}

#[test]
fn each_lack_of_capacity_or_selection_has_its_smallest_fix() {
    check(&[
        (
            "no API",
            vec![with(cluster("m2", 10), "/status/apiEnablements", json!([]))],
            spec(1, duplicated(json!({}))),
            &["install the API apps/v1 Deployment in m2"],
        ),
        (
            "no free capacity",
            vec![cluster("m1", 10), cluster("m2", 0)],
            spec(1, json!({"replicaScheduling": dynamic()})),
            &["raise the free capacity of m2 from 0 to 11 replicas"],
        ),
        (
            "maxGroups",
            vec![cluster("m1", 10), cluster("m2", 5)],
            spec(
                1,
                duplicated(json!({"spreadConstraints":
                [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]})),
            ),
            &[
                "raise maxGroups of the spread constraint by cluster from 1 to 2",
                "raise the free capacity of m2 from 5 to 11 replicas",
            ],
        ),
        (
            "all replicas are elsewhere",
            vec![cluster("m1", 10), cluster("m2", 10)],
            with(
                spec(2, json!({"replicaScheduling": dynamic()})),
                "/clusters",
                json!([{"name": "m1", "replicas": 2}]),
            ),
            &[
                "request rescheduling with a WorkloadRebalancer",
                "scale the workload from 2 to 4 replicas",
            ],
        ),
        (
            "a static weight is missing",
            vec![cluster("m1", 10), cluster("m2", 10)],
            spec(
                3,
                json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList":
                    [{"targetCluster": {"clusterNames": ["m1"]}, "weight": 4}]}}}),
            ),
            &["give m2 the static weight 1"],
        ),
        (
            "evicted",
            vec![cluster("m1", 10), cluster("m2", 10)],
            with(
                spec(1, duplicated(json!({}))),
                "/gracefulEvictionTasks",
                json!([{"fromCluster": "m2", "reason": "r", "producer": "p"}]),
            ),
            &["end the eviction from m2"],
        ),
        (
            "two reasons",
            vec![cluster("m1", 10), tainted("m2", "gone")],
            with(
                spec(2, json!({"replicaScheduling": dynamic()})),
                "/clusters",
                json!([{"name": "m1", "replicas": 2}]),
            ),
            &[
                "remove the taint gone=x:NoSchedule of m2, and request rescheduling with a WorkloadRebalancer",
                "tolerate gone=x:NoSchedule in the policy, and request rescheduling with a WorkloadRebalancer",
                "remove the taint gone=x:NoSchedule of m2, and scale the workload from 2 to 4 replicas",
            ],
        ),
    ]);
}

#[test]
fn each_affinity_term_has_its_fixes() {
    let list = [
        tainted("m1", "maintenance"),
        with(cluster("m2", 10), "/status/apiEnablements", json!([])),
    ];
    let placement = json!({
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
        "clusterAffinities": [
            {"affinityName": "first", "clusterNames": ["m1"]},
            {"affinityName": "second", "clusterNames": ["m2"]},
        ],
    });
    let report = analyse(&list, &spec(1, placement));
    let fixes = |name| summaries(&report.cluster(name).unwrap().fixes);
    assert_eq!(
        fixes("m1"),
        [
            "remove the taint maintenance=x:NoSchedule of m1",
            "tolerate maintenance=x:NoSchedule in the policy",
        ]
    );
    assert_eq!(fixes("m2"), ["install the API apps/v1 Deployment in m2"]);
    let of_binding = summaries(&report.fixes);
    assert!(of_binding.contains(&fixes("m2")[0]), "{of_binding:?}");
}

#[test]
fn a_cluster_requested_by_name_is_searched_first() {
    let list: Vec<Value> = (10..40)
        .map(|number| tainted(&format!("m{number}"), "maintenance"))
        .collect();
    let limits = Limits {
        decisions: 10,
        clusters: Some(vec!["m39".to_owned()]),
    };
    let spec = spec(2, json!({"replicaScheduling": dynamic()}));
    let report = analyse_with(&list, &spec, &limits);
    assert!(!report.cluster("m39").unwrap().fixes.is_empty());
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let all = Limits {
        clusters: None,
        ..limits
    };
    let report = analyse_with(&list, &spec, &all);
    assert!(!report.fixes.is_empty() && !report.notes.is_empty());
}

#[test]
fn an_unscheduled_binding_has_its_smallest_fix_first() {
    let list: Vec<Value> = (10..60)
        .map(|number| tainted(&format!("m{number}"), "cluster.karmada.io/unschedulable"))
        .collect();
    let report = analyse(&list, &spec(2, json!({"replicaScheduling": dynamic()})));
    assert_eq!(report.fixes[0].summary, "uncordon m10");
    assert_eq!(report.fixes[0].result[0].replicas, 2);

    let full = [cluster("m1", 3), cluster("m2", 4)];
    let report = analyse(&full, &spec(9, json!({"replicaScheduling": dynamic()})));
    assert_eq!(
        summaries(&report.fixes),
        [
            "raise the free capacity of m1 from 3 to 5 replicas",
            "raise the free capacity of m2 from 4 to 6 replicas",
            "scale the workload from 9 to 7 replicas",
        ]
    );

    let few = json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 3}]});
    let report = analyse(&full, &spec(1, duplicated(few)));
    assert_eq!(
        summaries(&report.fixes),
        ["lower minGroups of the spread constraint by cluster from 3 to 2"]
    );
}

/// Decides with a new fleet and a new engine, after the changes of `fix` are applied to the objects.
fn decide_with(
    clusters: &BTreeMap<String, Cluster>,
    spec: &BindingSpec,
    fix: Option<&Fix>,
) -> Outcome {
    let (mut spec, mut status) = (spec.clone(), BindingStatus::default());
    let original = spec.clone();
    let mut clusters = clusters.clone();
    for change in fix.iter().flat_map(|fix| &fix.changes) {
        change.apply_to_binding(&mut spec, &mut status);
        if let Some(cluster) = change.cluster().and_then(|name| clusters.get_mut(name)) {
            change.apply_to_cluster(cluster, &original);
        }
    }
    let mut fleet = Fleet::new();
    for cluster in clusters.values() {
        fleet.apply(cluster);
    }
    let key = BindingKey::new("shop", "web-deployment");
    let request = Request::new(&key, &spec, &status).unwrap();
    let mut engine = Engine::new(EngineOptions::default()).unwrap();
    engine.schedule(&fleet.snapshot(), &request)
}

fn any_cluster(index: usize) -> impl Strategy<Value = Value> {
    let region = prop_oneof![Just(""), Just("east"), Just("west")];
    let taint = prop_oneof![3 => Just(""), 1 => Just("gone"), 1 => Just("cluster.karmada.io/unschedulable")];
    (0_i64..8, region, taint, any::<bool>(), 0_u8..6).prop_map(
        move |(pods, region, taint, labelled, api)| {
            let mut value = cluster(&format!("m{index}"), pods);
            if !region.is_empty() {
                value["spec"]["region"] = json!(region);
            }
            if !taint.is_empty() {
                value["spec"]["taints"] = json!([{"key": taint, "effect": "NoSchedule"}]);
            }
            if labelled {
                value["metadata"]["labels"]["tier"] = json!("web");
            }
            if api == 0 {
                value["status"]["apiEnablements"] = json!([]);
            }
            value
        },
    )
}

fn any_placement() -> impl Strategy<Value = Value> {
    let scheduling = prop_oneof![
        Just(json!({"replicaSchedulingType": "Duplicated"})),
        Just(dynamic()),
        Just(
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})
        ),
        Just(
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList":
                [{"targetCluster": {"clusterNames": ["m0", "m1"]}, "weight": 2}]}})
        ),
    ];
    let affinity = prop_oneof![
        Just(json!(null)),
        Just(json!({"labelSelector": {"matchLabels": {"tier": "web"}}})),
        Just(json!({"clusterNames": ["m0", "m2"], "exclude": ["m2"]})),
        Just(json!({"fieldSelector": {"matchExpressions":
            [{"key": "region", "operator": "In", "values": ["east"]}]}})),
    ];
    let spread = prop_oneof![
        Just(json!([])),
        Just(json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}])),
        Just(
            json!([{"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}])
        ),
    ];
    (scheduling, affinity, spread).prop_map(|(scheduling, affinity, spread)| {
        let mut placement = json!({"replicaScheduling": scheduling, "spreadConstraints": spread});
        if !affinity.is_null() {
            placement["clusterAffinity"] = affinity;
        }
        placement
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_fix_places_the_workload_and_needs_all_its_changes(
        list in (0_usize..5).prop_flat_map(|count| (0..count).map(any_cluster).collect::<Vec<_>>()),
        placement in any_placement(),
        replicas in 1_i32..9,
        current in prop::option::of(1_i64..4),
    ) {
        let mut value = spec(replicas, placement);
        if let Some(current) = current {
            value["clusters"] = json!([{"name": "m0", "replicas": current}]);
        }
        let report = analyse(&list, &value);
        let spec: BindingSpec = serde_json::from_value(value).unwrap();
        let clusters = clusters(&list);

        let outcome = decide_with(&clusters, &spec, None);
        prop_assert_eq!(outcome.result.is_ok(), report.is_placed());
        if let Ok(placement) = &outcome.result {
            let decided: BTreeMap<String, i64> =
                placement.targets.iter().map(|t| (t.name.to_string(), i64::from(t.replicas))).collect();
            let reported: BTreeMap<String, i64> =
                report.verdict.clusters.iter().map(|s| (s.name.clone(), s.replicas)).collect();
            prop_assert_eq!(decided, reported);
        }
        let of_clusters = report.clusters.iter().flat_map(|cluster| {
            cluster.fixes.iter().map(|fix| (Some(cluster.name.as_str()), fix))
        });
        let fixes: Vec<_> = of_clusters.chain(report.fixes.iter().map(|fix| (None, fix))).collect();
        for &(on, fix) in &fixes {
            let fixed = decide_with(&clusters, &spec, Some(fix)).result.unwrap();
            prop_assert!(fixed.targets.iter().any(|target| on.is_none_or(|on| &*target.name == on)
                && target.replicas > 0), "{fix:?}");
            for index in 0..fix.changes.len() {
                let mut fewer = fix.clone();
                fewer.changes.remove(index);
                let result = decide_with(&clusters, &spec, Some(&fewer)).result;
                prop_assert!(!result.is_ok_and(|fixed| fixed.targets.iter().any(|target|
                    on.is_none_or(|on| &*target.name == on) && target.replicas > 0)), "{fewer:?}");
            }
        }
        // Only inputs with a fix count as cases.
        prop_assume!(!fixes.is_empty());
    }
}
