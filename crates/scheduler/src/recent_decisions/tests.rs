//! Tests of the limits of the recorded decisions.

use berth_engine::{Assumed, AssumedWorkload};

use super::*;

fn decision(name: &str, workloads: usize) -> Arc<RecordedDecision> {
    let mut assumed = Assumed::default();
    for _ in 0..workloads {
        let components = Vec::new();
        assumed.add("m1", AssumedWorkload { components });
    }
    Arc::new(RecordedDecision::about_config_map("default", name, assumed))
}

fn names(recent: &RecentDecisions) -> Vec<&str> {
    let all = recent.newest_first();
    all.map(|decision| &*decision.binding.key.name).collect()
}

#[test]
fn the_oldest_decision_is_dropped_and_each_binding_has_one_decision() {
    assert!(RecentDecisions::new(0).is_none());
    let mut recent = RecentDecisions::new(3).unwrap();
    for name in ["a", "b", "c", "a", "d"] {
        recent.insert(decision(name, 0));
    }
    assert_eq!(names(&recent), ["d", "a", "c"]);
    let key = |name: &str| decision(name, 0).binding.key.clone();
    assert!(recent.get(&key("b")).is_none());
    assert!(recent.get(&key("a")).is_some());
    assert_eq!(recent.by_key.len(), 3);
}

#[test]
fn the_number_of_recorded_assumed_workloads_is_bounded() {
    let mut recent = RecentDecisions::new(100).unwrap();
    recent.max_workloads = 10;
    for name in ["a", "b", "c"] {
        recent.insert(decision(name, 4));
    }
    let kept: Vec<bool> = recent
        .newest_first()
        .map(|decision| decision.inputs.is_some())
        .collect();
    assert_eq!(kept, [true, false, false]);
    assert_eq!(recent.workloads, 4);
    // The workloads of a replaced decision do not count against the limit.
    for _ in 0..10 {
        recent.insert(decision("c", 4));
    }
    assert_eq!(recent.workloads, 4);
}

#[test]
#[ignore = "prints a measurement"]
fn measure_100_000_records() {
    let bindings = 2000;
    let templates: Vec<Arc<RecordedDecision>> = (0..bindings)
        .map(|number| decision(&format!("web{number}"), 0))
        .collect();
    let mut recent = RecentDecisions::new(DEFAULT_BINDINGS).unwrap();
    let began = std::time::Instant::now();
    for template in templates.iter().cycle().take(100_000) {
        // As in a scheduling cycle, the recorded decision owns the request and the outcome, and shares all other
        // inputs.
        recent.insert(Arc::new(RecordedDecision::clone(template)));
    }
    let each = began.elapsed() / 100_000;
    println!("{each:?} per decision, copies of request and result included");
    assert_eq!(recent.newest_first().count(), DEFAULT_BINDINGS);
}
