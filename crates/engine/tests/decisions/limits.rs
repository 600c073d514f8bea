//! Tests of the limits in the annotation `scheduling.berth/replica-limits`.

use std::collections::BTreeMap;

use berth_api::feature_gates::EngineGates;
use berth_api::go_json::placement_json;
use berth_api::well_known::{APPLIED_PLACEMENT, APPLIED_REPLICA_LIMITS, REPLICA_LIMITS};
use berth_api::{Binding, ResourceBinding};
use berth_engine::{DivisionOperation, LimitReached, Outcome, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{
    aggregated, binding, cluster, dynamic, engine, fleet, static_weights, with_binding_spec,
    with_label, with_reschedule_request,
};

/// Number of clusters in random fleets.
const CLUSTERS: usize = 6;

/// Reports whether the placement and the limits are those of the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Applied,
    New,
}

/// Returns the binding with limits.
fn limited(binding: &Value, limits: &Value, rules: Rules) -> Request {
    let mut object = binding.clone();
    let limits = limits.to_string();
    object["metadata"] = json!({"name": "web-deployment", "namespace": "shop",
        "annotations": {REPLICA_LIMITS: limits}});
    let mut parsed = Binding::from(serde_json::from_value::<ResourceBinding>(object).unwrap());
    if rules == Rules::Applied {
        let placement = placement_json(parsed.spec.placement.as_ref().unwrap()).unwrap();
        parsed.metadata.annotations.as_mut().unwrap().extend([
            (APPLIED_REPLICA_LIMITS.to_owned(), limits),
            (APPLIED_PLACEMENT.to_owned(), placement),
        ]);
    }
    Request::of(&parsed).unwrap()
}

fn decide_within(clusters: &[Value], binding: &Value, limits: &Value, rules: Rules) -> Outcome {
    let request = limited(binding, limits, rules);
    engine(EngineGates::default()).schedule(&fleet(clusters).snapshot(), &request)
}

/// Returns a binding with current replicas in the clusters `m0`, `m1` and so on.
fn running(replicas: i64, scheduling: &Value, current: &[i64]) -> Value {
    let current = current.iter().enumerate();
    let clusters: Vec<Value> = current
        .filter(|(_, replicas)| **replicas > 0)
        .map(|(index, replicas)| json!({"name": format!("m{index}"), "replicas": replicas}))
        .collect();
    let placement = json!({"replicaScheduling": scheduling});
    with_binding_spec(
        binding(i32::try_from(replicas).unwrap(), placement),
        json!({"clusters": clusters}),
    )
}

/// Returns clusters with room for further replicas.
fn with_room(free: &[i64]) -> Vec<Value> {
    let free = free.iter().enumerate();
    free.map(|(index, free)| cluster(&format!("m{index}"), *free))
        .collect()
}

/// Formats the decision, an error without the name of its point.
fn text(outcome: &Outcome) -> String {
    let text = crate::fixtures::text(outcome);
    let error = text.strip_prefix("failed to assign replicas: ");
    let error = error.or_else(|| text.strip_prefix("failed to select clusters: "));
    error.unwrap_or(&text).to_owned()
}

fn shares(outcome: &Outcome) -> Option<Vec<i64>> {
    let targets = &outcome.result.as_ref().ok()?.targets;
    let by_name: BTreeMap<&str, i64> = targets
        .iter()
        .map(|target| (&*target.name, i64::from(target.replicas)))
        .collect();
    let share = |index| by_name.get(format!("m{index}").as_str()).copied();
    Some(
        (0..CLUSTERS)
            .map(|index| share(index).unwrap_or(0))
            .collect(),
    )
}

#[test]
fn limits_hold_for_every_preference() {
    let named = |name: &str, limits: Value| {
        let mut entry = limits;
        entry["targetCluster"] = json!({"clusterNames": [name]});
        entry
    };
    let at_most = json!({"clusters": [named("m0", json!({"max": 2}))]});
    let at_least = json!({"clusters": [named("m2", json!({"min": 3}))]});
    let halves = json!({"clusters": [{"max": "50%"}]});
    let weights = static_weights(&[("m0", 3), ("m1", 1), ("m2", 1)]);
    let two_weights = static_weights(&[("m0", 3), ("m1", 1)]);
    for (scheduling, limits, replicas, expected) in [
        (&weights, &at_most, 10, "m0:2 m1:4 m2:4"),
        (&weights, &at_least, 10, "m0:5 m1:2 m2:3"),
        (&weights, &halves, 10, "m0:5 m1:3 m2:2"),
        (&two_weights, &halves, 3, "m0:2 m1:1"),
        (&weights, &json!({"spread": "Even"}), 7, "m0:3 m1:2 m2:2"),
        (&dynamic(), &at_most, 10, "m0:2 m1:4 m2:4"),
        (&dynamic(), &at_least, 4, "m0:1 m2:3"),
        (&dynamic(), &json!({"spread": "Even"}), 7, "m0:3 m1:2 m2:2"),
        (&aggregated(), &at_most, 10, "m1:10"),
        (&aggregated(), &at_least, 10, "m2:10"),
        (&aggregated(), &halves, 10, "m0:5 m1:5"),
        (
            &aggregated(),
            &json!({"spread": "Even"}),
            7,
            "m0:3 m1:2 m2:2",
        ),
    ] {
        let clusters = with_room(&[40, 20, 20]);
        let outcome = decide_within(
            &clusters,
            &running(replicas, scheduling, &[]),
            limits,
            Rules::New,
        );
        assert_eq!(text(&outcome), expected, "{scheduling} {limits} {replicas}");
    }
}

#[test]
fn errors_name_the_annotation_the_clusters_and_the_numbers() {
    let best_effort = json!({"fit": "BestEffort"});
    let closed = json!({"clusters": [{"max": 0}], "fit": "BestEffort"});
    let weights = static_weights(&[("m0", 1), ("m1", 1)]);
    for (scheduling, limits, free, replicas, expected) in [
        (
            &weights,
            &json!({"clusters": [{"min": 3}]}),
            [9, 9],
            5,
            "scheduling.berth/replica-limits: the minimums of the selected clusters need 6 replicas, but the workload has 5",
        ),
        (
            &weights,
            &json!({"clusters": [{"max": 2}]}),
            [9, 9],
            5,
            "scheduling.berth/replica-limits: only 4 of 5 replicas can be placed: at most 2 in m0, at most 2 in m1",
        ),
        (
            &dynamic(),
            &json!({"clusters": [{"max": 2, "targetCluster": {"clusterNames": ["m0"]}}]}),
            [9, 1],
            5,
            "scheduling.berth/replica-limits: only 3 of 5 replicas can be placed: at most 2 in m0, room for 1 in m1",
        ),
        (
            &dynamic(),
            &json!({"clusters": [{"min": 2}]}),
            [9, 1],
            5,
            "scheduling.berth/replica-limits: m1 must have at least 2 replicas, but has room for 1",
        ),
        (
            &dynamic(),
            &json!({"clusters": [{"min": 2}, {"max": "10%"}]}),
            [9, 9],
            5,
            "scheduling.berth/replica-limits: m0 must have at least 2 replicas and at most 1",
        ),
        (
            &aggregated(),
            &best_effort,
            [0, 0],
            5,
            "scheduling.berth/replica-limits: only 0 of 5 replicas can be placed: room for 0 in m0, room for 0 in m1",
        ),
        (
            &aggregated(),
            &closed,
            [9, 9],
            5,
            "scheduling.berth/replica-limits: only 0 of 5 replicas can be placed: at most 0 in m0, at most 0 in m1",
        ),
    ] {
        let outcome = decide_within(
            &with_room(&free),
            &running(replicas, scheduling, &[]),
            limits,
            Rules::New,
        );
        assert_eq!(text(&outcome), expected, "{limits}");
    }
}

#[test]
fn what_fits_is_placed_and_the_rest_waits() {
    let limits = json!({"fit": "BestEffort"});
    let weights = static_weights(&[("m0", 1), ("m1", 1)]);
    for scheduling in [&weights, &dynamic(), &aggregated()] {
        let binding = running(5, scheduling, &[]);
        let outcome = decide_within(&with_room(&[2, 1]), &binding, &limits, Rules::New);
        assert_eq!(text(&outcome), "m0:2 m1:1", "{scheduling}");
        assert_eq!(outcome.result.unwrap().waiting, 2, "{scheduling}");
        // More room comes in one cluster: no replica leaves the other.
        let placed = running(5, scheduling, &[2, 1]);
        let outcome = decide_within(&with_room(&[0, 9]), &placed, &limits, Rules::Applied);
        assert_eq!(text(&outcome), "m0:2 m1:3", "{scheduling}");
        assert_eq!(outcome.result.unwrap().waiting, 0, "{scheduling}");
    }
}

#[test]
fn the_best_effort_selects_the_clusters_with_the_most_room() {
    let mut binding = running(9, &dynamic(), &[]);
    binding["spec"]["placement"]["spreadConstraints"] =
        json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]);
    let clusters = with_room(&[1, 2, 3, 4]);
    let limits = json!({"fit": "BestEffort"});
    let outcome = decide_within(&clusters, &binding, &limits, Rules::New);
    assert_eq!(text(&outcome), "m2:3 m3:4");
    assert_eq!(outcome.result.unwrap().waiting, 2);
    let outcome = decide_within(&clusters, &binding, &json!({}), Rules::New);
    assert_eq!(
        text(&outcome),
        "no enough resource when selecting 2 clusters"
    );
}

#[test]
fn entries_select_clusters_by_label_and_all_of_them_hold() {
    let clusters: Vec<Value> = with_room(&[20, 20, 20])
        .into_iter()
        .zip(["edge", "edge", "core"])
        .map(|(cluster, tier)| with_label(cluster, "tier", tier))
        .collect();
    let limits = json!({"clusters": [
        {"targetCluster": {"labelSelector": {"matchLabels": {"tier": "edge"}}}, "max": 3},
        {"targetCluster": {"clusterNames": ["m1"]}, "max": 1},
    ]});
    let outcome = decide_within(
        &clusters,
        &running(12, &dynamic(), &[]),
        &limits,
        Rules::New,
    );
    assert_eq!(text(&outcome), "m0:3 m1:1 m2:8");
}

#[test]
fn a_workload_that_is_scaled_to_zero_has_no_minimum() {
    let limits = json!({"clusters": [{"min": 1}]});
    for scheduling in [static_weights(&[("m0", 1)]), dynamic(), aggregated()] {
        let binding = running(0, &scheduling, &[2, 2]);
        let outcome = decide_within(&with_room(&[9, 9]), &binding, &limits, Rules::Applied);
        assert_eq!(text(&outcome), "", "{scheduling}");
    }
}

#[test]
fn duplicated_replicas_are_not_limited() {
    let limits = json!({"clusters": [{"max": 1}], "spread": "Even"});
    let binding = running(3, &json!({"replicaSchedulingType": "Duplicated"}), &[]);
    let outcome = decide_within(&with_room(&[9, 9]), &binding, &limits, Rules::New);
    assert_eq!(text(&outcome), "m0:3 m1:3");
}

#[test]
fn static_weights_move_replicas_only_for_new_rules() {
    let weights = static_weights(&[("m0", 1), ("m1", 1)]);
    let limits = json!({"clusters": [{"min": 1}]});
    let clusters = with_room(&[99, 99]);
    for (replicas, rules, expected) in [
        (8, Rules::Applied, "m0:6 m1:2"),
        (9, Rules::Applied, "m0:6 m1:3"),
        (5, Rules::Applied, "m0:3 m1:2"),
        (8, Rules::New, "m0:4 m1:4"),
    ] {
        let binding = running(replicas, &weights, &[6, 2]);
        let outcome = decide_within(&clusters, &binding, &limits, rules);
        assert_eq!(text(&outcome), expected, "{replicas} {rules:?}");
    }
    let rescheduled = with_reschedule_request(running(8, &weights, &[6, 2]));
    let outcome = decide_within(&clusters, &rescheduled, &limits, Rules::Applied);
    assert_eq!(text(&outcome), "m0:4 m1:4");
}

#[test]
fn tiers_leave_the_minimums_of_later_tiers() {
    let mut binding = running(6, &dynamic(), &[]);
    binding["spec"]["placement"]["clusterAffinities"] = json!([{"affinityName": "a", "clusterNames": ["m0"],
        "overflowAffinities": [{"affinityName": "b", "clusterNames": ["m1"]}]}]);
    let clusters = with_room(&[4, 9]);
    for (limits, expected) in [
        (json!({"fit": "BestEffort"}), "m0:4 m1:2"),
        (json!({"clusters": [{"min": 3}]}), "m0:3 m1:3"),
        (
            json!({"clusters": [{"max": 1}], "fit": "BestEffort"}),
            "m0:1 m1:1",
        ),
        (
            json!({"clusters": [{"max": 1}]}),
            "Clusters available replicas are not enough to schedule.",
        ),
    ] {
        let outcome = decide_within(&clusters, &binding, &limits, Rules::New);
        assert_eq!(text(&outcome), expected, "{limits}");
    }
}

#[test]
fn the_explanation_names_the_limits_that_shares_reach() {
    let limits = json!({"clusters": [
        {"targetCluster": {"clusterNames": ["m0"]}, "max": 2},
        {"targetCluster": {"clusterNames": ["m1"]}, "min": 5},
    ]});
    let request = limited(&running(10, &dynamic(), &[]), &limits, Rules::New);
    let snapshot = fleet(&with_room(&[50, 5, 50])).snapshot();
    let (_, explanation) = engine(EngineGates::default()).explain(&snapshot, &request);
    let step = &explanation.terms[0].division[0];
    assert_eq!(step.operation, DivisionOperation::Limit);
    let reached: Vec<_> = step
        .shares
        .iter()
        .map(|share| (share.cluster.as_str(), share.replicas, share.limit))
        .collect();
    assert_eq!(
        reached,
        [
            ("m0", 2, Some(LimitReached::AtMost(2))),
            ("m1", 5, Some(LimitReached::AtLeast(5))),
            ("m2", 3, None)
        ]
    );
}

/// A random workload with limits on a random fleet.
#[derive(Clone, Debug)]
struct Case {
    replicas: i64,
    scheduling: Value,
    weights: Vec<i64>,
    free: Vec<i64>,
    current: Vec<i64>,
    minimums: Vec<i64>,
    maximums: Vec<Option<i64>>,
    even: bool,
    best_effort: bool,
    rules: Rules,
}

/// The minimum and the maximum of a cluster that limits, room and weights leave.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i64,
    high: i64,
    room: i64,
}

impl Case {
    fn is_static(&self) -> bool {
        !self.scheduling["weightPreference"]["staticWeightList"].is_null()
    }

    fn limits(&self) -> Value {
        let entries = self.minimums.iter().zip(&self.maximums).enumerate();
        let entries: Vec<Value> = entries
            .map(|(index, (min, max))| {
                let target = json!({"clusterNames": [format!("m{index}")]});
                match max {
                    Some(max) => json!({"targetCluster": target, "min": min, "max": max}),
                    None => json!({"targetCluster": target, "min": min}),
                }
            })
            .collect();
        json!({
            "clusters": entries,
            "spread": if self.even { "Even" } else { "Preferred" },
            "fit": if self.best_effort { "BestEffort" } else { "All" },
        })
    }

    fn binding(&self) -> Value {
        running(self.replicas, &self.scheduling, &self.current)
    }

    fn decide(&self) -> Outcome {
        decide_within(
            &with_room(&self.free),
            &self.binding(),
            &self.limits(),
            self.rules,
        )
    }

    fn bounds(&self) -> Vec<Bounds> {
        let is_weighted = self.is_static() && self.weights.iter().any(|weight| *weight > 0);
        let bounds = (0..CLUSTERS).map(|index| {
            let counts_capacity = !self.is_static() || self.even || self.best_effort;
            let room = if counts_capacity {
                self.free[index] + self.current[index]
            } else {
                i64::MAX
            };
            let low = self.minimums[index].min(room);
            let max = self.maximums[index].unwrap_or(i64::MAX);
            let mut high = max.min(room);
            if is_weighted && self.weights[index] == 0 {
                high = low;
            }
            Bounds { low, high, room }
        });
        bounds.collect()
    }

    /// Reports whether the running replicas decide first.
    fn keeps_current(&self) -> bool {
        !self.even && (!self.is_static() || self.rules == Rules::Applied)
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let scheduling = prop_oneof![Just(None), Just(Some(dynamic())), Just(Some(aggregated()))];
    let maximum = prop::option::weighted(0.5, 0_i64..10);
    let lists = (
        prop::collection::vec(0_i64..4, CLUSTERS),
        prop::collection::vec(0_i64..20, CLUSTERS),
        prop::collection::vec(0_i64..8, CLUSTERS),
        prop::collection::vec(prop_oneof![3 => Just(0_i64), 1 => 1_i64..4], CLUSTERS),
        prop::collection::vec(maximum, CLUSTERS),
    );
    let choices = (any::<bool>(), any::<bool>(), any::<bool>());
    (1_i64..50, scheduling, lists, choices).prop_map(
        |(
            replicas,
            scheduling,
            (weights, free, current, minimums, maximums),
            (even, best_effort, applied),
        )| {
            let names: Vec<String> = (0..CLUSTERS).map(|index| format!("m{index}")).collect();
            let rules: Vec<(&str, i64)> = names
                .iter()
                .map(String::as_str)
                .zip(weights.iter().copied())
                .collect();
            let maximums = maximums.into_iter().zip(&minimums);
            Case {
                scheduling: scheduling.unwrap_or_else(|| static_weights(&rules)),
                maximums: maximums
                    .map(|(max, min)| max.map(|max| max.max(*min)))
                    .collect(),
                replicas,
                weights,
                free,
                current,
                minimums,
                even,
                best_effort,
                rules: if applied { Rules::Applied } else { Rules::New },
            }
        },
    )
}

fn distance(one: &[i64], other: &[i64]) -> i64 {
    one.iter()
        .zip(other)
        .map(|(one, other)| (one - other).abs())
        .sum()
}

const CASES: u32 = 600;

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 9 * CASES, ..ProptestConfig::with_cases(CASES) })]

    /// A workload is placed if and only if its limits and the capacity allow that. All replicas that fit are placed.
    #[test]
    fn limits_hold_and_totals_are_exact(case in cases()) {
        let bounds = case.bounds();
        let possible: i64 = bounds.iter().map(|bounds| bounds.high.min(case.replicas)).sum();
        let needed: i64 = case.minimums.iter().sum();
        let minimums_fit = case.best_effort || bounds.iter().zip(&case.minimums).all(|(bounds, min)| *min <= bounds.room);
        let fits = if case.best_effort { possible > 0 } else { possible >= case.replicas };
        let outcome = case.decide();
        let Some(shares) = shares(&outcome) else {
            prop_assert!(needed > case.replicas || !minimums_fit || !fits, "{}", text(&outcome));
            prop_assert!(text(&outcome).starts_with(REPLICA_LIMITS), "{}", text(&outcome));
            return Ok(());
        };
        prop_assert!(needed <= case.replicas && minimums_fit && fits);
        let placed = possible.min(case.replicas);
        prop_assert_eq!(shares.iter().sum::<i64>(), placed);
        prop_assert_eq!(outcome.result.unwrap().waiting, case.replicas - placed);
        for (index, (share, bounds)) in shares.iter().zip(&bounds).enumerate() {
            prop_assert!((bounds.low..=bounds.high).contains(share), "m{index}: {share} {bounds:?}");
        }
    }

    /// A decision moves as few replicas as the limits allow: it moves running replicas into the limits, and then only
    /// adds or only removes replicas.
    #[test]
    fn no_decision_within_the_limits_moves_fewer_replicas(case in cases()) {
        let outcome = case.decide();
        prop_assume!(case.keeps_current() && outcome.result.is_ok());
        let shares = shares(&outcome).unwrap();
        let bounds = case.bounds();
        let inside: Vec<i64> =
            case.current.iter().zip(&bounds).map(|(current, bounds)| (*current).clamp(bounds.low, bounds.high)).collect();
        let rest = shares.iter().sum::<i64>() - inside.iter().sum::<i64>();
        prop_assert_eq!(distance(&shares, &case.current), distance(&inside, &case.current) + rest.abs());
    }

    /// Rescaling a workload that was placed by the same rules moves no running replica, whatever the preference is.
    #[test]
    fn rescaling_moves_nothing(case in cases(), replicas in 1_i64..50) {
        let first = Case { current: vec![0; CLUSTERS], rules: Rules::New, ..case };
        let outcome = first.decide();
        prop_assume!(outcome.result.is_ok());
        let before = shares(&outcome).unwrap();
        let free = first.free.iter().zip(&before).map(|(free, taken)| (free - taken).max(0)).collect();
        let second = Case { replicas, current: before.clone(), free, rules: Rules::Applied, ..first };
        let outcome = second.decide();
        prop_assume!(outcome.result.is_ok());
        let after = shares(&outcome).unwrap();
        let change = after.iter().sum::<i64>() - before.iter().sum::<i64>();
        prop_assert_eq!(distance(&after, &before), change.abs(), "{:?} -> {:?}", before, after);
    }

    #[test]
    fn even_shares_differ_by_at_most_one_within_the_bounds(case in cases()) {
        let case = Case { even: true, ..case };
        let outcome = case.decide();
        prop_assume!(outcome.result.is_ok());
        let shares = shares(&outcome).unwrap();
        let bounds = case.bounds();
        // No replica can move from a cluster to another cluster that has two replicas less.
        let may_give = shares.iter().zip(&bounds).filter(|(share, bounds)| **share > bounds.low);
        let may_take = shares.iter().zip(&bounds).filter(|(share, bounds)| **share < bounds.high);
        if let (Some(most), Some(least)) =
            (may_give.map(|(share, _)| share).max(), may_take.map(|(share, _)| share).min())
        {
            prop_assert!(most - least <= 1, "{shares:?} {bounds:?}");
            // Clusters with running replicas get one more replica first.
            let open = |index: &usize| bounds[*index].low <= *least && *least < bounds[*index].high;
            let candidates: Vec<usize> = (0..CLUSTERS).filter(open).collect();
            let extra = candidates.iter().filter(|index| shares[**index] == least + 1).count();
            let running = candidates.iter().filter(|index| case.current[**index] > *least);
            let kept = candidates.iter().filter(|index| case.current[**index] > *least && shares[**index] == least + 1);
            prop_assert_eq!(kept.count(), extra.min(running.count()), "{:?}", shares);
        }
    }

    /// With the feature gate NoScaleUpOnTaints, a cluster with an untolerated taint only keeps replicas, with and without
    /// limits.
    #[test]
    fn tainted_clusters_get_no_further_replicas(case in cases(), tainted in prop::collection::vec(any::<bool>(), CLUSTERS)) {
        let clusters = with_room(&case.free).into_iter().zip(&tainted).map(|(mut cluster, tainted)| {
            if *tainted {
                cluster["spec"]["taints"] = json!([{"key": "gone", "effect": "NoSchedule"}]);
            }
            cluster
        });
        let snapshot = fleet(&clusters.collect::<Vec<_>>()).snapshot();
        let mut engine = engine(EngineGates { no_scale_up_on_taints: true, ..EngineGates::default() });
        for request in [limited(&case.binding(), &case.limits(), case.rules), crate::fixtures::request(&case.binding())] {
            let Some(shares) = shares(&engine.schedule(&snapshot, &request)) else {
                continue;
            };
            for index in (0..CLUSTERS).filter(|index| tainted[*index]) {
                prop_assert!(shares[index] <= case.current[index], "m{index}: {}", shares[index]);
            }
        }
    }

    #[test]
    fn limits_that_limit_nothing_change_no_division_by_weights(case in cases()) {
        prop_assume!(case.scheduling != aggregated());
        let clusters = with_room(&case.free);
        let limited = decide_within(&clusters, &case.binding(), &json!({"clusters": [{"min": 0}]}), Rules::New);
        let unlimited = crate::fixtures::decide(&clusters, &case.binding());
        if unlimited.result.is_ok() {
            prop_assert_eq!(text(&limited), text(&unlimited));
        } else {
            prop_assert!(limited.result.is_err());
        }
    }

    #[test]
    fn explanations_and_decisions_agree(case in cases()) {
        let request = limited(&case.binding(), &case.limits(), case.rules);
        let snapshot = fleet(&with_room(&case.free)).snapshot();
        let mut engine = engine(EngineGates::default());
        let outcome = engine.schedule(&snapshot, &request);
        prop_assert_eq!(engine.explain(&snapshot, &request).0, outcome);
    }

    /// With the feature gate MinGroupsInDivision, enough clusters get replicas, and the limits hold.
    #[test]
    fn limits_and_groups_hold_together(case in cases(), min_groups in 2_i64..5) {
        let mut binding = case.binding();
        binding["spec"]["placement"]["spreadConstraints"] =
            json!([{"spreadByField": "cluster", "minGroups": min_groups, "maxGroups": CLUSTERS}]);
        let request = limited(&binding, &case.limits(), case.rules);
        let gates = EngineGates { min_groups_in_division: true, spread_static_weights: true, ..EngineGates::default() };
        let outcome = engine(gates).schedule(&fleet(&with_room(&case.free)).snapshot(), &request);
        prop_assume!(outcome.result.is_ok());
        let shares = shares(&outcome).unwrap();
        let placed: i64 = shares.iter().sum();
        let used = i64::try_from(shares.iter().filter(|share| **share > 0).count()).unwrap();
        prop_assert!(used >= min_groups.min(placed), "{shares:?}");
        prop_assert_eq!(placed + outcome.result.unwrap().waiting, case.replicas);
        for (share, bounds) in shares.iter().zip(case.bounds()) {
            prop_assert!((bounds.low..=bounds.high).contains(share), "{share} {bounds:?}");
        }
    }
}
