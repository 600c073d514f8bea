//! The extension points: their order, their contexts, and the consequences of errors and panics.

use std::sync::{Arc, Mutex};

use berth_core::{
    Assign, AssignContext, AssignReplicas, BindingContext, BindingFilter, Bits, Candidate,
    ClusterView, CycleContext, CycleState, Engine, EngineOptions, EstimateContext, EstimateError,
    Estimator, Filter, Gates, Outcome, PlacementContext, PlacementFilter, PluginError, Plugins,
    Point, PreFilter, PreFilterResult, PreScore, PreScoreResult, Reason, ScheduleError, Score,
    Scores, Select, SelectClusters, Selection, Share, Weighted,
};
use serde_json::{Value, json};

use crate::fixtures::{binding, cluster, dynamic, fleet, request, text};

/// The behaviour of the spy at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Panic(Point),
    /// Panics when it checks a cluster for the reason.
    PanicInCheck,
    Refuse(Point),
    Fail(Point),
    Skip(Point),
    /// PreFilter excludes `m2`.
    Only,
    /// PreFilter restricts to clusters of another fleet.
    OnlyElsewhere,
    /// Filter passes clusters that do not exist.
    LetAnythingPass,
    Nothing,
}

/// State that PreFilter stores.
#[derive(Debug, PartialEq)]
struct Handed(&'static str);

/// A plugin at every point that records its calls.
#[derive(Debug)]
struct Spy {
    act: Act,
    heard: Mutex<Vec<String>>,
}

impl Spy {
    fn new(act: Act) -> Arc<Self> {
        Arc::new(Self {
            act,
            heard: Mutex::default(),
        })
    }

    fn hears(&self, point: Point) -> Result<(), PluginError> {
        self.heard.lock().unwrap().push(point.to_string());
        assert_ne!(self.act, Act::Panic(point), "the spy has enough");
        if self.act == Act::Refuse(point) {
            return Err(PluginError::unschedulable("not today"));
        }
        if self.act == Act::Fail(point) {
            return Err(PluginError::failed("no idea"));
        }
        Ok(())
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    fn plugins(self: &Arc<Self>) -> Plugins {
        let mut plugins = Plugins::in_tree(Gates::default());
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
        context: &CycleContext<'_>,
        state: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError> {
        self.hears(Point::PreFilter)?;
        state.insert(Handed("PreFilter"));
        Ok(match self.act {
            Act::Skip(Point::PreFilter) => PreFilterResult::Skip,
            Act::Only => {
                let snapshot = context.snapshot();
                PreFilterResult::Only(Bits::from_fn(snapshot.len(), |ordinal| {
                    snapshot.ordinal("m2") == Some(ordinal)
                }))
            }
            Act::OnlyElsewhere => PreFilterResult::Only(Bits::all(1)),
            _ => PreFilterResult::All,
        })
    }
}

impl BindingFilter for Spy {
    fn name(&self) -> &'static str {
        "Spy"
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        assert_ne!(self.act, Act::PanicInCheck, "the spy has enough");
        assert_eq!(context.state().get(), Some(&Handed("PreFilter")));
        if cluster.name() == "m3" {
            Err("cluster(s) are watched".into())
        } else {
            Ok(())
        }
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        _prior: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        self.hears(Point::Filter)?;
        assert_eq!(context.state().get(), Some(&Handed("PreFilter")));
        if let Some(ordinal) = context.snapshot().ordinal("m3") {
            candidates.set(ordinal, false);
        }
        if self.act == Act::LetAnythingPass {
            *candidates = Bits::all(200);
            candidates.set(2, false);
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
        _: &CycleContext<'_>,
        candidates: &[Candidate],
        state: &mut CycleState,
    ) -> Result<PreScoreResult, PluginError> {
        self.hears(Point::PreScore)?;
        assert_eq!(state.remove(), Some(Handed("PreFilter")));
        state.insert(Handed("PreScore"));
        state.insert(candidates.len());
        Ok(match self.act {
            Act::Skip(Point::PreScore) => PreScoreResult::Skip,
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
        self.hears(Point::Score)?;
        assert_eq!(context.state().get(), Some(&Handed("PreScore")));
        assert_eq!(context.state().get(), Some(&scores.candidates().len()));
        for place in 0..scores.candidates().len() {
            let ordinal = scores.candidates()[place].ordinal;
            let cluster = context.snapshot().cluster(ordinal).unwrap();
            scores.add(place, self.score(context, &cluster)?);
        }
        Ok(())
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, _: &BindingContext<'_>, scores: &mut [i64]) -> Result<(), PluginError> {
        self.hears(Point::NormalizeScore)?;
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
        self.hears(Point::Estimate)
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
        self.hears(Point::Select)?;
        SelectClusters::new(Gates::default()).select(context, candidates)
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
        self.hears(Point::Assign)?;
        AssignReplicas.assign(context, selected)
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

fn heard_with(act: Act) -> (String, Vec<String>) {
    let spy = Spy::new(act);
    let outcome = decide(spy.plugins());
    (text(&outcome), spy.heard())
}

fn names(points: &[Point]) -> Vec<String> {
    points.iter().map(ToString::to_string).collect()
}

#[test]
fn points_run_in_order_and_share_state() {
    let (decided, heard) = heard_with(Act::Nothing);
    assert_eq!(decided, "m1:2 m2:2");
    assert_eq!(heard, names(&POINTS));
}

#[test]
fn skipped_plugins_are_not_called() {
    let (decided, heard) = heard_with(Act::Skip(Point::PreFilter));
    assert_eq!(decided, "m1:2 m2:1 m3:1", "m3 is not filtered");
    assert!(!heard.contains(&"Filter".to_owned()), "{heard:?}");
    let (decided, heard) = heard_with(Act::Skip(Point::PreScore));
    assert_eq!(decided, "m1:2 m2:2");
    assert!(!heard.contains(&"Score".to_owned()), "{heard:?}");
    assert!(!heard.contains(&"NormalizeScore".to_owned()), "{heard:?}");
}

#[test]
fn pre_filter_can_exclude_clusters() {
    let spy = Spy::new(Act::Only);
    let placement = json!({"replicaScheduling": dynamic()});
    let snapshot = fleet(&clusters()).snapshot();
    let (outcome, explanation) =
        engine(spy.plugins()).explain(&snapshot, &request(&binding(4, placement)));
    assert_eq!(text(&outcome), "m2:4");
    let refusal = explanation.clusters().unwrap()["m1"]
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
    let spy = Spy::new(Act::Nothing);
    let one = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": one});
    let binding = crate::fixtures::and(
        binding(4, placement),
        json!({"clusters": [{"name": "m1", "replicas": 4}]}),
    );
    let (outcome, explanation) =
        engine(spy.plugins()).explain(&fleet(&clusters()).snapshot(), &request(&binding));
    // 3 x 100 against 100 for holding the workload and 3 x 25.
    assert_eq!(text(&outcome), "m2:4");
    let clusters = explanation.clusters().unwrap();
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
        let spy = Spy::new(Act::Panic(point));
        let Err(ScheduleError::Plugin(error)) = decide(spy.plugins()).result else {
            panic!("{point} was not stopped");
        };
        assert_eq!(error.plugin(), "Spy");
        assert_eq!(error.point(), Some(point));
        assert!(!error.is_unschedulable());
        let said = format!("plugin \"Spy\" panicked at {point}: ");
        assert!(error.to_string().starts_with(&said), "{error}");
        assert!(error.to_string().contains("the spy has enough"), "{error}");
    }
    // Reasons are requested only if no cluster passes.
    let spy = Spy::new(Act::PanicInCheck);
    let mut engine = engine(spy.plugins());
    let snapshot = fleet(&clusters()).snapshot();
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m3"]}});
    let outcome = engine.schedule(&snapshot, &request(&binding(4, nowhere)));
    assert!(text(&outcome).starts_with("plugin \"Spy\" panicked at Filter: "));
    let somewhere = json!({"replicaScheduling": dynamic()});
    let outcome = engine.schedule(&snapshot, &request(&binding(4, somewhere)));
    assert_eq!(text(&outcome), "m1:2 m2:2", "the next decision is made");
}

#[test]
fn errors_tell_whether_the_binding_waits() {
    for point in POINTS.into_iter().filter(|point| *point != Point::Estimate) {
        for (act, waits) in [(Act::Refuse(point), true), (Act::Fail(point), false)] {
            let Err(ScheduleError::Plugin(error)) = decide(Spy::new(act).plugins()).result else {
                panic!("{act:?} was not stopped");
            };
            assert_eq!((error.plugin(), error.point()), ("Spy", Some(point)));
            assert_eq!(error.is_unschedulable(), waits, "{act:?}");
        }
    }
    // An estimator without an answer is skipped.
    let (decided, _) = heard_with(Act::Fail(Point::Estimate));
    assert_eq!(decided, "m1:2 m2:2");
}

/// An assign plugin that returns impossible shares.
#[derive(Debug)]
struct Confused(Vec<Share>);

impl Assign for Confused {
    fn name(&self) -> &'static str {
        "Confused"
    }

    fn assign(&self, _: &AssignContext<'_>, _: &mut Selection) -> Result<Vec<Share>, PluginError> {
        Ok(self.0.clone())
    }
}

#[test]
fn impossible_shares_are_rejected() {
    let share = |ordinal, replicas| Share { ordinal, replicas };
    for (shares, said) in [
        (vec![share(3, 1)], "cluster 3 does not exist"),
        (
            vec![share(1 << 63, 1), share(1, 1)],
            "cluster 9223372036854775808 does not exist",
        ),
        (
            vec![share(1, 1), share(0, -1)],
            "cluster m1 has a negative share, or two of them",
        ),
        (
            vec![share(0, -1)],
            "cluster m1 has a negative share, or two of them",
        ),
        (
            vec![share(0, 1), share(0, 1)],
            "cluster m1 has a negative share, or two of them",
        ),
    ] {
        let mut plugins = Plugins::in_tree(Gates::default());
        plugins.assign = Arc::new(Confused(shares));
        let outcome = decide(plugins);
        assert_eq!(text(&outcome), format!("failed to assign replicas: {said}"));
    }
}

/// A filter that counts its evaluations of the whole fleet.
#[derive(Debug, Default)]
struct Counted {
    asked: Mutex<usize>,
    skips: Mutex<bool>,
}

impl PlacementFilter for Counted {
    fn name(&self) -> &'static str {
        "Counted"
    }

    fn check(&self, _: &PlacementContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        if cluster.name() == "m1" {
            Err("cluster(s) are first".into())
        } else {
            Ok(())
        }
    }

    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        *self.asked.lock().unwrap() += 1;
        let snapshot = context.snapshot();
        Some(Bits::from_fn(snapshot.len(), |ordinal| ordinal != 0))
    }
}

impl PreFilter for Counted {
    fn name(&self) -> &'static str {
        "Counted"
    }

    fn pre_filter(
        &self,
        _: &CycleContext<'_>,
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
    let (counted, spy) = (Arc::new(Counted::default()), Spy::new(Act::Nothing));
    let mut plugins = spy.plugins();
    plugins.filters.push(Filter::Placement(counted.clone()));
    plugins.pre_filters.push(counted.clone());
    let mut engine = engine(plugins);
    let snapshot = fleet(&clusters()).snapshot();
    let request = request(&binding(4, json!({"replicaScheduling": dynamic()})));
    for _ in 0..3 {
        assert_eq!(text(&engine.schedule(&snapshot, &request)), "m2:4");
    }
    assert_eq!(*counted.asked.lock().unwrap(), 1);
    let filtered = spy
        .heard()
        .iter()
        .filter(|point| *point == "Filter")
        .count();
    assert_eq!(filtered, 3);
    // The cache is bypassed while the filter is skipped, and used again afterwards.
    *counted.skips.lock().unwrap() = true;
    assert_eq!(text(&engine.schedule(&snapshot, &request)), "m1:2 m2:2");
    *counted.skips.lock().unwrap() = false;
    assert_eq!(text(&engine.schedule(&snapshot, &request)), "m2:4");
    assert_eq!(*counted.asked.lock().unwrap(), 1);
}

#[test]
fn state_is_returned_with_the_decision() {
    let spy = Spy::new(Act::Nothing);
    let placement = json!({"replicaScheduling": dynamic()});
    let decision = engine(spy.plugins()).decide(
        &fleet(&clusters()).snapshot(),
        &request(&binding(4, placement)),
        &berth_core::Assumed::default(),
        None,
    );
    assert_eq!(text(&decision.outcome), "m1:2 m2:2");
    assert_eq!(decision.state.get(), Some(&Handed("PreScore")));
}

#[test]
fn each_term_starts_with_empty_state() {
    let spy = Spy::new(Act::Nothing);
    // PreScore removes the state of PreFilter; state of the first term would still be there.
    let placement = json!({"replicaScheduling": dynamic(), "clusterAffinities": [
        {"affinityName": "nowhere", "clusterNames": ["m3"]},
        {"affinityName": "somewhere", "clusterNames": ["m2"]},
    ]});
    let outcome = engine(spy.plugins()).schedule(
        &fleet(&clusters()).snapshot(),
        &request(&binding(4, placement)),
    );
    assert_eq!(text(&outcome), "m2:4");
    let heard = spy.heard();
    let first = names(&[Point::PreFilter, Point::Filter]);
    assert_eq!(heard, [first, names(&POINTS)].concat());
}

#[test]
fn shares_may_be_in_any_order() {
    let share = |ordinal, replicas| Share { ordinal, replicas };
    let mut plugins = Plugins::in_tree(Gates::default());
    plugins.assign = Arc::new(Confused(vec![share(2, 1), share(0, 3), share(1, 0)]));
    assert_eq!(text(&decide(plugins)), "m1:3 m2:0 m3:1");
}

#[test]
fn unknown_clusters_are_ignored() {
    let (decided, _) = heard_with(Act::LetAnythingPass);
    assert_eq!(decided, "m1:2 m2:2");
    let (decided, _) = heard_with(Act::OnlyElsewhere);
    assert_eq!(
        decided,
        "plugin \"Spy\" failed at PreFilter: answered for clusters of another snapshot"
    );
    let mut set = Bits::none(3);
    set.set(5, true);
    assert!(set.is_empty());
}
