//! Tests of the notifications that the engine sends to observers.

use berth_api::feature_gates::EngineGates;
use berth_engine::{Assumed, Engine, Observer, Point, Status};
use serde_json::{Value, json};

use crate::fixtures::{binding, cluster, dynamic, engine, fleet, request, text};

#[derive(Default)]
struct RecordingObserver {
    wants_plugins: bool,
    events: Vec<String>,
}

impl Observer for RecordingObserver {
    fn point_begins(&mut self, point: Point) {
        self.events.push(format!("{point}"));
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        self.events.push(format!("{point}={}", status.as_str()));
    }

    fn wants_plugins(&mut self) -> bool {
        self.wants_plugins
    }

    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        self.events.push(format!("{point}/{plugin}"));
    }

    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        self.events
            .push(format!("{point}/{plugin}={}", status.as_str()));
    }
}

fn observed_events(engine: &mut Engine, placement: &Value, wants_plugins: bool) -> Vec<String> {
    let mut observer = RecordingObserver {
        wants_plugins,
        events: Vec::new(),
    };
    let snapshot = fleet(&[cluster("m1", 10)]).snapshot();
    let request = request(&binding(4, placement.clone()));
    let outcome = engine
        .decide(
            &snapshot,
            &request,
            &Assumed::default(),
            Some(&mut observer),
        )
        .outcome;
    assert_eq!(text(&outcome), text(&engine.schedule(&snapshot, &request)));
    observer.events
}

const DECIDED: [&str; 10] = [
    "Filter",
    "Filter=Success",
    "Score",
    "Score=Success",
    "Estimate",
    "Estimate=Success",
    "Select",
    "Select=Success",
    "Assign",
    "Assign=Success",
];

#[test]
fn each_cycle_notifies_the_observer_of_its_points() {
    let mut engine = engine(EngineGates::default());
    let placement = json!({"replicaScheduling": dynamic()});
    assert_eq!(observed_events(&mut engine, &placement, false), DECIDED);
    let infeasible = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    let failed = ["Filter", "Filter=Unschedulable"];
    assert_eq!(observed_events(&mut engine, &infeasible, false), failed);
    let terms = json!({"replicaScheduling": dynamic(), "clusterAffinities": [
        {"affinityName": "a", "clusterNames": ["m2"]},
        {"affinityName": "b", "clusterNames": ["m1"]},
    ]});
    assert_eq!(
        observed_events(&mut engine, &terms, false),
        [&failed[..], &DECIDED[..]].concat()
    );
}

#[test]
fn observer_is_notified_of_plugin_calls_on_request() {
    let mut engine = engine(EngineGates::default());
    let placement = json!({});
    let events = observed_events(&mut engine, &placement, true);
    let filters = [
        "Filter",
        "Filter/TaintToleration",
        "Filter/TaintToleration=Success",
        "Filter/ClusterAffinity",
        "Filter/ClusterAffinity=Success",
        "Filter/SpreadConstraint",
        "Filter/SpreadConstraint=Success",
    ];
    let rest = [
        "Filter/APIEnablement",
        "Filter/APIEnablement=Success",
        "Filter/ClusterEviction",
        "Filter/ClusterEviction=Success",
        "Filter=Success",
        "Score",
        "Score/ClusterLocality",
        "Score/ClusterLocality=Success",
        "Score=Success",
        "Select",
        "Select/SelectClusters",
        "Select/SelectClusters=Success",
        "Select=Success",
        "Assign",
        "Assign/AssignReplicas",
        "Assign/AssignReplicas=Success",
        "Assign=Success",
    ];
    assert_eq!(events, [&filters[..], &rest[..]].concat());
}

#[test]
fn a_filter_with_a_cached_result_is_not_reported() {
    let mut engine = engine(EngineGates::default());
    let snapshot = fleet(&[cluster("m1", 10)]).snapshot();
    let request = request(&binding(4, json!({})));
    engine.schedule(&snapshot, &request);
    let mut observer = RecordingObserver {
        wants_plugins: true,
        events: Vec::new(),
    };
    engine.decide(
        &snapshot,
        &request,
        &Assumed::default(),
        Some(&mut observer),
    );
    assert!(observer.events.contains(&"Filter/APIEnablement".to_owned()));
    assert!(
        !observer
            .events
            .contains(&"Filter/TaintToleration".to_owned())
    );
}
