//! The load scenario `expressions`: time of a decision with an expression as a filter. The scenario calls the
//! scheduling engine directly, without a scheduler or a server.

use std::sync::Arc;
use std::time::Instant;

use berth_api::feature_gates::EngineGates;
use berth_api::{Binding, Cluster, ResourceBinding};
use berth_engine::{Engine, EngineOptions, Filter, Fleet, Plugins, Request, Snapshot};
use berth_scheduler::Expression;
use clap::Args as Flags;
use serde_json::{Value, json};

use super::{LoadError, millis, percentile};

/// Names and expressions of the filters to measure.
const FILTERS: [(&str, &str); 4] = [
    ("constant", "true"),
    ("cluster", "cluster.metadata.labels['cost-tier'] == 'low'"),
    (
        "both",
        "cluster.metadata.labels.team == binding.metadata.labels.team",
    ),
    (
        "loop",
        "cluster.status.apiEnablements.exists(api, api.groupVersion == binding.spec.resource.apiVersion)",
    ),
];

/// Options of the scenario.
#[derive(Clone, Debug, Flags)]
pub struct Expressions {
    /// Number of clusters, all of which pass the filter
    #[arg(long, default_value_t = 5000)]
    clusters: usize,
    /// Number of decisions after the first decision
    #[arg(long, default_value_t = 101)]
    decisions: usize,
}

fn wrong(error: impl std::fmt::Display) -> LoadError {
    LoadError::Unexpected(error.to_string())
}

/// Measures decisions without an expression, and with each of the expressions.
///
/// # Errors
/// If a decision fails.
pub fn expressions(load: &Expressions) -> Result<Value, LoadError> {
    let mut fleet = Fleet::new().keeping_objects();
    for number in 0..load.clusters {
        fleet.apply(&cluster(number).map_err(wrong)?);
    }
    let snapshot = fleet.snapshot();
    let mut report = json!({ "clusters": load.clusters, "decisions": load.decisions });
    report["none"] = measured(load, &snapshot, None)?;
    for (name, expression) in FILTERS {
        report[name] = measured(load, &snapshot, Some(expression))?;
    }
    Ok(report)
}

/// Measures the time of the first decision, and the median time of the other decisions.
fn measured(
    load: &Expressions,
    snapshot: &Arc<Snapshot>,
    expression: Option<&str>,
) -> Result<Value, LoadError> {
    let mut plugins = Plugins::in_tree(EngineGates::default());
    if let Some(expression) = expression {
        let args = json!({ "filter": [{ "expression": expression }] });
        let args = serde_json::from_value(args).map_err(wrong)?;
        let plugin = Arc::new(Expression::new(args).map_err(wrong)?);
        plugins.pre_filters.push(plugin.clone());
        plugins.filters.push(Filter::Binding(plugin));
    }
    let mut engine = Engine::with_plugins(EngineOptions::default(), plugins).map_err(wrong)?;
    let request = request().map_err(wrong)?;
    let mut times = Vec::with_capacity(load.decisions);
    for _ in 0..=load.decisions {
        let began = Instant::now();
        let outcome = engine.schedule(snapshot, &request);
        times.push(began.elapsed());
        outcome.result.map_err(wrong)?;
    }
    let first = times.remove(0);
    times.sort_unstable();
    Ok(json!({ "firstMillis": millis(first), "medianMillis": millis(percentile(&times, 0.5)) }))
}

fn cluster(number: usize) -> Result<Cluster, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": { "name": format!("member-{number:05}"), "labels": {
            "cost-tier": "low", "team": "red", "zone": (number % 9).to_string() } },
        "spec": { "syncMode": "Push" },
        "status": { "apiEnablements": [
            { "groupVersion": "v1", "resources": [{ "name": "configmaps", "kind": "ConfigMap" }] },
            { "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] },
        ] },
    }))
}

/// Returns a scheduling request for a Deployment whose placement selects one cluster.
fn request() -> Result<Request, String> {
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web-deployment", "namespace": "shop", "labels": { "team": "red" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
            "replicas": 2,
            "placement": { "spreadConstraints": [
                { "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] },
        },
    }))
    .map_err(|error| error.to_string())?;
    let binding = Arc::new(Binding::from(binding));
    Request::new(&binding.key, &binding.spec, &binding.status)
        .map(|request| request.with_object(binding.clone()))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scenario reports a median for each expression, and for decisions without an expression.
    #[test]
    fn every_filter_is_measured() {
        let load = Expressions {
            clusters: 3,
            decisions: 2,
        };
        let report = expressions(&load).unwrap();
        for name in ["none", "constant", "cluster", "both", "loop"] {
            assert!(report[name]["medianMillis"].is_f64(), "{report}");
        }
    }
}
