//! Tests of the notifications that the engine sends to observers.

use berth_core::{Assumed, Engine, Gates, Observer, Point, Status};
use serde_json::{Value, json};

use crate::fixtures::{binding, cluster, dynamic, engine, fleet, request, text};

#[derive(Default)]
struct Ear {
    plugins: bool,
    heard: Vec<String>,
}

impl Observer for Ear {
    fn point_begins(&mut self, point: Point) {
        self.heard.push(format!("{point}"));
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        self.heard.push(format!("{point}={}", status.as_str()));
    }

    fn wants_plugins(&mut self) -> bool {
        self.plugins
    }

    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        self.heard.push(format!("{point}/{plugin}"));
    }

    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        self.heard
            .push(format!("{point}/{plugin}={}", status.as_str()));
    }
}

fn hear(engine: &mut Engine, placement: &Value, plugins: bool) -> Vec<String> {
    let mut ear = Ear {
        plugins,
        heard: Vec::new(),
    };
    let snapshot = fleet(&[cluster("m1", 10)]).snapshot();
    let request = request(&binding(4, placement.clone()));
    let observed = engine
        .decide(&snapshot, &request, &Assumed::default(), Some(&mut ear))
        .outcome;
    assert_eq!(text(&observed), text(&engine.schedule(&snapshot, &request)));
    ear.heard
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
fn observer_is_notified_of_every_point_once() {
    let mut engine = engine(Gates::default());
    let placement = json!({"replicaScheduling": dynamic()});
    assert_eq!(hear(&mut engine, &placement, false), DECIDED);
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    let failed = ["Filter", "Filter=Unschedulable"];
    assert_eq!(hear(&mut engine, &nowhere, false), failed);
    let terms = json!({"replicaScheduling": dynamic(), "clusterAffinities": [
        {"affinityName": "a", "clusterNames": ["m2"]},
        {"affinityName": "b", "clusterNames": ["m1"]},
    ]});
    assert_eq!(
        hear(&mut engine, &terms, false),
        [&failed[..], &DECIDED[..]].concat()
    );
}

#[test]
fn observer_is_notified_of_plugins_on_request() {
    let mut engine = engine(Gates::default());
    let placement = json!({});
    let heard = hear(&mut engine, &placement, true);
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
    assert_eq!(heard, [&filters[..], &rest[..]].concat());
}

#[test]
fn cached_plugins_are_not_observed() {
    let mut engine = engine(Gates::default());
    let snapshot = fleet(&[cluster("m1", 10)]).snapshot();
    let request = request(&binding(4, json!({})));
    engine.schedule(&snapshot, &request);
    let mut ear = Ear {
        plugins: true,
        heard: Vec::new(),
    };
    engine.decide(&snapshot, &request, &Assumed::default(), Some(&mut ear));
    assert!(ear.heard.contains(&"Filter/APIEnablement".to_owned()));
    assert!(!ear.heard.contains(&"Filter/TaintToleration".to_owned()));
}
