//! The points around a decision: in which order they run, and what follows from what plugins say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use berth_e2e::eventually;
use berth_scheduler::binding::Binding;
use berth_scheduler::framework::{
    Event, EventKind, Gate, Hint, Plugin, PreEnqueue, Registration, Registry,
};
use kube::ResourceExt as _;
use serde_json::json;

use crate::scene::{Scene, everywhere};
use crate::spy::{Act, Book, Call, register};

/// A scheduler `s` with two spies, A before B.
async fn scene(
    book: &Book,
    a: impl Fn(&Call<'_>) -> Act + Send + Sync + 'static,
    b: impl Fn(&Call<'_>) -> Act + Send + Sync + 'static,
) -> Scene {
    let mut registry = Registry::new();
    register(&mut registry, "A", book, a);
    register(&mut registry, "B", book, b);
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }, { "name": "B" }] } });
    Scene::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await
}

fn pass(_: &Call<'_>) -> Act {
    Act::Pass
}

/// The calls of these points, each as `A.Reserve`.
fn calls(book: &Book, points: &[&str]) -> Vec<String> {
    let named = |call: &String| call.split(' ').next().unwrap_or_default().to_owned();
    let mut calls: Vec<_> = book.calls().iter().map(named).collect();
    calls.retain(|call| {
        points
            .iter()
            .any(|point| call.ends_with(&format!(".{point}")))
    });
    calls
}

/// Waits until a call is in the book.
async fn is_called(book: &Book, call: &str) {
    eventually(call, async || {
        let calls = book.calls();
        if calls.iter().any(|known| known == call) {
            Ok(())
        } else {
            Err(format!("{calls:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_runs_once_and_in_order() {
    let book = Book::default();
    let scene = scene(&book, pass, pass).await;
    scene.bare.bind(&everywhere("web", "s")).await;
    assert_eq!(scene.placed("web").await.len(), 4);
    is_called(&book, "B.PostBind web").await;
    let mut calls = book.calls();
    // Filter and Score are asked about each cluster.
    calls.dedup();
    let points = [
        "PreEnqueue",
        "PreFilter",
        "Filter",
        "PreScore",
        "Score",
        "Reserve",
        "Permit",
        "PreBind",
        "Bind",
        "PostBind",
    ];
    let order: Vec<&str> = calls
        .iter()
        .filter_map(|call| call.strip_prefix("A.")?.strip_suffix(" web"))
        .collect();
    assert_eq!(order, points, "{calls:?}");
    for point in points {
        let of = |plugin: &str| {
            let call = format!("{plugin}.{point} web");
            calls.iter().position(|known| *known == call).unwrap()
        };
        assert!(of("A") < of("B"), "{point}: {calls:?}");
    }
    scene.stop().await;
}

/// Closed to the binding `web` for as long as the test wants.
#[derive(Debug)]
struct Barrier {
    open: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl PreEnqueue for Barrier {
    fn pre_enqueue(&self, binding: &Binding) -> Gate {
        if &*binding.key.name != "web" {
            return Gate::Open;
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.open.load(Ordering::Relaxed) {
            Gate::Open
        } else {
            Gate::Closed("the key is missing".to_owned())
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_is_opened_by_the_event_that_its_plugin_waits_for() {
    let (open, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let mut registry = Registry::new();
    let (is_open, counter) = (open.clone(), asked.clone());
    registry
        .register("Barrier", move |_, _| {
            let (open, asked) = (is_open.clone(), counter.clone());
            let hint = |_: &Binding, event: &Event| match event {
                Event::Binding(binding) if &*binding.key.name == "key" => Hint::Queue,
                _ => Hint::Skip,
            };
            Ok(Plugin::new("Barrier")
                .pre_enqueue(Arc::new(Barrier { open, asked }))
                .wakes_on(Registration::hinted(EventKind::Binding, hint)))
        })
        .unwrap();
    let plugins = json!({ "preEnqueue": { "enabled": [{ "name": "Barrier" }] } });
    let scene = Scene::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    let (reason, message) = scene.place(&everywhere("web", "s")).await.unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"Barrier\" refuses the binding at PreEnqueue: the key is missing"
    );
    open.store(true, Ordering::Relaxed);
    assert!(scene.place(&everywhere("other", "s")).await.is_ok());
    assert_eq!(
        asked.load(Ordering::Relaxed),
        1,
        "the hint skips other bindings"
    );
    assert!(scene.place(&everywhere("key", "s")).await.is_ok());
    assert_eq!(scene.placed("web").await.len(), 4);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reserved_is_given_back_in_reverse() {
    let book = Book::default();
    let refuses = |call: &Call<'_>| match call {
        Call {
            point: "Reserve",
            before: 0,
            ..
        } => Act::Fail,
        _ => Act::Pass,
    };
    let scene = scene(&book, pass, refuses).await;
    scene.bare.bind(&everywhere("web", "s")).await;
    scene
        .is_told("web", "plugin \"B\" failed at Reserve: the test wants it")
        .await;
    // It is tried again.
    assert_eq!(scene.placed("web").await.len(), 4);
    assert_eq!(
        calls(&book, &["Reserve", "Unreserve"]),
        [
            "A.Reserve",
            "B.Reserve",
            "B.Unreserve",
            "A.Unreserve",
            "A.Reserve",
            "B.Reserve"
        ]
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_decision_is_not_stored() {
    let book = Book::default();
    let denies = |call: &Call<'_>| match call.point {
        "Permit" => Act::Refuse,
        _ => Act::Pass,
    };
    let scene = scene(&book, pass, denies).await;
    let (reason, message) = scene.place(&everywhere("web", "s")).await.unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"B\" refuses the binding at Permit: the test wants it"
    );
    let stored = scene.bare.bindings("default").get("web").await.unwrap();
    assert!(stored.spec.clusters.is_empty());
    assert_eq!(
        calls(&book, &["Permit", "Unreserve", "PreBind"]),
        ["A.Permit", "B.Permit", "B.Unreserve", "A.Unreserve"]
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_decision_is_let_through_by_another() {
    let book = Book::default();
    let waits = |call: &Call<'_>| match call {
        Call {
            point: "Permit",
            binding: "first",
            ..
        } => Act::Wait(Duration::from_mins(10)),
        _ => Act::Pass,
    };
    let scene = scene(&book, waits, pass).await;
    scene.bare.bind(&everywhere("first", "s")).await;
    is_called(&book, "B.Permit first").await;
    scene.bare.bind(&everywhere("second", "s")).await;
    assert_eq!(scene.placed("second").await.len(), 4);
    assert_eq!(scene.placed("first").await.len(), 4);
    assert_eq!(
        book.calls()
            .iter()
            .filter(|call| *call == "A.Permit first")
            .count(),
        1,
        "it was decided once"
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_waits_too_long_is_rejected() {
    let book = Book::default();
    let waits = |call: &Call<'_>| match call.point {
        "Permit" => Act::Wait(Duration::from_millis(50)),
        _ => Act::Pass,
    };
    let scene = scene(&book, pass, waits).await;
    let (reason, message) = scene.place(&everywhere("web", "s")).await.unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"B\" refuses the binding at Permit: timed out while it waited for a permit"
    );
    assert_eq!(
        calls(&book, &["Unreserve", "Rejected", "PreBind"]),
        ["B.Unreserve", "A.Unreserve", "A.Rejected", "B.Rejected"]
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_pre_bind_gives_back_and_tries_again() {
    let book = Book::default();
    let fails = |call: &Call<'_>| match call {
        Call {
            point: "PreBind",
            before: 0,
            ..
        } => Act::Fail,
        _ => Act::Pass,
    };
    let scene = scene(&book, pass, fails).await;
    scene.bare.bind(&everywhere("web", "s")).await;
    scene
        .is_told("web", "plugin \"B\" failed at PreBind: the test wants it")
        .await;
    assert_eq!(scene.placed("web").await.len(), 4);
    is_called(&book, "B.PostBind web").await;
    assert_eq!(
        calls(&book, &["PreBind", "Unreserve", "PostBind"]),
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
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_stores_the_decision() {
    let book = Book::default();
    let stores = |call: &Call<'_>| match call.point {
        "Bind" => Act::Store,
        _ => Act::Pass,
    };
    let scene = scene(&book, stores, pass).await;
    scene.bare.bind(&everywhere("web", "s")).await;
    assert_eq!(scene.placed("web").await, ["m1", "m2", "m3", "m4"]);
    is_called(&book, "B.PostBind web").await;
    let binding = scene.bare.bindings("default").get("web").await.unwrap();
    assert_eq!(binding.annotations()["stored-by"], "A");
    assert_eq!(
        calls(&book, &["Bind", "PostBind"]),
        ["A.Bind", "A.PostBind", "B.PostBind"],
        "nobody is asked after it is stored"
    );
    scene.stop().await;
}
