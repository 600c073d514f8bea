//! What a probe hears of a decision.

use berth_core::{Assumed, Gates, Probe, Step};
use serde_json::{Value, json};

use crate::fixtures::{binding, cluster, dynamic, engine, fleet, request, text};

#[derive(Default)]
struct Heard(Vec<Option<Step>>);

impl Probe for Heard {
    fn enters(&mut self, step: Step) {
        self.0.push(Some(step));
    }

    fn leaves(&mut self) {
        self.0.push(None);
    }
}

#[track_caller]
fn hears(placement: Value, expected: &[Option<Step>]) {
    let (snapshot, mut heard) = (fleet(&[cluster("m1", 10)]).snapshot(), Heard::default());
    let request = request(&binding(4, placement));
    let probed = engine(Gates::default()).schedule_probed(
        &snapshot,
        &request,
        &Assumed::default(),
        &mut heard,
    );
    assert_eq!(heard.0, expected);
    let unheard = engine(Gates::default()).schedule(&snapshot, &request);
    assert_eq!(text(&probed), text(&unheard));
}

#[test]
fn a_probe_hears_every_stage_once() {
    let steps = [Step::Filter, Step::Score, Step::Select, Step::Assign].map(Some);
    let decided: Vec<_> = steps.into_iter().chain([None]).collect();
    hears(json!({"replicaScheduling": dynamic()}), &decided);
    let nowhere = [Some(Step::Filter), None];
    hears(
        json!({"clusterAffinity": {"clusterNames": ["m2"]}}),
        &nowhere,
    );
    let first_fails: Vec<_> = nowhere.into_iter().chain(decided).collect();
    hears(
        json!({"clusterAffinities": [
            {"affinityName": "a", "clusterNames": ["m2"]},
            {"affinityName": "b", "clusterNames": ["m1"]},
        ]}),
        &first_fails,
    );
}
