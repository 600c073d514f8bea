//! Tests of the texts about a preview.

use berth_plan::what_if::Share;

use super::*;

fn departure(name: &str, replicas: Option<i32>, outcome: DepartureOutcome) -> Departure {
    let role = match replicas {
        Some(_) => DepartureRole::Workload,
        None => DepartureRole::Object,
    };
    Departure {
        key: BindingKey::new("shop", name),
        role,
        replicas,
        outcome,
    }
}

fn moves(to: &[(&str, i32)]) -> DepartureOutcome {
    let to = to.iter().map(|(name, replicas)| Share {
        name: (*name).to_owned(),
        replicas: *replicas,
    });
    DepartureOutcome::Moves { to: to.collect() }
}

fn stays(reason: &str) -> DepartureOutcome {
    let reason = reason.to_owned();
    DepartureOutcome::Stays { reason }
}

fn preview(departures: Vec<Departure>) -> DrainPreview {
    DrainPreview {
        departures,
        ..DrainPreview::default()
    }
}

#[test]
fn a_preview_lists_the_bindings_that_leave_and_those_that_stay() {
    let text_of = text(
        &DrainPreview {
            departures: vec![
                departure("api", Some(2), DepartureOutcome::Leaves),
                departure("db", Some(1), stays("no cluster fits")),
                departure("settings", None, moves(&[("m2", 0)])),
                departure("values", None, DepartureOutcome::Follows),
                departure("web", Some(3), moves(&[("m2", 2), ("m3", 1)])),
            ],
            already_leaving: 2,
            others: 1,
            notes: vec!["a limit".to_owned()],
        },
        "m1",
    );
    let expected = "\
BINDING         REPLICAS   TO
shop/api        2          other copies stay
shop/settings   -          m2
shop/web        3          m2:2, m3:1

STAYS     REPLICAS   REASON
shop/db   1          no cluster fits

2 workloads and 1 other object can leave m1; 2 bindings are already leaving; 1 dependency follows its workloads; 1 workload stays; \
1 binding of other clusters would move as well
note: a limit
";
    assert_eq!(text_of, expected);
    assert_eq!(text(&preview(Vec::new()), "m1"), "no bindings are in m1\n");
}

#[test]
fn the_end_names_what_stays() {
    let workload = || departure("db", Some(1), stays("no cluster fits"));
    let object = || departure("settings", None, stays("no cluster fits"));
    let progress = Progress::start("m1");
    for (departures, expected) in [
        (vec![], "m1 is drained: no bindings had to leave"),
        (
            vec![object()],
            "m1 is drained: no bindings had to leave; 1 other object stays",
        ),
        (
            vec![workload(), object()],
            "m1 is not drained: 0 bindings have left m1 in 0s; 1 workload and 1 other object stay",
        ),
    ] {
        let now = preview(departures);
        let text = closing(&now, &now, &[], "m1", &progress);
        assert_eq!(text.lines().next(), Some(expected));
    }
    let returned = [BindingKey::new("shop", "agent")];
    let none = preview(Vec::new());
    let text = closing(&none, &none, &returned, "m1", &progress);
    assert!(text.starts_with("shop/agent is in m1 again: "), "{text}");
    assert!(text.contains("m1 is not drained"), "{text}");
    // The table is printed again only if it has changed.
    let text = closing(&none, &preview(vec![workload()]), &[], "m1", &progress);
    assert!(
        text.starts_with("\nSTAYS     REPLICAS   REASON\nshop/db   1          no cluster fits\n"),
        "{text}"
    );
}
