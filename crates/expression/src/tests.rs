//! Tests of scheduling decisions by an engine with the plugin.

mod scores;

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::feature_gates::EngineGates;
use berth_api::{Binding, ResourceBinding};
use berth_cel::{Exceeded, Failure, Scope, Variables};
use berth_engine::{
    Engine, EngineOptions, Filter, Fleet, Outcome, Plugins, Request, Snapshot, Weighted,
};
use serde_json::{Value as Json, json};

use super::budget::{Budget, MAX_TIME};
use super::cluster_cache::ClusterCache;
use super::program::Program;
use super::variables::Kind;
use super::{Expression, ExpressionError, rounded};

/// A fleet and an engine with the plugin.
struct Fixture {
    fleet: Fleet,
    engine: Engine,
    plugin: Arc<Expression>,
}

fn cluster(name: &str, labels: Json, annotations: Json) -> berth_api::Cluster {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels, "annotations": annotations },
        "spec": { "syncMode": "Push", "region": format!("region-of-{name}") },
        "status": { "apiEnablements": [{ "groupVersion": "apps/v1", "resources": [
            { "name": "deployments", "kind": "Deployment" }] }] },
    }))
    .unwrap()
}

/// Returns a request to place two replicas in the cluster with the highest score.
fn request(team: &str) -> Request {
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web-deployment", "namespace": "shop", "labels": { "team": team } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
            "replicas": 2,
            "placement": { "spreadConstraints": [
                { "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] },
        },
    }))
    .unwrap();
    let binding = Binding::from(binding);
    Request::new(&binding.key, &binding.spec, &binding.status)
        .unwrap()
        .with_object(Arc::new(binding))
}

fn plugin(args: Json) -> Result<Expression, ExpressionError> {
    Expression::new(serde_json::from_value(args).unwrap())
}

/// Returns a fixture with three clusters. `low` and `high` have labels and annotations, and `bare` has none.
fn fixture(args: Json) -> Fixture {
    let mut fleet = Fleet::new().keeping_objects();
    for (name, carbon) in [("low", "80"), ("high", "10")] {
        fleet.apply(&cluster(
            name,
            json!({ "cost-tier": name, "team": "red" }),
            json!({ "carbon": carbon }),
        ));
    }
    fleet.apply(&cluster("bare", json!({}), json!({})));
    with_fleet(fleet, args, true)
}

fn with_fleet(fleet: Fleet, args: Json, pre_filter: bool) -> Fixture {
    let plugin = Arc::new(plugin(args).unwrap());
    let mut plugins = Plugins::in_tree(EngineGates::default());
    if pre_filter {
        plugins.pre_filters.push(plugin.clone());
    }
    plugins.filters.push(Filter::Binding(plugin.clone()));
    plugins.scores.push(Weighted {
        plugin: plugin.clone(),
        weight: 1,
    });
    let engine = Engine::with_plugins(EngineOptions::default(), plugins).unwrap();
    Fixture {
        fleet,
        engine,
        plugin,
    }
}

impl Fixture {
    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.fleet.snapshot()
    }

    /// Schedules a binding of a team. Returns the selected cluster, or the error.
    fn schedule(&mut self, team: &str) -> Result<String, String> {
        let snapshot = self.snapshot();
        selected(&self.engine.schedule(&snapshot, &request(team)))
    }
}

fn selected(outcome: &Outcome) -> Result<String, String> {
    let placed = outcome.result.as_ref().map_err(ToString::to_string)?;
    let names: Vec<String> = placed
        .targets
        .iter()
        .map(|target| target.name.to_string())
        .collect();
    Ok(names.join(","))
}

#[test]
fn clusters_must_satisfy_the_expressions() {
    let mut fixture = fixture(json!({ "filter": [
        { "expression": "cluster.metadata.labels['cost-tier'] == 'low'", "message": "cluster(s) cost too much" },
    ]}));
    assert_eq!(fixture.schedule("red"), Ok("low".into()));
    let mut changed = cluster("low", json!({}), json!({}));
    changed.metadata.labels = Some([("cost-tier".to_owned(), "high".to_owned())].into());
    fixture.fleet.apply(&changed);
    let error = fixture.schedule("red").unwrap_err();
    assert!(error.contains("2 cluster(s) cost too much"), "{error}");
    assert!(
        error.contains("1 the expression \"cluster.metadata.labels['cost-tier'] == 'low'\" failed: no such key: cost-tier"),
        "{error}"
    );
}

#[test]
fn scores_are_weighted_and_added() {
    let carbon = "100 - int(cluster.metadata.annotations['carbon'])";
    let tier = "cluster.metadata.?labels[?'cost-tier'].orValue('') == 'low' ? 100 : 0";
    let args = |weight: u32| {
        json!({ "score": [
            { "expression": carbon, "default": -1000 },
            { "expression": tier, "weight": weight },
        ]})
    };
    assert_eq!(fixture(args(1)).schedule("red"), Ok("low".into()));
    let carbon_alone = json!({ "score": [{ "expression": carbon, "default": 0 }] });
    assert_eq!(fixture(carbon_alone).schedule("red"), Ok("high".into()));
    let double =
        json!({ "score": [{ "expression": "cluster.metadata.name == 'bare' ? 1.5 : 1.2" }] });
    assert_eq!(fixture(double).schedule("red"), Ok("bare".into()));
}

#[test]
fn failed_scores_without_a_default_fail_the_decision() {
    let error = fixture(json!({ "score": [
        { "expression": "100 - int(cluster.metadata.annotations['carbon'])" }] }))
    .schedule("red")
    .unwrap_err();
    assert!(
        error.ends_with("cluster bare: the expression \"100 - int(cluster.metadata.annotations['carbon'])\" failed: no such key: carbon"),
        "{error}"
    );
}

#[test]
fn bindings_can_be_read_without_pre_filter() {
    let args = json!({
        "filter": [{ "expression": "cluster.metadata.labels.team == binding.metadata.labels.team" }],
        "score": [{ "expression": "binding.spec.replicas * (cluster.spec.region == 'region-of-high' ? 10 : 1)" }],
    });
    for pre_filter in [true, false] {
        let Fixture { fleet, .. } = fixture(args.clone());
        let mut fixture = with_fleet(fleet, args.clone(), pre_filter);
        assert_eq!(fixture.schedule("red"), Ok("high".into()));
        let error = fixture.schedule("blue").unwrap_err();
        assert!(
            error.contains("2 cluster(s) did not satisfy the expression"),
            "{error}"
        );
        assert_eq!(fixture.schedule("red"), Ok("high".into()));
    }
}

#[test]
fn changed_and_removed_clusters_leave_the_cache() {
    let mut fixture = fixture(json!({ "filter": [
        { "expression": "cluster.metadata.labels['cost-tier'] == 'low'" }] }));
    assert_eq!(fixture.schedule("red"), Ok("low".into()));
    fixture
        .fleet
        .apply(&cluster("low", json!({ "cost-tier": "high" }), json!({})));
    fixture
        .fleet
        .apply(&cluster("bare", json!({ "cost-tier": "low" }), json!({})));
    assert_eq!(fixture.schedule("red"), Ok("bare".into()));
    assert_eq!(fixture.plugin.clusters().len(), 3);
    fixture.fleet.remove("low");
    assert_eq!(fixture.schedule("red"), Ok("bare".into()));
    assert_eq!(fixture.plugin.clusters().len(), 2);
}

#[test]
fn errors_name_the_expression_and_the_position() {
    let error = plugin(json!({ "filter": [
        { "expression": "true" }, { "expression": "true &&\n clusters.spec.region == 'a'" }] }))
    .unwrap_err();
    assert_eq!(error.path, "filter[1].expression");
    assert!(
        error
            .message
            .starts_with("line 2, column 2: undeclared variable \"clusters\""),
        "{error}"
    );
    let error = plugin(json!({ "score": [{ "expression": "'a'" }] })).unwrap_err();
    assert_eq!(error.path, "score[0].expression");
    assert!(plugin(json!({})).is_err());
}

/// Checks that `matches` reads patterns in Go's syntax, as it does in the rules of an API server.
#[test]
fn patterns_match_as_in_go() {
    let region = |pattern: &str, region: &str| {
        let matches = format!("cluster.spec.region.matches(r'{pattern}')");
        let expression = format!("cluster.metadata.name == 'low' && {matches}");
        let mut fixture = fixture(json!({ "filter": [{ "expression": expression }] }));
        let mut changed = cluster("low", json!({}), json!({}));
        changed.spec.region = Some(region.to_owned());
        fixture.fleet.apply(&changed);
        fixture.schedule("red") == Ok("low".to_owned())
    };
    for (pattern, matching, other) in [
        (r"^\d+$", "123", "١٢٣"),
        (r"^\w+$", "a_1", "é"),
        (r"\bcd", "écd", "abcd"),
        ("^[^[]+$", "a]", "a[b"),
    ] {
        assert!(region(pattern, matching), "{pattern} matches {matching}");
        assert!(!region(pattern, other), "{pattern} does not match {other}");
    }
}

#[test]
fn expressions_have_the_semantics_of_kubernetes() {
    for expression in [
        "cluster.metadata.?labels.optMap(labels, labels[?'cost-tier'].orValue('')).orValue('') == 'low'",
        "dyn(1) == dyn(1.0) && cluster.metadata.name == 'low'",
        "type(cluster.metadata.name) == string && cluster.metadata.name == 'low'",
        "[{'a': 1}, {'b': cluster.metadata.name}].exists(x, x.b == 'low')",
    ] {
        let mut fixture = fixture(json!({ "filter": [{ "expression": expression }] }));
        assert_eq!(fixture.schedule("red"), Ok("low".into()), "{expression}");
    }
}

#[test]
fn loop_iterations_are_limited() {
    let list = format!("[{}]", ["1"; 100].join(","));
    let hostile = format!("{list}.all(a, {list}.all(b, {list}.all(c, true)))");
    let mut fixture = fixture(json!({ "filter": [{ "expression": hostile }] }));
    let error = fixture.schedule("red").unwrap_err();
    assert!(
        error.contains("its loops took more than 10000 iterations"),
        "{error}"
    );
}

#[test]
fn the_size_of_values_is_limited() {
    let grow = ".map(a, a + a + a + a + a + a + a + a + a + a)".repeat(8);
    let hostile = format!("['0123456789']{grow} != [] || true");
    let mut fixture = fixture(json!({ "filter": [{ "expression": hostile }] }));
    let error = fixture.schedule("red").unwrap_err();
    assert!(
        error.contains("its values took more than 32 MiB"),
        "{error}"
    );
}

#[test]
fn the_time_of_a_decision_is_limited() {
    let program = Program::parse("[1, 2].all(a, a > 0)", Kind::Bool).unwrap();
    let scope = Scope::new(Variables::new());
    let late = Budget::within(Duration::ZERO);
    let begun = Instant::now();
    while Instant::now() == begun {
        std::hint::spin_loop();
    }
    assert_eq!(
        late.run(&program.compiled, &scope),
        Err(Failure::Exceeded(Exceeded::Time))
    );
    assert!(
        Budget::within(MAX_TIME * 60)
            .run(&program.compiled, &scope)
            .is_ok()
    );
}

#[test]
fn the_reasons_of_a_cycle_share_one_budget() {
    let mut cache = ClusterCache::default();
    let first = cache.reasons_budget();
    let begun = Instant::now();
    while Instant::now() == begun {
        std::hint::spin_loop();
    }
    assert_eq!(
        cache.reasons_budget(),
        first,
        "the next cluster shares the budget"
    );
    cache.begin_cycle();
    assert_ne!(cache.reasons_budget(), first);
    // Each decision of the engine begins a new cycle, and so a new budget.
    let mut fixture =
        fixture(json!({ "filter": [{ "expression": "cluster.metadata.name == 'x'" }] }));
    let mut budgets = Vec::new();
    for _ in 0..2 {
        fixture.schedule("red").unwrap_err();
        budgets.push(fixture.plugin.clusters().reasons_budget());
    }
    assert_ne!(budgets[0], budgets[1]);
}

#[test]
fn numbers_are_rounded() {
    use berth_cel::Value;
    for (value, expected) in [
        (Value::Int(-3), Some(-3)),
        (Value::UInt(u64::MAX), Some(i64::MAX)),
        (Value::Float(2.5), Some(3)),
        (Value::Float(1e300), Some(i64::MAX)),
        (Value::Float(f64::NAN), None),
        (Value::Bool(true), None),
    ] {
        assert_eq!(rounded(&value), expected, "{value:?}");
    }
}
