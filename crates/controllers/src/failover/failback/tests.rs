use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::placement::Placement;
use proptest::prelude::*;
use serde_json::json;

use super::super::cluster::tests::cluster;
use super::super::graceful_eviction::tests::binding_with;
use super::*;

/// A cluster: its name, the value of its condition `Ready` and the second of its last change, and its taints.
type Cluster<'a> = (&'a str, &'a str, i64, Value);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn clusters(list: &[Cluster<'_>]) -> HashMap<String, ClusterRecord> {
    let records = list.iter().map(|(name, ready, second, taints)| {
        let mut cluster = cluster(name, ready, *second, taints);
        let region = [("region".to_owned(), format!("{}-region", &name[..1]))];
        cluster.metadata.labels = Some(region.into());
        let record = ClusterRecord::new(cluster, None, at(0), Instant::now());
        ((*name).to_owned(), record)
    });
    records.collect()
}

/// Returns a binding in m2 that was evicted from these clusters.
fn evicted_from(names: &[&str], spec: Value, status: Value) -> BindingRecord {
    let mut whole = json!({ "clusters": [{ "name": "m2", "replicas": 2 }], "replicas": 2 });
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let mut binding = binding_with(&whole, &status);
    binding.body.status.scheduler_observed_generation = binding.body.metadata.generation;
    binding.evicted_from = names.iter().map(|name| (*name).to_owned()).collect();
    binding.placement = binding
        .body
        .spec
        .placement
        .clone()
        .or_else(|| Some(Placement::default()));
    binding
}

fn decided(binding: &BindingRecord, list: &[Cluster<'_>], now: i64) -> (Vec<String>, Option<i64>) {
    let clusters = clusters(list);
    let reports = Reports::new(binding, &clusters, Instant::now());
    let verdict = decide(&reports, &RebalanceOptions::default(), at(now));
    let failback = verdict.failback.unwrap_or_default();
    (failback.clusters, verdict.next.map(Timestamp::as_second))
}

#[test]
fn a_binding_returns_when_its_clusters_have_been_back_for_long_enough() {
    let none = || json!([]);
    let taint = || json!([{ "key": "down", "effect": "NoSchedule" }]);
    for (about, from, list, now, expected, next) in [
        (
            "never evicted",
            &[][..],
            vec![("m1", "True", 0, none())],
            9999,
            &[][..],
            None,
        ),
        (
            "not ready",
            &["m1"],
            vec![("m1", "False", 0, none())],
            9999,
            &[],
            None,
        ),
        (
            "just back",
            &["m1"],
            vec![("m1", "True", 100, none())],
            699,
            &[],
            Some(700),
        ),
        (
            "back",
            &["m1"],
            vec![("m1", "True", 100, none())],
            700,
            &["m1"],
            None,
        ),
        (
            "tainted",
            &["m1"],
            vec![("m1", "True", 100, taint())],
            9999,
            &[],
            None,
        ),
        ("deleted", &["m1"], vec![], 9999, &[], None),
        (
            "no longer selected",
            &["m1"],
            vec![("m1", "True", 100, none())],
            9999,
            &[],
            None,
        ),
        (
            "already there",
            &["m2"],
            vec![("m2", "True", 0, none())],
            9999,
            &[],
            None,
        ),
        (
            "another follows soon",
            &["m1", "m3"],
            vec![("m1", "True", 0, none()), ("m3", "True", 100, none())],
            650,
            &[],
            Some(700),
        ),
        (
            "the other does not come back",
            &["m1", "m3"],
            vec![("m1", "True", 0, none()), ("m3", "False", 100, none())],
            650,
            &["m1"],
            None,
        ),
    ] {
        let spec = match about {
            "no longer selected" => {
                json!({ "placement": { "clusterAffinity": { "clusterNames": ["m2"] } } })
            }
            _ => json!({}),
        };
        let binding = evicted_from(from, spec, json!({}));
        let found = decided(&binding, &list, now);
        let expected: Vec<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found, (expected, next), "{about}");
    }
}

#[test]
fn a_binding_that_moves_or_is_suspended_stays() {
    let migrating = json!({ "conditions": [{ "type": "Migrating", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
    let task = json!([{ "fromCluster": "m3", "reason": "r", "producer": "p" }]);
    for (about, spec, status, expected) in [
        ("at rest", json!({}), json!({}), 1),
        ("old copies wait", json!({}), migrating, 0),
        (
            "an eviction is not complete",
            json!({ "gracefulEvictionTasks": task }),
            json!({}),
            0,
        ),
        (
            "scheduling is suspended",
            json!({ "suspension": { "scheduling": true } }),
            json!({}),
            0,
        ),
    ] {
        let binding = evicted_from(&["m1"], spec, status);
        let (found, _) = decided(&binding, &[("m1", "True", 0, json!([]))], 9999);
        assert_eq!(found.len(), expected, "{about}");
    }
}

#[test]
fn an_earlier_affinity_term_is_tried_once_for_each_return_of_a_cluster() {
    let term = |name: &str, region: &str| json!({ "affinityName": name, "labelSelector": { "matchLabels": { "region": region } } });
    let placement =
        json!({ "clusterAffinities": [term("home", "h-region"), term("away", "m-region")] });
    for (about, observed, tried, ready, expected) in [
        ("the first term is in use", "home", None, "True", None),
        ("home is back", "away", None, "True", Some("h1")),
        ("home is not back", "away", None, "False", None),
        (
            "tried before home came back",
            "away",
            Some(50),
            "True",
            Some("h1"),
        ),
        (
            "tried since home came back",
            "away",
            Some(100),
            "True",
            None,
        ),
        ("the term in use was removed", "gone", None, "True", None),
    ] {
        let mut spec = json!({ "placement": placement });
        if let Some(tried) = tried {
            spec["rescheduleTriggeredAt"] = json!(at(tried));
        }
        let status = json!({ "schedulerObservingAffinityName": observed });
        let binding = evicted_from(&[], spec, status);
        let list = [("h1", ready, 100, json!([])), ("m2", "True", 0, json!([]))];
        let (found, _) = decided(&binding, &list, 9999);
        assert_eq!(found.first().map(String::as_str), expected, "{about}");
    }
}

#[test]
fn a_cordoned_cluster_gets_nothing_back_also_if_its_taint_is_tolerated() {
    let tolerant = json!({ "placement": { "clusterTolerations": [{ "operator": "Exists" }] } });
    let binding = evicted_from(&["m1"], tolerant, json!({}));
    for (key, expected) in [("cluster.karmada.io/unschedulable", 0), ("dedicated", 1)] {
        let taints = json!([{ "key": key, "effect": "NoSchedule" }]);
        let (found, _) = decided(&binding, &[("m1", "True", 0, taints)], 9999);
        assert_eq!(found.len(), expected, "{key}");
    }
}

#[test]
fn an_eviction_that_is_cancelled_leaves_no_record() {
    let binding = evicted_from(&["m1", "m3"], json!({}), json!({}));
    for (cancelled, expected) in [
        (&[][..], None),
        (&["m9"], None),
        (&["m1"], Some(json!("m3"))),
        (&["m1", "m3"], Some(Value::Null)),
    ] {
        let cancelled: Vec<String> = cancelled.iter().map(|name| (*name).to_owned()).collect();
        let mut patch = json!({});
        forget(&binding, &cancelled, &mut patch);
        let annotations = patch.pointer("/metadata/annotations");
        let found = annotations.map(|all| all[EVICTED_FROM].clone());
        assert_eq!(found, expected, "{cancelled:?}");
    }
}

#[test]
fn the_return_removes_the_record_of_the_eviction() {
    let failback = |remaining: &[&str]| Failback {
        clusters: vec!["m1".to_owned()],
        remaining: remaining.iter().map(|name| (*name).to_owned()).collect(),
    };
    for (remaining, expected) in [(&[][..], Value::Null), (&["m3", "m4"], json!("m3,m4"))] {
        let patch = failback(remaining).patch(&evicted_from(&[], json!({}), json!({})), at(0));
        assert_eq!(patch["metadata"]["annotations"][EVICTED_FROM], expected);
        assert_eq!(
            patch["spec"]["rescheduleTriggeredAt"],
            "1970-01-01T00:00:00Z"
        );
    }
}

/// Returns a record of a cluster that is back since second 0, with this free CPU.
fn with_free_cpu(name: &str, free: &str, earlier: Option<&ClusterRecord>) -> ClusterRecord {
    let mut cluster = cluster(name, "True", 0, &json!([]));
    let summary = json!({ "allocatable": { "cpu": free } });
    let status = cluster.status.as_mut().unwrap();
    status.resource_summary = serde_json::from_value(summary).unwrap();
    let region = [("region".to_owned(), format!("{}-region", &name[..1]))];
    cluster.metadata.labels = Some(region.into());
    ClusterRecord::new(cluster, earlier, at(0), Instant::now())
}

/// Returns two replicas in m2, each with the request of one CPU.
fn requesting(evicted: &[&str], mut spec: Value, status: Value) -> BindingRecord {
    spec["replicaRequirements"] = json!({ "resourceRequest": { "cpu": "1" } });
    evicted_from(evicted, spec, status)
}

#[test]
fn a_full_cluster_gets_nothing_back_until_it_has_room() {
    let term = |name: &str, region: &str| json!({ "affinityName": name, "labelSelector": { "matchLabels": { "region": region } } });
    let placement =
        json!({ "clusterAffinities": [term("home", "h-region"), term("away", "m-region")] });
    let away = json!({ "schedulerObservingAffinityName": "away" });
    let evicted = requesting(&["m1", "m3"], json!({}), json!({}));
    let outside = requesting(&[], json!({ "placement": placement }), away);
    for (about, binding, free, expected, is_examined_again) in [
        (
            "room",
            &evicted,
            [("m1", "3"), ("m3", "3")],
            &["m1", "m3"][..],
            false,
        ),
        (
            "one is full",
            &evicted,
            [("m1", "2"), ("m3", "3")],
            &["m3"],
            true,
        ),
        (
            "both are full",
            &evicted,
            [("m1", "2"), ("m3", "1")],
            &[],
            true,
        ),
        (
            "one of the term is full",
            &outside,
            [("h1", "2"), ("h2", "3")],
            &["h2"],
            false,
        ),
        (
            "the term is full",
            &outside,
            [("h1", "2"), ("h2", "0")],
            &[],
            true,
        ),
    ] {
        let records = free.map(|(name, free)| (name.to_owned(), with_free_cpu(name, free, None)));
        let clusters = HashMap::from(records);
        let reports = Reports::new(binding, &clusters, Instant::now());
        let verdict = decide(&reports, &RebalanceOptions::default(), at(9999));
        let failback = verdict.failback.unwrap_or_default();
        assert_eq!(failback.clusters, expected, "{about}");
        if is_examined_again || expected.is_empty() {
            assert_eq!(verdict.next, Some(at(9999 + 60)), "{about}");
        }
    }
}

proptest! {
    /// Over any history of a cluster that fills and empties, and from which the binding is evicted now and then, the binding
    /// returns once for each eviction, only into room for its replicas, and is home when the cluster stays empty.
    #[test]
    fn a_binding_never_returns_into_a_full_cluster(
        history in prop::collection::vec((0..6000_i64, any::<bool>()), 1..40),
    ) {
        let mut binding = requesting(&[], json!({}), json!({}));
        binding.body.spec.clusters[0].name = "m1".to_owned();
        let (mut record, mut now) = (None::<ClusterRecord>, 0);
        let (mut evictions, mut returns) = (0, 0);
        for (free, evicts) in history.into_iter().chain([(6000, false)]) {
            if evicts && binding.is_placed_on("m1") {
                evictions += 1;
                binding.body.spec.clusters[0].name = "m2".to_owned();
                binding.evicted_from = vec!["m1".to_owned()];
            }
            // The record of the cluster changes although nothing but the free resources does.
            record = Some(with_free_cpu("m1", &format!("{free}m"), record.as_ref()));
            let all: HashMap<_, _> = record.clone().map(|of| ("m1".to_owned(), of)).into_iter().collect();
            for _ in 0..20 {
                now += 60;
                let reports = Reports::new(&binding, &all, Instant::now());
                let verdict = decide(&reports, &RebalanceOptions::default(), at(now));
                let waits = !binding.evicted_from.is_empty() && verdict.failback.is_none();
                prop_assert!(!waits || verdict.next.is_some(), "not examined again: {verdict:?}");
                if verdict.failback.is_some() {
                    prop_assert!(free >= 2200, "returned into {free}m");
                    returns += 1;
                    binding.body.spec.clusters[0].name = "m1".to_owned();
                    binding.evicted_from.clear();
                }
            }
        }
        prop_assert_eq!(returns, evictions);
        prop_assert!(binding.is_placed_on("m1"));
    }

    /// Over any history of one cluster that is lost and comes back, a binding that is evicted at each loss moves home at
    /// most a few times in six hours, never before the cluster was back for the patience, and is home in the end.
    #[test]
    fn a_binding_does_not_move_to_and_fro(
        history in prop::collection::vec((30..5000_i64, 30..5000_i64), 1..40),
    ) {
        let options = RebalanceOptions::default();
        let patience = i64::try_from(options.failback_after.as_secs()).unwrap();
        let mut binding = evicted_from(&[], json!({}), json!({}));
        binding.body.spec.clusters[0].name = "m1".to_owned();
        let (mut record, mut now, mut moves) = (None::<ClusterRecord>, 0_i64, Vec::new());
        let observe = |ready: &str, second: i64, record: &mut Option<ClusterRecord>| {
            let cluster = cluster("m1", ready, second, &json!([]));
            *record = Some(ClusterRecord::new(cluster, record.as_ref(), at(second), Instant::now()));
        };
        observe("True", 0, &mut record);
        let lasting = i64::try_from(Duration::from_hours(24).as_secs()).unwrap();
        let steps = history.into_iter().chain([(60, 60), (lasting, 1)]);
        for (down, up) in steps {
            // The cluster is lost, and the binding is evicted.
            now += up;
            observe("False", now, &mut record);
            if binding.is_placed_on("m1") {
                binding.body.spec.clusters[0].name = "m2".to_owned();
                binding.evicted_from = vec!["m1".to_owned()];
            }
            now += down;
            let back = now;
            observe("True", back, &mut record);
            let all: HashMap<_, _> = record.clone().map(|of| ("m1".to_owned(), of)).into_iter().collect();
            // The binding is examined each minute until the cluster is lost again.
            for _ in 0..(up / 60).max(1) {
                let reports = Reports::new(&binding, &all, Instant::now());
                if decide(&reports, &options, at(now)).failback.is_some() {
                    prop_assert!(now - back >= patience, "returned after {} s", now - back);
                    moves.push(now);
                    binding.body.spec.clusters[0].name = "m1".to_owned();
                    binding.evicted_from.clear();
                }
                now += 60;
            }
        }
        for first in &moves {
            let count = moves.iter().filter(|time| (*first..*first + 6 * 3600).contains(time)).count();
            prop_assert!(count <= 7, "{count} returns in six hours: {moves:?}");
        }
    }
}
