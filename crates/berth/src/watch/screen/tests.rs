use std::collections::BTreeMap;

use berth_api::BindingKey;
use berth_explain::MigrationState;
use berth_test_transcripts::{Transcript, assert_snapshot};
use jiff::Timestamp;

use super::super::fleet_state::{BindingRow, Change, DesiredReplicas, TargetState};
use super::super::keys::Key;
use super::*;

fn key(name: &str) -> BindingKey {
    BindingKey::new("shop", name)
}

fn fleet_with(bindings: usize) -> FleetState {
    let mut fleet = FleetState::default();
    fleet.clusters.insert("m1".to_owned(), true);
    fleet.clusters.insert("m2".to_owned(), false);
    for n in 0..bindings {
        let target = |replicas, ready| TargetState {
            replicas,
            ready,
            health: None,
        };
        let targets = BTreeMap::from([
            ("m1".to_owned(), target(Some(2), Some(1))),
            ("m2".to_owned(), target(None, None)),
        ]);
        let row = BindingRow {
            kind: "Deployment".to_owned(),
            policy: "web".to_owned(),
            required_by: Vec::new(),
            desired: Some(DesiredReplicas::InAll(2)),
            targets,
            failure: None,
            migration: None,
        };
        fleet.rows.insert(key(&format!("web{n:02}")), row);
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
        fleet.rows.values_mut().next().unwrap().migration = Some(state);
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
    let row = fleet_with(1).rows.into_values().next().unwrap();
    fleet.rows.insert(key(&"long".repeat(20)), row);
    let lines = bindings(&fleet, &View::default(), 60);
    show(
        &mut screens,
        "a long name leaves room for the clusters",
        &lines,
    );

    let (mut fleet, mut view) = (fleet_with(1), View::default());
    let row = fleet.rows.values_mut().next().unwrap();
    for n in 3..30 {
        let target = TargetState {
            replicas: Some(1),
            ready: Some(1),
            health: None,
        };
        row.targets.insert(format!("member{n}"), target);
    }
    let lines = render(&fleet, &events(3), &mut view, (24, 80));
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
    show(&mut screens, "a cut line ends in an ellipsis", &lines);

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
        let lines = super::render(&fleet, &events, &mut view, size);
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
