//! Tests of fixes: the search finds the smallest fix for each reason, and every fix places the workload.

use std::collections::BTreeMap;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{Binding, BindingKey, Cluster};
use berth_engine::{Assumed, Engine, EngineOptions, Fleet, Outcome, Request, WorkloadPeers};
use berth_test_transcripts::{Transcript, assert_snapshot};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{cluster, dynamic, show, spec, with};
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
        time: k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
    };
    let mut engine = Engine::new(EngineOptions::default()).unwrap();
    explain(&mut engine, &case, limits).unwrap()
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

/// A description of the case, its clusters, and the spec of its binding. The snapshot shows the fixes for the cluster m2.
type Situation<'a> = (&'a str, Vec<Value>, Value);

fn reports(cases: &[Situation<'_>]) -> Transcript {
    let mut reports = Transcript::new();
    for (case, list, spec) in cases {
        let report = analyse(list, spec);
        let cluster = report.cluster("m2").unwrap();
        reports.about(case);
        reports.lines(&cluster.why);
        for fix in &cluster.fixes {
            reports.lines(&format!("  {}", fix.summary));
        }
    }
    reports
}

#[test]
fn each_mismatch_of_metadata_has_its_smallest_fix() {
    let selector =
        |selector: Value| duplicated(json!({"clusterAffinity": {"labelSelector": selector}}));
    let regional =
        |name: &str, region: &str| with(cluster(name, 10), "/spec/region", json!(region));
    assert_snapshot!(reports(&[
        (
            "a label is missing",
            vec![labelled("m1", "tier", "web"), cluster("m2", 10)],
            spec(1, selector(json!({"matchLabels": {"tier": "web"}}))),
        ),
        (
            "two labels are missing",
            vec![cluster("m2", 10)],
            spec(1, selector(json!({"matchLabels": {"a": "1", "b": "2"}}))),
        ),
        (
            "a label must be absent",
            vec![labelled("m2", "old", "yes")],
            spec(
                1,
                selector(json!({"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]})),
            ),
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
        ),
        (
            "the name is not listed",
            vec![cluster("m2", 10)],
            spec(
                1,
                duplicated(json!({"clusterAffinity": {"clusterNames": ["m9"]}})),
            ),
        ),
        (
            "excluded",
            vec![cluster("m2", 10)],
            spec(
                1,
                duplicated(json!({"clusterAffinity": {"exclude": ["m2"]}})),
            ),
        ),
        (
            "a taint",
            vec![tainted("m2", "gone")],
            spec(1, duplicated(json!({}))),
        ),
        (
            "cordoned",
            vec![tainted("m2", "cluster.karmada.io/unschedulable")],
            spec(1, duplicated(json!({}))),
        ),
    ]));
}

#[test]
fn each_lack_of_capacity_or_selection_has_its_smallest_fix() {
    assert_snapshot!(reports(&[
        (
            "no API",
            vec![with(cluster("m2", 10), "/status/apiEnablements", json!([]))],
            spec(1, duplicated(json!({}))),
        ),
        (
            "no free capacity",
            vec![cluster("m1", 10), cluster("m2", 0)],
            spec(1, json!({"replicaScheduling": dynamic()})),
        ),
        (
            "maxGroups",
            vec![cluster("m1", 10), cluster("m2", 5)],
            spec(
                1,
                duplicated(json!({"spreadConstraints":
                [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]})),
            ),
        ),
        (
            "all replicas are elsewhere",
            vec![cluster("m1", 10), cluster("m2", 10)],
            with(
                spec(2, json!({"replicaScheduling": dynamic()})),
                "/clusters",
                json!([{"name": "m1", "replicas": 2}]),
            ),
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
        ),
        (
            "evicted",
            vec![cluster("m1", 10), cluster("m2", 10)],
            with(
                spec(1, duplicated(json!({}))),
                "/gracefulEvictionTasks",
                json!([{"fromCluster": "m2", "reason": "r", "producer": "p"}]),
            ),
        ),
        (
            "two reasons",
            vec![cluster("m1", 10), tainted("m2", "gone")],
            with(
                spec(2, json!({"replicaScheduling": dynamic()})),
                "/clusters",
                json!([{"name": "m1", "replicas": 2}]),
            ),
        ),
    ]));
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
    let mut reports = Transcript::new();
    show(&mut reports, "a term for each cluster", &report);
    assert_snapshot!(reports);
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
    let few = json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 3}]});
    let mut reports = Transcript::new();
    for (about, spec) in [
        (
            "too little capacity",
            spec(9, json!({"replicaScheduling": dynamic()})),
        ),
        ("too few groups", spec(1, duplicated(few))),
    ] {
        show(&mut reports, about, &analyse(&full, &spec));
    }
    assert_snapshot!(reports);
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
