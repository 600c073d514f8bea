//! The extension points of the scheduler: their order, and the effect of the results that plugins return. The test
//! plugins are the spies of the module [`spy`](crate::spy).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use berth_api::Binding;
use berth_e2e::scheduler_fixture::to_all_clusters;
use berth_e2e::{SchedulerFixture, eventually};
use berth_scheduler::framework::{
    Event, EventKind, Gate, Hint, Plugin, PreEnqueue, Registration, Registry,
};
use kube::ResourceExt as _;
use serde_json::json;

use crate::spy::{Action, Call, CallLog, register, register_at_all_points};

/// Starts a scheduler whose profile `s` has two spies. A runs before B, and A alone is the plugin for QueueSort, Select
/// and Assign. The functions `a` and `b` decide what the spies do.
async fn start_with_spies(
    log: &CallLog,
    a: impl Fn(&Call<'_>) -> Action + Send + Sync + 'static,
    b: impl Fn(&Call<'_>) -> Action + Send + Sync + 'static,
) -> SchedulerFixture {
    let mut registry = Registry::new();
    register_at_all_points(&mut registry, "A", log, a);
    register(&mut registry, "B", log, b);
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }, { "name": "B" }] } });
    SchedulerFixture::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await
}

/// Decides that a spy passes each call.
fn pass(_: &Call<'_>) -> Action {
    Action::Pass
}

/// Returns the calls at these extension points in order, each in the form `A.Reserve`.
fn calls(log: &CallLog, points: &[&str]) -> Vec<String> {
    let named = |call: &String| call.split(' ').next().unwrap_or_default().to_owned();
    let mut calls: Vec<_> = log.calls().iter().map(named).collect();
    calls.retain(|call| {
        points
            .iter()
            .any(|point| call.ends_with(&format!(".{point}")))
    });
    calls
}

/// Waits until the log contains a call.
async fn wait_for_call(log: &CallLog, call: &str) {
    eventually(call, async || {
        let calls = log.calls();
        if calls.iter().any(|known| known == call) {
            Ok(())
        } else {
            Err(format!("{calls:?}"))
        }
    })
    .await;
}

/// Checks the number and the order of all calls in a successful cycle. The fixture has four clusters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_runs_once_and_in_order() {
    let log = CallLog::default();
    let fixture = start_with_spies(&log, pass, pass).await;
    fixture.bare.bind(&to_all_clusters("web", "s")).await;
    assert_eq!(fixture.placed_clusters("web").await.len(), 4);
    wait_for_call(&log, "B.PostBind web").await;
    let mut calls = log.calls();
    assert_eq!(calls[0], "A.QueueSort web");
    // The scheduler ranks a binding at each event about it, also after its own writes.
    calls.retain(|call| call != "A.QueueSort web");
    let runs: Vec<String> = calls
        .chunk_by(|one, next| one == next)
        .map(|run| format!("{} {}", run.len(), run[0]))
        .collect();
    let expected = [
        "1 A.PreEnqueue",
        "1 B.PreEnqueue",
        "1 A.PreFilter",
        "1 B.PreFilter",
        "4 A.Filter",
        "4 B.Filter",
        "1 A.PreScore",
        "1 B.PreScore",
        "4 A.Score",
        "1 A.NormalizeScore",
        "4 B.Score",
        "1 B.NormalizeScore",
        "1 A.Select",
        "1 A.Assign",
        "1 A.Reserve",
        "1 B.Reserve",
        "1 A.Permit",
        "1 B.Permit",
        "1 A.PreBind",
        "1 B.PreBind",
        "1 A.Bind",
        "1 B.Bind",
        "1 A.PostBind",
        "1 B.PostBind",
    ];
    assert_eq!(runs, expected.map(|run| format!("{run} web")));
    fixture.stop().await;
}

/// Checks that PostFilter runs in place of all later points if no cluster passes the filters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn post_filter_runs_if_no_cluster_passes() {
    let log = CallLog::default();
    let refuses = |call: &Call<'_>| match call.point {
        "Filter" => Action::Refuse,
        _ => Action::Pass,
    };
    let fixture = start_with_spies(&log, pass, refuses).await;
    let (reason, _) = fixture
        .schedule(&to_all_clusters("web", "s"))
        .await
        .unwrap_err();
    assert_eq!(reason, "NoClusterFit");
    let points = [
        "PreFilter",
        "PostFilter",
        "PreScore",
        "Select",
        "Assign",
        "Reserve",
        "Permit",
        "PreBind",
    ];
    assert_eq!(
        calls(&log, &points),
        ["A.PreFilter", "B.PreFilter", "A.PostFilter", "B.PostFilter"]
    );
    fixture.stop().await;
}

/// A PreEnqueue plugin that refuses the binding `web` until the test sets `open`.
#[derive(Debug)]
struct Barrier {
    open: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl PreEnqueue for Barrier {
    fn pre_enqueue(&self, binding: &Binding) -> Gate {
        if &*binding.key.name != "web" {
            return Gate::Open;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.open.load(Ordering::Relaxed) {
            Gate::Open
        } else {
            Gate::Closed("the key is missing".to_owned())
        }
    }
}

/// Checks that a refused binding is scheduled after an event that the hint of its PreEnqueue plugin accepts. Other
/// events have no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_refused_at_pre_enqueue_is_queued_by_the_event_of_the_hint() {
    let (open, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let mut registry = Registry::new();
    let (is_open, counter) = (open.clone(), calls.clone());
    registry
        .register("Barrier", move |_, _| {
            let (open, calls) = (is_open.clone(), counter.clone());
            let hint = |_: &Binding, event: &Event| match event {
                Event::Binding(binding) if &*binding.key.name == "key" => Hint::Queue,
                _ => Hint::Skip,
            };
            Ok(Plugin::new("Barrier")
                .pre_enqueue(Arc::new(Barrier { open, calls }))
                .wakes_on(Registration::hinted(EventKind::Binding, hint)))
        })
        .unwrap();
    let plugins = json!({ "preEnqueue": { "enabled": [{ "name": "Barrier" }] } });
    let fixture = SchedulerFixture::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    let (reason, message) = fixture
        .schedule(&to_all_clusters("web", "s"))
        .await
        .unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"Barrier\" refuses the binding at PreEnqueue: the key is missing"
    );
    open.store(true, Ordering::Relaxed);
    assert!(
        fixture
            .schedule(&to_all_clusters("other", "s"))
            .await
            .is_ok()
    );
    assert_eq!(
        calls.load(Ordering::Relaxed),
        1,
        "an event that the hint skips must not call the plugin again"
    );
    assert!(fixture.schedule(&to_all_clusters("key", "s")).await.is_ok());
    assert_eq!(fixture.placed_clusters("web").await.len(), 4);
    fixture.stop().await;
}

/// Checks that a failure at Reserve calls Unreserve of all plugins in reverse order, and that the binding is retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_reserve_unreserves_in_reverse_order() {
    let log = CallLog::default();
    let fails_once = |call: &Call<'_>| match call {
        Call {
            point: "Reserve",
            before: 0,
            ..
        } => Action::Fail,
        _ => Action::Pass,
    };
    let fixture = start_with_spies(&log, pass, fails_once).await;
    fixture.bare.bind(&to_all_clusters("web", "s")).await;
    fixture
        .wait_for_event(
            "web",
            "plugin \"B\" failed at Reserve: requested by the test",
        )
        .await;
    // The scheduler retries the binding, and the second attempt succeeds.
    assert_eq!(fixture.placed_clusters("web").await.len(), 4);
    assert_eq!(
        calls(&log, &["Reserve", "Unreserve"]),
        [
            "A.Reserve",
            "B.Reserve",
            "B.Unreserve",
            "A.Unreserve",
            "A.Reserve",
            "B.Reserve"
        ]
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_denied_at_permit_is_not_stored() {
    let log = CallLog::default();
    let denies = |call: &Call<'_>| match call.point {
        "Permit" => Action::Refuse,
        _ => Action::Pass,
    };
    let fixture = start_with_spies(&log, pass, denies).await;
    let (reason, message) = fixture
        .schedule(&to_all_clusters("web", "s"))
        .await
        .unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"B\" refuses the binding at Permit: requested by the test"
    );
    let stored = fixture.bare.bindings("default").get("web").await.unwrap();
    assert!(stored.spec.clusters.is_empty());
    assert_eq!(
        calls(&log, &["Permit", "Unreserve", "PreBind"]),
        ["A.Permit", "B.Permit", "B.Unreserve", "A.Unreserve"]
    );
    fixture.stop().await;
}

/// Checks that a plugin can allow a waiting decision during the Permit call for another decision. The waiting decision
/// is then stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_decision_is_permitted_by_another_one() {
    let log = CallLog::default();
    let waits = |call: &Call<'_>| match call {
        Call {
            point: "Permit",
            binding: "first",
            ..
        } => Action::Wait(Duration::from_mins(10)),
        _ => Action::Pass,
    };
    let fixture = start_with_spies(&log, waits, pass).await;
    fixture.bare.bind(&to_all_clusters("first", "s")).await;
    wait_for_call(&log, "B.Permit first").await;
    fixture.bare.bind(&to_all_clusters("second", "s")).await;
    assert_eq!(fixture.placed_clusters("second").await.len(), 4);
    assert_eq!(fixture.placed_clusters("first").await.len(), 4);
    assert_eq!(
        log.calls()
            .iter()
            .filter(|call| *call == "A.Permit first")
            .count(),
        1,
        "the permitted decision must not be made again"
    );
    fixture.stop().await;
}

/// Checks that a decision is dropped if it waits at Permit longer than the plugin allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_rejected_when_its_permit_times_out() {
    let log = CallLog::default();
    let waits = |call: &Call<'_>| match call.point {
        "Permit" => Action::Wait(Duration::from_millis(50)),
        _ => Action::Pass,
    };
    let fixture = start_with_spies(&log, pass, waits).await;
    let (reason, message) = fixture
        .schedule(&to_all_clusters("web", "s"))
        .await
        .unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"B\" refuses the binding at Permit: timed out while it waited for a permit"
    );
    assert_eq!(
        calls(&log, &["Unreserve", "Rejected", "PreBind"]),
        ["B.Unreserve", "A.Unreserve", "A.Rejected", "B.Rejected"]
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_pre_bind_unreserves_and_is_retried() {
    let log = CallLog::default();
    let fails = |call: &Call<'_>| match call {
        Call {
            point: "PreBind",
            before: 0,
            ..
        } => Action::Fail,
        _ => Action::Pass,
    };
    let fixture = start_with_spies(&log, pass, fails).await;
    fixture.bare.bind(&to_all_clusters("web", "s")).await;
    fixture
        .wait_for_event(
            "web",
            "plugin \"B\" failed at PreBind: requested by the test",
        )
        .await;
    assert_eq!(fixture.placed_clusters("web").await.len(), 4);
    wait_for_call(&log, "B.PostBind web").await;
    assert_eq!(
        calls(&log, &["PreBind", "Unreserve", "PostBind"]),
        [
            "A.PreBind",
            "B.PreBind",
            "B.Unreserve",
            "A.Unreserve",
            "A.PreBind",
            "B.PreBind",
            "A.PostBind",
            "B.PostBind"
        ]
    );
    fixture.stop().await;
}

/// Checks that a Bind plugin can store the decision. The scheduler then calls no further Bind plugin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bind_plugin_stores_the_decision() {
    let log = CallLog::default();
    let stores = |call: &Call<'_>| match call.point {
        "Bind" => Action::Store,
        _ => Action::Pass,
    };
    let fixture = start_with_spies(&log, stores, pass).await;
    fixture.bare.bind(&to_all_clusters("web", "s")).await;
    assert_eq!(
        fixture.placed_clusters("web").await,
        ["m1", "m2", "m3", "m4"]
    );
    wait_for_call(&log, "B.PostBind web").await;
    let binding = fixture.bare.bindings("default").get("web").await.unwrap();
    assert_eq!(binding.annotations()["stored-by"], "A");
    assert_eq!(
        calls(&log, &["Bind", "PostBind"]),
        ["A.Bind", "A.PostBind", "B.PostBind"],
        "no Bind plugin is called after the decision is stored"
    );
    fixture.stop().await;
}
