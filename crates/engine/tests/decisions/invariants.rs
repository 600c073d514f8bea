//! Tests of invariants that all decisions satisfy, with random fleets and bindings.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::feature_gates::EngineGates;
use berth_engine::{Engine, EngineOptions, Outcome, Stage};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{
    aggregated, binding, cluster, decide, duplicated, dynamic, engine, fleet, request,
    static_weights, with_binding_spec, with_label, with_spec,
};

/// Generates up to 14 clusters. This number suffices to make Go's sort unstable.
pub(crate) fn clusters() -> impl Strategy<Value = Vec<Value>> {
    let one = (
        0_i64..30,
        prop::sample::select(vec!["", "eu", "us", "asia"]),
        prop::sample::select(vec!["dev", "prod"]),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    );
    prop::collection::vec(one, 1..15).prop_map(|list| {
        list.into_iter()
            .enumerate()
            .map(|(number, (pods, region, env, tainted, deleting, no_api))| {
                let taints = if tainted {
                    json!([{"key": "gone", "effect": "NoSchedule"}])
                } else {
                    json!([])
                };
                let cluster = cluster(&format!("m{number:02}"), pods);
                let mut cluster = with_label(
                    with_spec(
                        cluster,
                        json!({"region": region, "provider": region, "taints": taints}),
                    ),
                    "env",
                    env,
                );
                if deleting {
                    cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
                if no_api {
                    cluster["status"]["apiEnablements"] = json!([]);
                }
                cluster
            })
            .collect()
    })
}

fn by_capacity() -> impl Strategy<Value = Value> + Clone {
    prop::sample::select(vec![dynamic(), aggregated()])
}

fn scheduling() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(duplicated()),
        2 => by_capacity(),
        1 =>
        prop::collection::vec(prop_oneof![0_i64..4, Just(i64::MAX)], 4).prop_map(|weights| {
            let rules: Vec<(&str, i64)> = ["m00", "m01", "m02", "m03"]
                .into_iter()
                .zip(weights)
                .collect();
            static_weights(&rules)
        }),
    ]
}

fn spread_by_cluster() -> impl Strategy<Value = Value> + Clone {
    (1_i64..4, 0_i64..4)
        .prop_map(|(min, more)| json!({"spreadByField": "cluster", "minGroups": min, "maxGroups": min + more}))
}

fn without_regions() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!([])),
        spread_by_cluster().prop_map(|cluster| json!([cluster])),
    ]
}

fn constraints() -> impl Strategy<Value = Value> {
    let region = (1_i64..3, 0_i64..3).prop_map(
        |(min, more)| json!({"spreadByField": "region", "minGroups": min, "maxGroups": min + more}),
    );
    prop_oneof![
        2 => without_regions(),
        1 => (region, spread_by_cluster()).prop_map(|(region, cluster)| json!([region, cluster])),
    ]
}

pub(crate) fn bindings() -> impl Strategy<Value = Value> {
    bindings_of(scheduling(), constraints())
}

fn bindings_of(
    scheduling: impl Strategy<Value = Value>,
    constraints: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    let current = prop::collection::btree_map(0_usize..14, 1_i32..8, 0..4);
    let affinity = prop::option::of(prop::sample::select(vec!["dev", "prod"]));
    let evicting = prop::option::weighted(0.2, 0_usize..14);
    (scheduling, constraints, 1_i32..60, current, affinity, evicting, any::<bool>()).prop_map(
        |(scheduling, constraints, replicas, current, affinity, evicting, odd)| {
            let affinity = affinity.map(|env| json!({"labelSelector": {"matchLabels": {"env": env}}}));
            let placement = json!({"replicaScheduling": scheduling, "spreadConstraints": constraints,
                "clusterAffinity": affinity});
            let current: Vec<Value> = current
                .into_iter()
                .map(|(number, replicas)| json!({"name": format!("m{number:02}"), "replicas": replicas}))
                .collect();
            let tasks: Vec<Value> = evicting
                .map(|number| json!({"fromCluster": format!("m{number:02}"), "reason": "x", "producer": "x"}))
                .into_iter()
                .collect();
            let mut binding =
                with_binding_spec(binding(replicas, placement), json!({"clusters": current, "gracefulEvictionTasks": tasks}));
            binding["spec"]["resource"]["uid"] = json!(if odd { "a" } else { "b" });
            binding
        },
    )
}

fn shares(outcome: &Outcome) -> Option<BTreeMap<String, i64>> {
    let placement = outcome.result.as_ref().ok()?;
    let targets = placement.targets.iter();
    Some(
        targets
            .map(|target| (target.name.to_string(), i64::from(target.replicas)))
            .collect(),
    )
}

/// Returns the shares of a placed binding, and rejects the input of the property if the binding is not placed.
fn placed(outcome: &Outcome) -> Result<BTreeMap<String, i64>, TestCaseError> {
    shares(outcome).ok_or_else(|| TestCaseError::reject("the binding is not placed"))
}

fn current(binding: &Value) -> BTreeMap<String, i64> {
    let clusters = binding["spec"]["clusters"].as_array().unwrap().iter();
    clusters
        .map(|cluster| {
            (
                cluster["name"].as_str().unwrap().to_owned(),
                cluster["replicas"].as_i64().unwrap(),
            )
        })
        .collect()
}

/// Returns the regions of the selected clusters, or `None` if the binding has no spread constraint by region.
fn selected_regions(clusters: &[Value], binding: &Value) -> Option<BTreeSet<String>> {
    let constraints = binding["spec"]["placement"]["spreadConstraints"].as_array()?;
    constraints
        .iter()
        .find(|constraint| constraint["spreadByField"] == "region")?;
    let snapshot = fleet(clusters).snapshot();
    let (_, explanation) = engine(EngineGates::default()).explain(&snapshot, &request(binding));
    let clusters = explanation.clusters_of_last_term()?;
    let selected = clusters
        .iter()
        .filter(|(_, cluster)| cluster.stage >= Stage::Selected);
    let regions = selected.filter_map(|(name, _)| snapshot.cluster(snapshot.ordinal(name)?));
    Some(regions.map(|cluster| cluster.region().to_owned()).collect())
}

/// Reports whether a cluster passes the filters only for bindings that already use the cluster. As in Karmada,
/// APIEnablement and TaintToleration exempt the current clusters of a binding.
fn passes_only_as_current(cluster: &Value) -> bool {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    is_empty(&cluster["status"]["apiEnablements"]) || !is_empty(&cluster["spec"]["taints"])
}

/// Number of inputs that each property accepts.
const CASES: u32 = 400;

proptest! {
    // A property fails if it rejects more than nine tenths of its inputs.
    #![proptest_config(ProptestConfig { max_global_rejects: 9 * CASES, ..ProptestConfig::with_cases(CASES) })]

    #[test]
    fn totals_are_exact(clusters in clusters(), binding in bindings()) {
        let replicas = binding["spec"]["replicas"].as_i64().unwrap();
        let shares = placed(&decide(&clusters, &binding))?;
        if binding["spec"]["placement"]["replicaScheduling"] == duplicated() {
            prop_assert!(shares.values().all(|share| *share == replicas));
        } else {
            prop_assert_eq!(shares.values().sum::<i64>(), replicas);
        }
    }

    #[test]
    fn results_respect_all_filters(clusters in clusters(), binding in bindings()) {
        let (outcome, explanation) =
            engine(EngineGates::default()).explain(&fleet(&clusters).snapshot(), &request(&binding));
        let evicting = &binding["spec"]["gracefulEvictionTasks"][0]["fromCluster"];
        for name in placed(&outcome)?.keys() {
            let explained = &explanation.clusters_of_last_term().unwrap()[name];
            prop_assert_eq!(explained.stage, Stage::Placed);
            prop_assert!(explained.refusal.is_none());
            prop_assert_ne!(evicting.as_str(), Some(name.as_str()));
            let cluster = clusters.iter().find(|cluster| cluster["metadata"]["name"] == **name).unwrap();
            prop_assert!(cluster["metadata"]["deletionTimestamp"].is_null());
        }
    }

    #[test]
    fn selections_respect_spread_bounds(clusters in clusters(), binding in bindings()) {
        let (outcome, explanation) =
            engine(EngineGates::default()).explain(&fleet(&clusters).snapshot(), &request(&binding));
        let placement = &binding["spec"]["placement"];
        let by_weight = !placement["replicaScheduling"]["weightPreference"]["staticWeightList"].is_null();
        let constraints = placement["spreadConstraints"].as_array().unwrap();
        prop_assume!(outcome.result.is_ok() && !by_weight && !constraints.is_empty());
        let snapshot = fleet(&clusters).snapshot();
        let explained = explanation.clusters_of_last_term().unwrap();
        let selected: Vec<&str> = explained
            .iter()
            .filter(|(_, cluster)| cluster.stage >= Stage::Selected)
            .map(|(name, _)| name.as_str())
            .collect();
        let mut regions: Vec<&str> = selected
            .iter()
            .map(|name| snapshot.cluster(snapshot.ordinal(name).unwrap()).unwrap().region())
            .collect();
        regions.sort_unstable();
        regions.dedup();
        let spreads_by_region = constraints.iter().any(|constraint| constraint["spreadByField"] == "region");
        for constraint in constraints {
            let min = usize::try_from(constraint["minGroups"].as_i64().unwrap()).unwrap();
            let max = usize::try_from(constraint["maxGroups"].as_i64().unwrap()).unwrap();
            if constraint["spreadByField"] == "region" {
                prop_assert!((min..=max).contains(&regions.len()), "{} regions", regions.len());
            } else if spreads_by_region {
                // Each region gets at least one cluster, even if the maximum is smaller.
                prop_assert!(selected.len() <= max.max(regions.len()));
            } else {
                prop_assert!((min..=max).contains(&selected.len()), "{} clusters", selected.len());
            }
        }
    }

    #[test]
    fn result_is_independent_of_input_order(clusters in clusters(), binding in bindings()) {
        let reversed: Vec<Value> = clusters.iter().rev().cloned().collect();
        let mut other = binding.clone();
        let rules = other.pointer_mut("/spec/placement/replicaScheduling/weightPreference/staticWeightList");
        if let Some(rules) = rules.and_then(Value::as_array_mut) {
            rules.reverse();
        }
        prop_assert_eq!(decide(&clusters, &binding), decide(&reversed, &other));
    }

    #[test]
    fn scaling_is_monotonic(
        clusters in clusters(), binding in bindings_of(by_capacity(), constraints()),
    ) {
        let (outcome, explanation) =
            engine(EngineGates::default()).explain(&fleet(&clusters).snapshot(), &request(&binding));
        let shares = placed(&outcome)?;
        let explained = explanation.clusters_of_last_term().unwrap();
        let kept: BTreeMap<String, i64> = current(&binding)
            .into_iter()
            .filter(|(name, _)| explained.get(name).is_some_and(|cluster| cluster.stage >= Stage::Selected))
            .collect();
        let replicas = binding["spec"]["replicas"].as_i64().unwrap();
        let before: i64 = kept.values().sum();
        // Only a binding with replicas in selected clusters is scaled.
        prop_assume!(before > 0 && before != replicas);
        for (name, current) in &kept {
            let share = shares.get(name).copied().unwrap_or(0);
            prop_assert!(before > replicas || share >= *current, "{name}: {current} -> {share}");
        }
        for (name, share) in &shares {
            let current = kept.get(name).copied().unwrap_or(0);
            prop_assert!(before < replicas || *share <= current, "{name}: {current} -> {share}");
        }
    }

    #[test]
    fn decisions_are_idempotent(
        clusters in clusters(), binding in bindings_of(by_capacity(), constraints()),
    ) {
        let result = placed(&decide(&clusters, &binding))?;
        let targets: Vec<Value> = result.iter().map(|(name, n)| json!({"name": name, "replicas": n})).collect();
        let before = current(&binding);
        // If the workload left a cluster that passes the filters only as a current cluster, the second decision
        // rejects this cluster, and may miss `minGroups`.
        let left = |name: &str| before.contains_key(name) && !result.contains_key(name);
        prop_assume!(!clusters.iter().any(|cluster| {
            passes_only_as_current(cluster) && cluster["metadata"]["name"].as_str().is_some_and(left)
        }));
        let mut reported = clusters.clone();
        for cluster in &mut reported {
            let name = cluster["metadata"]["name"].as_str().unwrap().to_owned();
            let added = result.get(&name).unwrap_or(&0) - before.get(&name).unwrap_or(&0);
            cluster["status"]["resourceSummary"]["allocated"] = json!({"pods": added.to_string()});
        }
        let again = with_binding_spec(binding.clone(), json!({"clusters": targets}));
        // As in Karmada, the scores of regions depend on free capacity. The second decision may therefore prefer
        // other regions.
        prop_assume!(selected_regions(&clusters, &binding) == selected_regions(&reported, &again));
        prop_assert_eq!(shares(&decide(&reported, &again)), Some(result));
    }

    #[test]
    fn caches_do_not_change_decisions(
        rounds in prop::collection::vec((clusters(), prop::collection::vec(bindings(), 1..4)), 1..4),
    ) {
        let new = |placements| Engine::new(EngineOptions::default()).unwrap().with_cached_placements(placements);
        let (mut cached, mut uncached, mut small_cache) = (new(64), new(0), new(2));
        for (clusters, bindings) in rounds {
            let snapshot = fleet(&clusters).snapshot();
            for binding in bindings.iter().chain(&bindings) {
                let request = request(binding);
                let outcome = uncached.schedule(&snapshot, &request);
                prop_assert_eq!(&cached.schedule(&snapshot, &request), &outcome);
                prop_assert_eq!(&small_cache.schedule(&snapshot, &request), &outcome);
                prop_assert_eq!(&cached.explain(&snapshot, &request).0, &outcome);
            }
        }
    }
}

#[test]
fn extreme_weights_over_five_thousand_clusters_do_not_overflow() {
    let clusters: Vec<Value> = (0..5000)
        .map(|number| cluster(&format!("m{number:04}"), 1_000_000))
        .collect();
    let mut fleet = fleet(&clusters);
    let heavy: Vec<String> = (0..2500).map(|number| format!("m{number:04}")).collect();
    let placement = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [
            {"targetCluster": {"clusterNames": heavy}, "weight": i64::MAX},
            {"targetCluster": {}, "weight": 0},
        ]},
    }});
    for placement in [
        placement,
        json!({"replicaScheduling": dynamic()}),
        json!({"replicaScheduling": aggregated()}),
    ] {
        let request = request(&with_binding_spec(
            binding(i32::MAX, placement),
            json!({"replicaRequirements": {}}),
        ));
        let outcome = engine(EngineGates::default()).schedule(&fleet.snapshot(), &request);
        let total: i64 = shares(&outcome).unwrap().values().sum();
        assert_eq!(total, i64::from(i32::MAX));
    }
}
