//! Plugins that are not part of the crate.

use berth_core::estimate::{EstimateContext, EstimateError};
use berth_core::filter::{BindingContext, PlacementContext, Reason};
use berth_core::score::ScoreError;
use berth_core::{
    BindingFilter, ClusterView, Engine, EngineError, EngineOptions, Estimator, Filter,
    PlacementFilter, PluginSet, Plugins, Score,
};
use serde_json::json;

use crate::fixtures::{aggregated, binding, cluster, dynamic, fleet, request, text, with_label};

/// Keeps out clusters whose label `closed` is set.
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

/// Keeps workloads of some namespaces out of `m1`.
#[derive(Debug)]
struct NotShop;

impl BindingFilter for NotShop {
    fn name(&self) -> &'static str {
        "NotShop"
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        let namespace = context.request().name().namespace.as_deref();
        if cluster.name() == "m1" && namespace == Some("shop") {
            Err("cluster(s) are not for shops".into())
        } else {
            Ok(())
        }
    }
}

/// Prefers clusters by a label.
#[derive(Debug)]
struct Cheap;

impl Score for Cheap {
    fn name(&self) -> &'static str {
        "Cheap"
    }

    fn score(&self, _: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<i64, ScoreError> {
        match cluster.label("price") {
            Some("unknown") => Err(ScoreError("no price".to_owned())),
            Some(price) => Ok(100 - price.parse::<i64>().unwrap_or(100)),
            None => Ok(0),
        }
    }
}

/// Knows better of one cluster.
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
fn filters_scores_and_estimators_take_part() {
    let with_filters = |filters| Plugins {
        filters,
        ..Plugins::default()
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
        (Plugins::default(), &all, "m1:2 m2:2 m3:1"),
        (
            with_filters(vec![Filter::Placement(Box::new(Closed))]),
            &all,
            "m1:3 m3:2",
        ),
        (
            with_filters(vec![Filter::Binding(Box::new(NotShop))]),
            &all,
            "m2:3 m3:2",
        ),
        (
            Plugins {
                scores: vec![Box::new(Cheap)],
                ..Plugins::default()
            },
            &one,
            "m2:5",
        ),
        (
            Plugins {
                estimators: vec![Box::new(Accurate { available: true })],
                ..Plugins::default()
            },
            &all,
            "m1:0 m2:3 m3:2",
        ),
        (
            Plugins {
                estimators: vec![Box::new(Accurate { available: false })],
                ..Plugins::default()
            },
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
fn a_score_that_fails_decides_nothing() {
    let plugins = Plugins {
        scores: vec![Box::new(Cheap)],
        ..Plugins::default()
    };
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
fn names_are_unique_and_can_be_switched_off() {
    let twice = Plugins {
        filters: vec![
            Filter::Placement(Box::new(Closed)),
            Filter::Placement(Box::new(Closed)),
        ],
        ..Plugins::default()
    };
    let error = Engine::with_plugins(EngineOptions::default(), twice).unwrap_err();
    assert_eq!(error, EngineError::DuplicatePlugin("Closed".to_owned()));
    let options = EngineOptions {
        plugins: PluginSet::parse(
            ["*", "-Closed", "-APIEnablement"],
            ["Closed", "APIEnablement", "ClusterLocality"],
        ),
        ..EngineOptions::default()
    };
    let plugins = Plugins {
        filters: vec![Filter::Placement(Box::new(Closed))],
        ..Plugins::default()
    };
    let mut engine = Engine::with_plugins(options, plugins).unwrap();
    let mut closed = with_label(cluster("m1", 10), "closed", "yes");
    closed["status"]["apiEnablements"] = json!([]);
    let outcome = engine.schedule(
        &fleet(&[closed]).snapshot(),
        &request(&binding(5, json!({}))),
    );
    assert_eq!(text(&outcome), "m1:5");
}
