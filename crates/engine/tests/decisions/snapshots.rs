//! Tests that a fleet has the same snapshot after incremental changes as after a rebuild.

use berth_api::cluster::Cluster;
use berth_api::feature_gates::EngineGates;
use berth_engine::{Aspect, Fleet};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{binding, cluster, engine, fleet, request, text, with_label, with_spec};
use crate::invariants::{bindings, clusters};

fn apply(fleet: &mut Fleet, cluster: &Value) -> Vec<Aspect> {
    fleet
        .apply(&serde_json::from_value::<Cluster>(cluster.clone()).unwrap())
        .aspects()
        .to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn incremental_snapshot_equals_rebuild(
        first in clusters(), second in clusters(), gone in 0_usize..14, bindings in prop::collection::vec(bindings(), 4),
    ) {
        let mut followed = fleet(&first);
        let before = followed.snapshot();
        for (number, cluster) in second.iter().enumerate() {
            apply(&mut followed, cluster);
            if number % 3 == 0 {
                followed.snapshot();
            }
        }
        // The expected clusters are those of the second state, and the other clusters of the first state, except for
        // one removed cluster.
        let mut all = second.clone();
        all.extend(first.iter().skip(second.len()).cloned());
        if gone < all.len() {
            let name = all.remove(gone)["metadata"]["name"].as_str().unwrap().to_owned();
            prop_assert!(followed.remove(&name));
        }
        let mut engine = engine(EngineGates::default());
        for binding in &bindings {
            let request = request(binding);
            prop_assert_eq!(
                engine.explain(&followed.snapshot(), &request),
                engine.explain(&fleet(&all).snapshot(), &request)
            );
            // Earlier snapshots stay unchanged.
            prop_assert_eq!(
                engine.explain(&before, &request),
                engine.explain(&fleet(&first).snapshot(), &request)
            );
        }
    }
}

#[test]
fn apply_returns_the_changed_aspects_of_a_cluster() {
    let mut fleet = Fleet::new();
    let base = with_label(cluster("m1", 5), "env", "dev");
    let mut leaving = base.clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut without_apis = base.clone();
    without_apis["status"]["apiEnablements"] = json!([]);
    let mut unreadable = base.clone();
    unreadable["status"]["resourceSummary"]["allocatable"]["cpu"] = json!("much");
    let taint = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    let preference = json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]});
    for (state, expected) in [
        (base.clone(), vec![Aspect::Added]),
        (base.clone(), vec![]),
        (
            with_label(base.clone(), "env", "prod"),
            vec![Aspect::Labels],
        ),
        (base.clone(), vec![Aspect::Labels]),
        (
            with_spec(base.clone(), json!({"region": "eu"})),
            vec![Aspect::Fields],
        ),
        (
            with_spec(base.clone(), json!({"zones": ["a"]})),
            vec![Aspect::Fields],
        ),
        (
            with_spec(base.clone(), taint),
            vec![Aspect::Fields, Aspect::Taints],
        ),
        (with_spec(base.clone(), preference), vec![Aspect::Taints]),
        (leaving, vec![Aspect::Deletion]),
        (without_apis, vec![Aspect::Apis, Aspect::Deletion]),
        (base.clone(), vec![Aspect::Apis]),
        (unreadable, vec![Aspect::Capacity]),
        (base, vec![Aspect::Capacity]),
    ] {
        assert_eq!(apply(&mut fleet, &state), expected, "{state}");
    }
    assert!(fleet.remove("m1"));
    assert!(!fleet.remove("m1"));
    assert!(fleet.snapshot().is_empty());
}

#[test]
fn taints_stay_current_when_unused_taint_lists_are_removed() {
    let mut fleet = Fleet::new();
    for round in 0..1000 {
        let taints = json!({"taints": [{"key": "since", "value": round.to_string(), "effect": "NoSchedule"}]});
        apply(&mut fleet, &with_spec(cluster("m1", 5), taints));
        let snapshot = fleet.snapshot();
        let taints = snapshot.cluster(0).unwrap().taints();
        assert_eq!(taints[0].to_string(), format!("since={round}:NoSchedule"));
        let tolerated =
            json!({"clusterTolerations": [{"key": "since", "value": round.to_string()}]});
        let outcome =
            engine(EngineGates::default()).schedule(&snapshot, &request(&binding(3, tolerated)));
        assert_eq!(text(&outcome), "m1:3");
    }
}
