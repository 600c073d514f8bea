//! Tests of engines with plugins that are not part of the crate.

use std::sync::Arc;

use berth_api::feature_gates::EngineGates;
use berth_engine::{
    BindingContext, BindingFilter, ClusterView, Engine, EngineError, EngineOptions,
    EstimateContext, EstimateError, Estimator, Filter, PlacementContext, PlacementFilter,
    PluginError, PluginSet, Plugins, Reason, Score, Weighted,
};
use serde_json::json;

use crate::fixtures::{aggregated, binding, cluster, dynamic, fleet, request, text, with_label};

/// A filter that rejects clusters with the label `closed`.
#[derive(Debug)]
struct Closed;

impl PlacementFilter for Closed {
    fn name(&self) -> &'static str {
        "Closed"
    }

    fn check(&self, _: &PlacementContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        match cluster.label("closed") {
            Some(_) => Err("cluster(s) are closed".into()),
            None => Ok(()),
        }
    }
}

/// A filter that rejects `m1` for workloads in the namespace `shop`.
#[derive(Debug)]
struct NotShop;

impl BindingFilter for NotShop {
    fn name(&self) -> &'static str {
        "NotShop"
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        let namespace = context.request().key().namespace.as_deref();
        if cluster.name() == "m1" && namespace == Some("shop") {
            Err("cluster(s) are not for shops".into())
        } else {
            Ok(())
        }
    }
}

/// A score plugin that prefers clusters with a low value of the label `price`.
#[derive(Debug)]
struct Cheap;

impl Score for Cheap {
    fn name(&self) -> &'static str {
        "Cheap"
    }

    fn score(&self, _: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<i64, PluginError> {
        match cluster.label("price") {
            Some("unknown") => Err(PluginError::failed("no price")),
            Some(price) => Ok(100 - price.parse::<i64>().unwrap_or(100)),
            None => Ok(0),
        }
    }
}

fn cheap() -> Weighted<Arc<dyn Score>> {
    Weighted {
        plugin: Arc::new(Cheap),
        weight: 1,
    }
}

/// An estimator with an estimate for `m1` only. It fails if it is not available.
#[derive(Debug)]
struct Accurate {
    available: bool,
}

impl Estimator for Accurate {
    fn name(&self) -> &'static str {
        "accurate"
    }

    fn estimate(
        &self,
        context: &EstimateContext<'_>,
        clusters: &[usize],
        estimates: &mut [i32],
    ) -> Result<(), EstimateError> {
        for (&ordinal, estimate) in clusters.iter().zip(estimates) {
            if context
                .snapshot
                .cluster(ordinal)
                .is_some_and(|cluster| cluster.name() == "m1")
            {
                *estimate = 1;
            }
        }
        if self.available {
            Ok(())
        } else {
            Err(EstimateError("not reachable".to_owned()))
        }
    }
}

#[test]
fn filters_scores_and_estimators_affect_decisions() {
    let with = |change: &dyn Fn(&mut Plugins)| {
        let mut plugins = Plugins::in_tree(EngineGates::default());
        change(&mut plugins);
        plugins
    };
    let clusters = [
        with_label(cluster("m1", 10), "price", "60"),
        with_label(
            with_label(cluster("m2", 10), "closed", "yes"),
            "price",
            "10",
        ),
        with_label(cluster("m3", 5), "price", "20"),
    ];
    let top = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let one = json!({"replicaScheduling": aggregated(), "spreadConstraints": top});
    let all = json!({"replicaScheduling": dynamic()});
    for (plugins, placement, expected) in [
        (with(&|_| {}), &all, "m1:2 m2:2 m3:1"),
        (
            with(&|plugins| plugins.filters.push(Filter::Placement(Arc::new(Closed)))),
            &all,
            "m1:3 m3:2",
        ),
        (
            with(&|plugins| plugins.filters.push(Filter::Binding(Arc::new(NotShop)))),
            &all,
            "m2:3 m3:2",
        ),
        (with(&|plugins| plugins.scores.push(cheap())), &one, "m2:5"),
        (
            with(&|plugins| {
                plugins
                    .estimators
                    .push(Arc::new(Accurate { available: true }));
            }),
            &all,
            "m1:0 m2:3 m3:2",
        ),
        (
            with(&|plugins| {
                plugins
                    .estimators
                    .push(Arc::new(Accurate { available: false }));
            }),
            &all,
            "m1:2 m2:2 m3:1",
        ),
    ] {
        let described = format!("{plugins:?}");
        let mut engine = Engine::with_plugins(EngineOptions::default(), plugins).unwrap();
        let outcome = engine.schedule(
            &fleet(&clusters).snapshot(),
            &request(&binding(5, placement.clone())),
        );
        assert_eq!(text(&outcome), expected.replace("m1:0 ", ""), "{described}");
    }
}

#[test]
fn failing_score_aborts_the_cycle() {
    let mut plugins = Plugins::in_tree(EngineGates::default());
    plugins.scores.push(cheap());
    let mut engine = Engine::with_plugins(EngineOptions::default(), plugins).unwrap();
    let clusters = [with_label(cluster("m1", 10), "price", "unknown")];
    let outcome = engine.schedule(
        &fleet(&clusters).snapshot(),
        &request(&binding(5, json!({}))),
    );
    assert_eq!(
        text(&outcome),
        "failed to prioritize clusters: plugin \"Cheap\" failed with: no price"
    );
}

#[test]
fn duplicate_plugin_names_are_errors_and_plugins_can_be_disabled() {
    let mut twice = Plugins::in_tree(EngineGates::default());
    for _ in 0..2 {
        twice.filters.push(Filter::Placement(Arc::new(Closed)));
    }
    let error = Engine::with_plugins(EngineOptions::default(), twice).unwrap_err();
    assert_eq!(error, EngineError::DuplicatePlugin("Closed".to_owned()));
    let options = EngineOptions {
        plugins: PluginSet::parse(
            ["*", "-Closed", "-APIEnablement"],
            ["Closed", "APIEnablement", "ClusterLocality"],
        ),
        ..EngineOptions::default()
    };
    let mut plugins = Plugins::in_tree(EngineGates::default());
    plugins.filters.push(Filter::Placement(Arc::new(Closed)));
    let mut engine = Engine::with_plugins(options, plugins).unwrap();
    let mut closed = with_label(cluster("m1", 10), "closed", "yes");
    closed["status"]["apiEnablements"] = json!([]);
    let outcome = engine.schedule(
        &fleet(&[closed]).snapshot(),
        &request(&binding(5, json!({}))),
    );
    assert_eq!(text(&outcome), "m1:5");
}
