use std::collections::BTreeSet;

use berth_api::{BindingKey, ResourceBinding};
use berth_diagnosis::MigrationState;
use berth_test_transcripts::{Transcript, assert_snapshot};
use jiff::Timestamp;
use serde_json::json;

use super::super::fleet_state::{Change, DesiredReplicas};
use super::super::keys::Key;
use super::super::source::WatchEvent;
use super::*;

const PLACED: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn render(
    fleet: &FleetState,
    events: &Events,
    view: &mut View,
    size: (usize, usize),
) -> Vec<String> {
    super::render(fleet, events, view, size, now())
}

fn bindings(fleet: &FleetState, view: &View, columns: usize) -> Vec<String> {
    super::bindings(fleet, view, columns, now())
}

fn key(name: &str) -> BindingKey {
    BindingKey::new("shop", name)
}

/// Adds a Deployment that leaves m2, with this number of ready replicas of two in m1.
fn add(fleet: &mut FleetState, name: &str, ready: i64) {
    let health = if ready == 2 { "Healthy" } else { "Unhealthy" };
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "shop", "annotations": { "propagationpolicy.karmada.io/name": "web" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name },
            "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided" } },
            "replicas": 2, "clusters": [{ "name": "m1", "replicas": 2 }] },
        "status": { "lastScheduledTime": PLACED, "aggregatedStatus": [
            { "clusterName": "m1", "applied": true, "health": health,
                "status": { "replicas": 2, "readyReplicas": ready } },
            { "clusterName": "m2", "applied": true, "health": "Healthy" }] },
    }))
    .unwrap();
    fleet.apply(WatchEvent::BindingApplied(Box::new(binding.into())), now());
}

fn fleet_with(bindings: usize) -> FleetState {
    let mut fleet = FleetState::default();
    for (name, ready) in [("m1", "True"), ("m2", "False")] {
        let cluster = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "r", "message": "",
                "lastTransitionTime": PLACED }] } });
        let cluster = Box::new(serde_json::from_value(cluster).unwrap());
        fleet.apply(WatchEvent::ClusterApplied(cluster), now());
    }
    let names = ["m1", "m2"].map(str::to_owned);
    fleet.apply(WatchEvent::ClustersListed(BTreeSet::from(names)), now());
    for n in 0..bindings {
        add(&mut fleet, &format!("web{n:02}"), 2);
    }
    fleet
}

fn events(count: usize) -> Events {
    let mut events = Events::default();
    for n in 0..count {
        let deleted = Change::BindingDeleted(key(&format!("old{n:02}")));
        events.push(lines::line(&Timestamp::UNIX_EPOCH, &deleted));
    }
    events
}

/// Adds the lines of a screen, each between two bars that show its width.
fn show(transcript: &mut Transcript, about: &str, lines: &[String]) {
    transcript.about(about);
    for line in lines {
        transcript.lines(&format!("|{line}|"));
    }
}

#[test]
fn each_size_of_a_terminal_shows_what_fits() {
    let mut screens = Transcript::new();
    let lines = render(&fleet_with(1), &events(1), &mut View::default(), (10, 80));
    show(&mut screens, "all panes", &lines);

    let mut fleet = fleet_with(1);
    let row = fleet.rows.values_mut().next().unwrap();
    row.desired = Some(DesiredReplicas::InEach(2));
    let lines = bindings(&fleet, &View::default(), 80);
    show(
        &mut screens,
        "the word each marks duplicated replicas",
        &lines,
    );

    for state in [MigrationState::Moving, MigrationState::LastCopy] {
        let mut fleet = fleet_with(1);
        fleet.rows.values_mut().next().unwrap().migration = Some((state, String::new()));
        let lines = bindings(&fleet, &View::default(), 80);
        show(&mut screens, "a move is marked", &lines);
    }

    for columns in [80, 65, 50] {
        let lines = bindings(&fleet_with(1), &View::default(), columns);
        show(
            &mut screens,
            &format!("bindings in {columns} columns"),
            &lines,
        );
    }
    let mut fleet = fleet_with(0);
    add(&mut fleet, &"long".repeat(20), 2);
    let lines = bindings(&fleet, &View::default(), 60);
    show(
        &mut screens,
        "a long name leaves room for the clusters",
        &lines,
    );

    let (mut fleet, mut view) = (fleet_with(1), View::default());
    let row = fleet.rows.values_mut().next().unwrap();
    for n in 3..30 {
        let mut copy = row.copies[0].clone();
        copy.cluster = format!("member{n}");
        row.copies.push(copy);
    }
    let lines = render(&fleet, &events(3), &mut view, (24, 80));
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
    show(&mut screens, "a cut line ends in an ellipsis", &lines);

    let mut fleet = fleet_with(2);
    add(&mut fleet, "web02", 0);
    add(&mut fleet, "web03", 1);
    for columns in [140, 80] {
        let lines = render(&fleet, &events(1), &mut View::default(), (20, columns));
        show(
            &mut screens,
            &format!("the worst come first, in {columns} columns"),
            &lines,
        );
    }

    let mut view = View::default();
    view.press(Key::Char('?'));
    let lines = render(&fleet_with(1), &events(1), &mut view, (24, 80));
    show(&mut screens, "the help", &lines);
    assert_snapshot!(screens);
}

#[test]
fn long_panes_are_scrolled() {
    let (fleet, events, mut view) = (fleet_with(100), events(50), View::default());
    let size = (20, 60);
    let mut screens = Transcript::new();
    let lines = render(&fleet, &events, &mut view, size);
    show(&mut screens, "at first", &lines);
    for key in [
        Key::Down,
        Key::PageDown,
        Key::End,
        Key::Home,
        Key::Tab,
        Key::Home,
    ] {
        view.press(key);
        let lines = render(&fleet, &events, &mut view, size);
        show(&mut screens, &format!("after {key:?}"), &lines);
    }
    assert_snapshot!(screens);
    for size in [(0, 0), (1, 1), (3, 5), (7, 20)] {
        let lines = render(&fleet, &events, &mut view, size);
        assert_eq!(lines.len(), size.0);
        assert!(lines.iter().all(|line| line.chars().count() <= size.1));
    }
}

/// Checks that a small screen always shows the focused pane, and that headers are not counted.
#[test]
fn a_small_terminal_shows_the_focused_pane() {
    let (fleet, events) = (fleet_with(100), events(50));
    for rows in 4..=12 {
        for (tabs, shown, status) in [
            (0, "shop/web00", "bindings 1-"),
            (1, "shop/old49  gone", "events "),
            (2, "m1 ", "clusters 1-"),
        ] {
            let mut view = View::default();
            for _ in 0..tabs {
                view.press(Key::Tab);
            }
            let lines = render(&fleet, &events, &mut view, (rows, 80));
            let text = lines.join("\n");
            assert!(text.contains(shown), "{rows} rows, {tabs} tabs:\n{text}");
            let last = &lines[rows - 1];
            let total = ["of 100 ", "of 50 ", "of 2 "][tabs];
            assert!(
                last.starts_with(status) && last.contains(total),
                "{rows} rows: {last}"
            );
        }
    }
}

#[test]
fn a_filter_hides_other_bindings_and_events_but_no_clusters() {
    let (fleet, events, mut view) = (fleet_with(100), events(50), View::default());
    for key in "/SHOP/web42".chars().map(Key::Char) {
        view.press(key);
    }
    let mut screens = Transcript::new();
    let lines = render(&fleet, &events, &mut view, (24, 80));
    show(&mut screens, "while the filter is typed", &lines);
    view.press(Key::Enter);
    let lines = render(&fleet, &events, &mut view, (24, 80));
    show(&mut screens, "with the filter", &lines);
    assert_snapshot!(screens);
}
