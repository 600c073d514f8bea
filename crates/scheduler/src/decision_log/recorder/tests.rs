//! A test of a full channel: the recorder drops decisions, and sends the latest state of each changed cluster later.

use std::sync::mpsc::sync_channel;

use berth_engine::Assumed;
use berth_metrics::Format;
use serde_json::json;

use super::*;

fn decision() -> Arc<RecordedDecision> {
    let decision = RecordedDecision::about_config_map("shop", "web", Assumed::default());
    Arc::new(decision)
}

fn cluster(name: &str) -> Cluster {
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" } }))
        .unwrap()
}

fn describe(message: &Message) -> String {
    match message {
        Message::Configuration(_) => "configuration".to_owned(),
        Message::Cluster(name, state) => format!("{name} {}", state.is_some()),
        Message::Decision(..) => "decision".to_owned(),
        Message::Score(name, _) => format!("score {name}"),
        Message::Gap(dropped) => format!("gap of {dropped}"),
    }
}

#[test]
fn a_full_channel_drops_decisions_and_delays_changes_of_clusters() {
    let (sender, messages) = sync_channel(3);
    let mut recorder = Recorder {
        sender,
        pending_configuration: true,
        pending_clusters: BTreeMap::new(),
        pending_scores: BTreeMap::new(),
        configuration: Arc::new(Configuration {
            document: json!({}),
            feature_gates: berth_api::feature_gates::EngineGates::default(),
            empty_workload_propagation: false,
            estimators: false,
        }),
        gap: 0,
        dropped: DroppedDecisions::default(),
    };
    recorder.cluster("m1".to_owned(), Some(&cluster("m1")));
    recorder.decision(decision());
    for name in ["m2", "m3"] {
        recorder.cluster(name.to_owned(), Some(&cluster(name)));
    }
    recorder.cluster("m3".to_owned(), None);
    recorder.decision(decision());
    recorder.decision(decision());
    assert_eq!(recorder.dropped().get(), 2);

    let mut log: Vec<String> = messages.try_iter().map(|m| describe(&m)).collect();
    assert_eq!(log, ["configuration", "m1 true", "decision"]);
    // The gap and the two changes of clusters fill the channel, so the next decision is dropped. After
    // `messages` has been read, a further decision fits.
    recorder.decision(decision());
    assert_eq!(recorder.dropped().get(), 3);
    log = messages.try_iter().map(|m| describe(&m)).collect();
    assert_eq!(log, ["gap of 2", "m2 true", "m3 false"]);
    recorder.decision(decision());
    log = messages.try_iter().map(|m| describe(&m)).collect();
    assert_eq!(log, ["gap of 1", "decision"]);
    let dropped = recorder.dropped();
    let text = Format::Text.render(|registry| dropped.register(registry));
    assert!(
        text.ends_with("berth_decision_log_dropped_total 3\n"),
        "{text}"
    );
}
