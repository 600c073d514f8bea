//! Tests of the extension points: their order, their contexts, and the consequences of errors and panics.

use std::sync::{Arc, Mutex};

use berth_api::feature_gates::EngineGates;
use berth_engine::{
    Assign, AssignContext, AssignReplicas, AttemptContext, BindingContext, BindingFilter, Bits,
    Candidate, ClusterView, CycleState, Engine, EngineOptions, EstimateContext, EstimateError,
    Estimator, Filter, Outcome, PlacementContext, PlacementFilter, PluginError, Plugins, Point,
    PreFilter, PreFilterResult, PreScore, PreScoreResult, Reason, ScheduleError, Score, Scores,
    Select, SelectClusters, Selection, Share, Weighted,
};
use serde_json::{Value, json};

use crate::fixtures::{binding, cluster, dynamic, fleet, request, text};

/// The behaviour of a [`Spy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Panic(Point),
    /// Panics when the engine calls the filter to get the reason of a rejection.
    PanicInCheck,
    Unschedulable(Point),
    Fail(Point),
    Skip(Point),
    /// PreFilter allows only `m2`.
    AllowM2,
    /// PreFilter returns a set of clusters of another fleet.
    AllowOtherFleet,
    /// Filter returns clusters that do not exist.
    PassUnknownClusters,
    Normal,
}

/// State that PreFilter and PreScore store. The text is the name of the extension point.
#[derive(Debug, PartialEq)]
struct SharedState(&'static str);

/// A plugin for every extension point. It records the calls of the engine.
#[derive(Debug)]
struct Spy {
    behaviour: Behaviour,
    calls: Mutex<Vec<String>>,
}

impl Spy {
    fn new(behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self {
            behaviour,
            calls: Mutex::default(),
        })
    }

    fn record(&self, point: Point) -> Result<(), PluginError> {
        self.calls.lock().unwrap().push(point.to_string());
        assert_ne!(self.behaviour, Behaviour::Panic(point), "the spy panics");
        if self.behaviour == Behaviour::Unschedulable(point) {
            return Err(PluginError::unschedulable("the spy rejects the binding"));
        }
        if self.behaviour == Behaviour::Fail(point) {
            return Err(PluginError::failed("the spy fails"));
        }
        Ok(())
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn plugins(self: &Arc<Self>) -> Plugins {
        let mut plugins = Plugins::in_tree(EngineGates::default());
        plugins.pre_filters.push(self.clone());
        plugins.filters.push(Filter::Binding(self.clone()));
        plugins.pre_scores.push(self.clone());
        plugins.scores.push(Weighted {
            plugin: self.clone(),
            weight: 3,
        });
        plugins.estimators.push(self.clone());
        plugins.select = self.clone();
        plugins.assign = self.clone();
        plugins
    }
}

impl PreFilter for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn pre_filter(
        &self,
        context: &AttemptContext<'_>,
        state: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError> {
        self.record(Point::PreFilter)?;
        assert_eq!(
            state.get::<SharedState>(),
            None,
            "the cycle does not start with an empty state"
        );
        assert_eq!(
            state.get::<usize>(),
            None,
            "the cycle does not start with an empty state"
        );
        state.insert(SharedState("PreFilter"));
        Ok(match self.behaviour {
            Behaviour::Skip(Point::PreFilter) => PreFilterResult::Skip,
            Behaviour::AllowM2 => {
                let snapshot = context.snapshot();
                PreFilterResult::Only(Bits::from_fn(snapshot.len(), |ordinal| {
                    snapshot.ordinal("m2") == Some(ordinal)
                }))
            }
            Behaviour::AllowOtherFleet => PreFilterResult::Only(Bits::all(1)),
            _ => PreFilterResult::All,
        })
    }
}

impl BindingFilter for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        assert_ne!(self.behaviour, Behaviour::PanicInCheck, "the spy panics");
        assert_eq!(context.state().get(), Some(&SharedState("PreFilter")));
        if cluster.name() == "m3" {
            Err("cluster(s) are watched".into())
        } else {
            Ok(())
        }
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        _current: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        self.record(Point::Filter)?;
        assert_eq!(context.state().get(), Some(&SharedState("PreFilter")));
        if let Some(ordinal) = context.snapshot().ordinal("m3") {
            candidates.remove(ordinal);
        }
        if self.behaviour == Behaviour::PassUnknownClusters {
            *candidates = Bits::all(200);
            candidates.remove(2);
        }
        Ok(())
    }
}

impl PreScore for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn pre_score(
        &self,
        _: &AttemptContext<'_>,
        candidates: &[Candidate],
        state: &mut CycleState,
    ) -> Result<PreScoreResult, PluginError> {
        self.record(Point::PreScore)?;
        assert_eq!(state.remove(), Some(SharedState("PreFilter")));
        state.insert(SharedState("PreScore"));
        state.insert(candidates.len());
        Ok(match self.behaviour {
            Behaviour::Skip(Point::PreScore) => PreScoreResult::Skip,
            _ => PreScoreResult::Score,
        })
    }
}

impl Score for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn score(&self, _: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<i64, PluginError> {
        Ok(if cluster.name() == "m2" { 40 } else { 10 })
    }

    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        scores: &mut Scores<'_>,
    ) -> Result<(), PluginError> {
        self.record(Point::Score)?;
        assert_eq!(context.state().get(), Some(&SharedState("PreScore")));
        assert_eq!(context.state().get(), Some(&scores.candidates().len()));
        for index in 0..scores.candidates().len() {
            let ordinal = scores.candidates()[index].ordinal;
            let cluster = context.snapshot().cluster(ordinal).unwrap();
            scores.add(index, self.score(context, &cluster)?);
        }
        Ok(())
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, _: &BindingContext<'_>, scores: &mut [i64]) -> Result<(), PluginError> {
        self.record(Point::NormalizeScore)?;
        let most = scores.iter().copied().max().unwrap_or(1);
        for score in scores {
            *score = *score * 100 / most;
        }
        Ok(())
    }
}

impl Estimator for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn estimate(
        &self,
        _: &EstimateContext<'_>,
        _: &[usize],
        _: &mut [i32],
    ) -> Result<(), EstimateError> {
        self.record(Point::Estimate)
            .map_err(|error| EstimateError(error.to_string()))
    }
}

impl Select for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError> {
        self.record(Point::Select)?;
        SelectClusters::new(EngineGates::default()).select(context, candidates)
    }
}

impl Assign for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn assign(
        &self,
        context: &AssignContext<'_>,
        selected: &mut Selection,
    ) -> Result<Vec<Share>, PluginError> {
        self.record(Point::Assign)?;
        AssignReplicas::default().assign(context, selected)
    }
}

const POINTS: [Point; 8] = [
    Point::PreFilter,
    Point::Filter,
    Point::PreScore,
    Point::Score,
    Point::NormalizeScore,
    Point::Estimate,
    Point::Select,
    Point::Assign,
];

fn clusters() -> Vec<Value> {
    vec![cluster("m1", 10), cluster("m2", 10), cluster("m3", 10)]
}

fn engine(plugins: Plugins) -> Engine {
    Engine::with_plugins(EngineOptions::default(), plugins).unwrap()
}

fn decide(plugins: Plugins) -> Outcome {
    let placement = json!({"replicaScheduling": dynamic()});
    engine(plugins).schedule(
        &fleet(&clusters()).snapshot(),
        &request(&binding(4, placement)),
    )
}

fn run_with(behaviour: Behaviour) -> (String, Vec<String>) {
    let spy = Spy::new(behaviour);
    let outcome = decide(spy.plugins());
    (text(&outcome), spy.calls())
}

fn names(points: &[Point]) -> Vec<String> {
    points.iter().map(ToString::to_string).collect()
}

#[test]
fn points_run_in_order_and_share_state() {
    let (decided, calls) = run_with(Behaviour::Normal);
    assert_eq!(decided, "m1:2 m2:2");
    assert_eq!(calls, names(&POINTS));
}

#[test]
fn skipped_plugins_are_not_called() {
    let (decided, calls) = run_with(Behaviour::Skip(Point::PreFilter));
    assert_eq!(
        decided, "m1:2 m2:1 m3:1",
        "the skipped Filter does not reject m3"
    );
    assert!(!calls.contains(&"Filter".to_owned()), "{calls:?}");
    let (decided, calls) = run_with(Behaviour::Skip(Point::PreScore));
    assert_eq!(decided, "m1:2 m2:2");
    assert!(!calls.contains(&"Score".to_owned()), "{calls:?}");
    assert!(!calls.contains(&"NormalizeScore".to_owned()), "{calls:?}");
}

#[test]
fn pre_filter_can_exclude_clusters() {
    let spy = Spy::new(Behaviour::AllowM2);
    let placement = json!({"replicaScheduling": dynamic()});
    let snapshot = fleet(&clusters()).snapshot();
    let (outcome, explanation) =
        engine(spy.plugins()).explain(&snapshot, &request(&binding(4, placement)));
    assert_eq!(text(&outcome), "m2:4");
    let refusal = explanation.clusters_of_last_term().unwrap()["m1"]
        .refusal
        .clone()
        .unwrap();
    assert_eq!(refusal.plugin, "Spy");
    assert_eq!(refusal.reason, "cluster(s) were left out by plugin Spy");
    let placement = json!({"clusterAffinity": {"clusterNames": ["m1"]}});
    let outcome = engine(spy.plugins()).schedule(&snapshot, &request(&binding(4, placement)));
    assert_eq!(
        text(&outcome),
        "0/3 clusters are available: 1 cluster(s) did not match the placement cluster affinity \
         constraint, 2 cluster(s) were left out by plugin Spy."
    );
}

#[test]
fn scores_are_normalised_and_weighted() {
    let spy = Spy::new(Behaviour::Normal);
    let one = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": one});
    let binding = crate::fixtures::with_binding_spec(
        binding(4, placement),
        json!({"clusters": [{"name": "m1", "replicas": 4}]}),
    );
    let (outcome, explanation) =
        engine(spy.plugins()).explain(&fleet(&clusters()).snapshot(), &request(&binding));
    // m2 has a score of 3 x 100. m1 has 100 from ClusterLocality, and 3 x 25.
    assert_eq!(text(&outcome), "m2:4");
    let clusters = explanation.clusters_of_last_term().unwrap();
    assert_eq!(clusters["m1"].scores["ClusterLocality"], 100);
    assert_eq!(clusters["m1"].scores["Spy"], 75);
    assert_eq!(clusters["m2"].scores["Spy"], 300);
    let refusal = clusters["m3"].refusal.clone().unwrap();
    assert_eq!(
        (refusal.plugin.as_str(), refusal.reason.as_str()),
        ("Spy", "cluster(s) are watched")
    );
}

#[test]
fn panics_become_errors_of_the_plugin() {
    for point in POINTS {
        let spy = Spy::new(Behaviour::Panic(point));
        let Err(ScheduleError::Plugin(error)) = decide(spy.plugins()).result else {
            panic!("a panic at {point} caused no plugin error");
        };
        assert_eq!(error.plugin(), "Spy");
        assert_eq!(error.point(), Some(point));
        assert!(!error.is_unschedulable());
        let message = format!("plugin \"Spy\" panicked at {point}: ");
        assert!(error.to_string().starts_with(&message), "{error}");
        assert!(error.to_string().contains("the spy panics"), "{error}");
    }
    // When the engine schedules without an explanation, it asks filters for reasons only if no cluster passes.
    let spy = Spy::new(Behaviour::PanicInCheck);
    let mut engine = engine(spy.plugins());
    let snapshot = fleet(&clusters()).snapshot();
    let infeasible = json!({"clusterAffinity": {"clusterNames": ["m3"]}});
    let outcome = engine.schedule(&snapshot, &request(&binding(4, infeasible)));
    assert!(text(&outcome).starts_with("plugin \"Spy\" panicked at Filter: "));
    let feasible = json!({"replicaScheduling": dynamic()});
    let outcome = engine.schedule(&snapshot, &request(&binding(4, feasible)));
    assert_eq!(
        text(&outcome),
        "m1:2 m2:2",
        "the engine decides again after a panic"
    );
}

#[test]
fn errors_state_whether_the_binding_waits() {
    for point in POINTS.into_iter().filter(|point| *point != Point::Estimate) {
        for (behaviour, waits) in [
            (Behaviour::Unschedulable(point), true),
            (Behaviour::Fail(point), false),
        ] {
            let Err(ScheduleError::Plugin(error)) = decide(Spy::new(behaviour).plugins()).result
            else {
                panic!("{behaviour:?} caused no plugin error");
            };
            assert_eq!((error.plugin(), error.point()), ("Spy", Some(point)));
            assert_eq!(error.is_unschedulable(), waits, "{behaviour:?}");
        }
    }
    // The engine ignores an estimator that fails.
    let (decided, _) = run_with(Behaviour::Fail(Point::Estimate));
    assert_eq!(decided, "m1:2 m2:2");
}

/// An assign plugin that always returns these shares.
#[derive(Debug)]
struct FixedShares(Vec<Share>);

impl Assign for FixedShares {
    fn name(&self) -> &'static str {
        "FixedShares"
    }

    fn assign(&self, _: &AssignContext<'_>, _: &mut Selection) -> Result<Vec<Share>, PluginError> {
        Ok(self.0.clone())
    }
}

#[test]
fn impossible_shares_are_rejected() {
    let share = |ordinal, replicas| Share { ordinal, replicas };
    for (shares, message) in [
        (vec![share(3, 1)], "cluster 3 does not exist"),
        (
            vec![share(1 << 63, 1), share(1, 1)],
            "cluster 9223372036854775808 does not exist",
        ),
        (
            vec![share(1, 1), share(0, -1)],
            "cluster m1 has a negative share or more than one share",
        ),
        (
            vec![share(0, -1)],
            "cluster m1 has a negative share or more than one share",
        ),
        (
            vec![share(0, 1), share(0, 1)],
            "cluster m1 has a negative share or more than one share",
        ),
    ] {
        let mut plugins = Plugins::in_tree(EngineGates::default());
        plugins.assign = Arc::new(FixedShares(shares));
        let outcome = decide(plugins);
        assert_eq!(
            text(&outcome),
            format!("failed to assign replicas: {message}")
        );
    }
}

/// A filter that counts its evaluations of the whole fleet.
#[derive(Debug, Default)]
struct CountingFilter {
    evaluations: Mutex<usize>,
    skips: Mutex<bool>,
}

impl PlacementFilter for CountingFilter {
    fn name(&self) -> &'static str {
        "CountingFilter"
    }

    fn check(&self, _: &PlacementContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        if cluster.name() == "m1" {
            Err("cluster(s) are first".into())
        } else {
            Ok(())
        }
    }

    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        *self.evaluations.lock().unwrap() += 1;
        let snapshot = context.snapshot();
        Some(Bits::from_fn(snapshot.len(), |ordinal| ordinal != 0))
    }
}

impl PreFilter for CountingFilter {
    fn name(&self) -> &'static str {
        "CountingFilter"
    }

    fn pre_filter(
        &self,
        _: &AttemptContext<'_>,
        _: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError> {
        Ok(if *self.skips.lock().unwrap() {
            PreFilterResult::Skip
        } else {
            PreFilterResult::All
        })
    }
}

#[test]
fn only_placement_filters_are_cached() {
    let (counted, spy) = (
        Arc::new(CountingFilter::default()),
        Spy::new(Behaviour::Normal),
    );
    let mut plugins = spy.plugins();
    plugins.filters.push(Filter::Placement(counted.clone()));
    plugins.pre_filters.push(counted.clone());
    let mut engine = engine(plugins);
    let snapshot = fleet(&clusters()).snapshot();
    let request = request(&binding(4, json!({"replicaScheduling": dynamic()})));
    for _ in 0..3 {
        assert_eq!(text(&engine.schedule(&snapshot, &request)), "m2:4");
    }
    assert_eq!(*counted.evaluations.lock().unwrap(), 1);
    let filtered = spy
        .calls()
        .iter()
        .filter(|point| *point == "Filter")
        .count();
    assert_eq!(filtered, 3);
    // While the filter is skipped, the engine does not use its cached result. Afterwards, the engine uses the cached
    // result again.
    *counted.skips.lock().unwrap() = true;
    assert_eq!(text(&engine.schedule(&snapshot, &request)), "m1:2 m2:2");
    *counted.skips.lock().unwrap() = false;
    assert_eq!(text(&engine.schedule(&snapshot, &request)), "m2:4");
    assert_eq!(*counted.evaluations.lock().unwrap(), 1);
}

#[test]
fn state_is_returned_with_the_decision() {
    let spy = Spy::new(Behaviour::Normal);
    let placement = json!({"replicaScheduling": dynamic()});
    let decision = engine(spy.plugins()).decide(
        &fleet(&clusters()).snapshot(),
        &request(&binding(4, placement)),
        &berth_engine::Assumed::default(),
        None,
    );
    assert_eq!(text(&decision.outcome), "m1:2 m2:2");
    assert_eq!(decision.state.get(), Some(&SharedState("PreScore")));
}

#[test]
fn each_term_starts_with_empty_state() {
    let spy = Spy::new(Behaviour::Normal);
    // The first term fails at Filter, before PreScore removes the state that PreFilter stored.
    let placement = json!({"replicaScheduling": dynamic(), "clusterAffinities": [
        {"affinityName": "infeasible", "clusterNames": ["m3"]},
        {"affinityName": "feasible", "clusterNames": ["m2"]},
    ]});
    let outcome = engine(spy.plugins()).schedule(
        &fleet(&clusters()).snapshot(),
        &request(&binding(4, placement)),
    );
    assert_eq!(text(&outcome), "m2:4");
    let calls = spy.calls();
    let first = names(&[Point::PreFilter, Point::Filter]);
    assert_eq!(calls, [first, names(&POINTS)].concat());
}

#[test]
fn shares_may_be_in_any_order() {
    let share = |ordinal, replicas| Share { ordinal, replicas };
    let mut plugins = Plugins::in_tree(EngineGates::default());
    plugins.assign = Arc::new(FixedShares(vec![share(2, 1), share(0, 3), share(1, 0)]));
    assert_eq!(text(&decide(plugins)), "m1:3 m2:0 m3:1");
}

#[test]
fn unknown_clusters_are_ignored_from_filters_and_rejected_from_pre_filters() {
    let (decided, _) = run_with(Behaviour::PassUnknownClusters);
    assert_eq!(decided, "m1:2 m2:2");
    let (decided, _) = run_with(Behaviour::AllowOtherFleet);
    assert_eq!(
        decided,
        "plugin \"Spy\" failed at PreFilter: returned clusters of another snapshot"
    );
    let mut set = Bits::none(3);
    set.insert(5);
    assert!(set.is_empty());
}
