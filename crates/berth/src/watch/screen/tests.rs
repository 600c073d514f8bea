use std::collections::BTreeMap;

use berth_api::BindingKey;
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

#[test]
fn a_large_terminal_shows_all_panes() {
    let lines = render(&fleet_with(1), &events(1), &mut View::default(), (10, 80));
    let expected = [
        "CLUSTER   READY   BINDINGS   REPLICAS",
        "m1        yes     1          2",
        "m2        NO      1          0",
        "",
        "BINDING      WANTED   READY   CLUSTERS             KIND         POLICY",
        "shop/web00   2        1       m1 1/2, m2 leaving   Deployment   web",
        "",
    ];
    assert_eq!(lines[..7], expected);
    assert!(lines[7].ends_with("  shop/old00  gone"), "{lines:?}");
    assert_eq!(lines[8], "");
    assert_eq!(lines[9], "bindings 1-1 of 1   q quit  ? help  / filter");
}

#[test]
fn the_word_each_marks_duplicated_replicas() {
    let mut fleet = fleet_with(1);
    let row = fleet.rows.values_mut().next().unwrap();
    row.desired = Some(DesiredReplicas::InEach(2));
    let lines = bindings(&fleet, &View::default(), 80);
    assert!(
        lines[1].starts_with("shop/web00   2 each   1 "),
        "{lines:?}"
    );
}

#[test]
fn a_narrow_terminal_shows_the_clusters_of_a_binding() {
    for (columns, last) in [(80, "POLICY"), (65, "KIND"), (50, "CLUSTERS")] {
        let lines = bindings(&fleet_with(1), &View::default(), columns);
        assert!(lines[0].ends_with(last), "{columns}: {lines:?}");
        assert!(lines[1].contains("m1 1/2, m2 leaving"), "{lines:?}");
    }
    let mut fleet = fleet_with(0);
    let row = super::tests::fleet_with(1)
        .rows
        .into_values()
        .next()
        .unwrap();
    fleet.rows.insert(key(&"long".repeat(20)), row);
    let lines = bindings(&fleet, &View::default(), 60);
    assert!(
        lines[1].starts_with("shop/longlonglonglonglo…   2 "),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("m1 1/2, m2 leaving"), "{lines:?}");
}

#[test]
fn a_cut_line_ends_in_an_ellipsis() {
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
    let row = lines.iter().find(|line| line.starts_with("shop/web00"));
    assert!(row.unwrap().ends_with('…'), "{lines:#?}");
}

#[test]
fn long_panes_are_scrolled() {
    let (fleet, events, mut view) = (fleet_with(100), events(50), View::default());
    let size = (20, 60);
    let first = render(&fleet, &events, &mut view, size);
    assert_eq!(first.len(), 20);
    assert!(first[5].starts_with("shop/web00"), "{first:#?}");
    assert!(first[18].ends_with("shop/old49  gone"), "{first:#?}");
    assert!(first[19].starts_with("bindings 1-8 of 100"), "{first:#?}");
    for (key, shown) in [
        (Key::Down, "shop/web01"),
        (Key::PageDown, "shop/web09"),
        (Key::End, "shop/web92"),
        (Key::Home, "shop/web00"),
    ] {
        view.press(key);
        let lines = render(&fleet, &events, &mut view, size);
        assert!(lines[5].starts_with(shown), "{key:?}: {lines:#?}");
    }
    view.press(Key::Tab);
    view.press(Key::Home);
    let lines = render(&fleet, &events, &mut view, size);
    assert!(lines.iter().any(|line| line.ends_with("shop/old00  gone")));
    assert!(lines[19].starts_with("events 1-5 of 50"), "{lines:#?}");
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
    let typing = render(&fleet, &events, &mut view, (24, 80));
    assert_eq!(typing[23], "/SHOP/web42");
    view.press(Key::Enter);
    let shown = render(&fleet, &events, &mut view, (24, 80));
    let bindings: Vec<&String> = shown.iter().filter(|line| line.contains("shop/")).collect();
    assert_eq!(bindings.len(), 1, "{shown:#?}");
    assert!(bindings[0].starts_with("shop/web42"));
    assert!(shown[0].starts_with("CLUSTER") && shown[1].starts_with("m1"));
    assert!(shown[23].starts_with("bindings 1-1 of 1 with \"SHOP/web42\""));
}

#[test]
fn the_help_lists_the_keys() {
    let mut view = View::default();
    view.press(Key::Char('?'));
    let help = render(&fleet_with(1), &events(1), &mut view, (24, 80)).join("\n");
    for key in ["arrows", "PgUp", "/ ", "Tab", "q, Ctrl-C"] {
        assert!(help.contains(key), "{key}: {help}");
    }
    assert!(!help.contains('…') && !help.contains("shop/"), "{help}");
}
