//! A test of a scheduler with several profiles. Each profile has its own scheduler name and plugins.

use std::collections::BTreeSet;

use berth_e2e::SchedulerFixture;
use berth_e2e::scheduler_fixture::to_all_clusters;
use berth_scheduler::framework::Registry;
use serde_json::json;

use crate::spy::{Action, CallLog, register};

/// Checks that a profile schedules only the bindings with its scheduler name, calls only its own plugins, and is the
/// source of the events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_profile_schedules_its_bindings_with_its_plugins() {
    let (log, mut registry) = (CallLog::default(), Registry::new());
    register(&mut registry, "A", &log, |_| Action::Pass);
    register(&mut registry, "B", &log, |_| Action::Pass);
    let plugins = |name: &str| json!({ "multiPoint": { "enabled": [{ "name": name }] } });
    let fixture = SchedulerFixture::start(
        registry,
        json!({ "profiles": [
            { "schedulerName": "one", "plugins": plugins("A") },
            { "schedulerName": "other", "plugins": plugins("B") },
        ] }),
    )
    .await;
    fixture
        .bare
        .bind(&to_all_clusters("unmatched", "third"))
        .await;
    for (name, scheduler) in [("first", "one"), ("second", "other")] {
        assert_eq!(
            fixture
                .schedule(&to_all_clusters(name, scheduler))
                .await
                .unwrap()
                .len(),
            4
        );
    }
    let calls = log.calls();
    assert!(calls.contains(&"A.Reserve first".to_owned()));
    assert!(calls.contains(&"B.Reserve second".to_owned()));
    assert!(
        !calls.iter().any(|call| {
            call.starts_with("A.") && call.ends_with(" second")
                || call.starts_with("B.") && call.ends_with(" first")
                || call.ends_with(" unmatched")
        }),
        "{calls:?}"
    );
    for (name, scheduler) in [("first", "one"), ("second", "other")] {
        assert_eq!(event_sources(&fixture, name).await, [scheduler]);
    }
    let unmatched = fixture
        .bare
        .bindings("default")
        .get("unmatched")
        .await
        .unwrap();
    assert!(unmatched.spec.clusters.is_empty() && unmatched.status.is_none());
    fixture.stop().await;
}

/// Returns the sources of all events about a binding and its template.
async fn event_sources(fixture: &SchedulerFixture, name: &str) -> Vec<String> {
    let mut names = BTreeSet::new();
    for event in fixture.events(name).await {
        names.extend(event.source.and_then(|source| source.component));
        names.extend(event.reporting_component);
    }
    names.into_iter().collect()
}
