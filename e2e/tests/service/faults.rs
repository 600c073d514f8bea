//! What goes wrong between the scheduler and its API server, and that nothing comes of it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_e2e::eventually::never;
use berth_e2e::proxy::{Fault, RecordedRequest};
use futures::StreamExt as _;
use http::StatusCode;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::objects::{binding, cluster, on};
use crate::scene::Scene;
use crate::watching::{is_settled, scheduled};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn internal_errors() {
    let mut scene = Scene::start().await;
    scene.settled().await;
    scene.proxy.rule(|asked| {
        if asked.is_watch() || asked.number % 4 == 0 {
            Fault::None
        } else {
            Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR, None)
        }
    });
    scene.add("late", 30).await;
    scene.asks(30, RecordedRequest::writes_a_binding).await;
    scene.proxy.heal();
    scene.recovers("three answers of four are 500").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_patience() {
    let mut scene = Scene::start().await;
    scene.settled().await;
    let begins = scene.proxy.requests().len();
    scene.proxy.rule(|asked| {
        if asked.writes_a_binding() {
            Fault::Answer(StatusCode::TOO_MANY_REQUESTS, Some(2))
        } else {
            Fault::None
        }
    });
    scene.add("late", 30).await;
    scene.asks(20, RecordedRequest::writes_a_binding).await;
    scene.proxy.heal();
    let asked = scene.proxy.requests();
    scene.settled().await;
    let mut first: HashMap<String, Instant> = HashMap::new();
    for asked in asked[begins..]
        .iter()
        .filter(|asked| asked.writes_a_binding())
    {
        if let Some(before) = first.insert(asked.path.clone(), asked.at) {
            let pause = asked.at - before;
            assert!(
                pause >= Duration::from_secs(2),
                "asked again after {pause:?}"
            );
        }
    }
    scene.recovers("429 with Retry-After: 2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_other_writers() {
    let mut scene = Scene::start_with(|_| Fault::Late(Duration::from_millis(5))).await;
    let api = scene.bare.bindings("default");
    let storm = tokio::spawn(async move {
        for round in 0..40 {
            let stored = api.list(&Default::default()).await.unwrap().items;
            let mark =
                Patch::Merge(json!({ "metadata": { "annotations": { "by": round.to_string() } } }));
            let status = Patch::Merge(json!({ "status": { "aggregatedStatus": [
                { "clusterName": "m1", "applied": round % 2 == 0 } ] } }));
            futures::stream::iter(&stored)
                .for_each_concurrent(4, |binding| {
                    let (api, mark, status) = (&api, &mark, &status);
                    async move {
                        let name = binding.name_any();
                        let parameters = PatchParams::default();
                        api.patch(&name, &parameters, mark).await.unwrap();
                        api.patch_status(&name, &parameters, status).await.unwrap();
                    }
                })
                .await;
        }
    });
    scene.add("late", 30).await;
    storm.await.unwrap();
    scene
        .recovers("others write each binding 80 times meanwhile")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_cut_in_the_middle_of_a_line() {
    let mut scene = Scene::start_with(|asked| {
        if asked.is_watch() {
            Fault::CutInLine(asked.number % 4)
        } else {
            Fault::None
        }
    })
    .await;
    for round in 0..5 {
        scene.add(&format!("late{round}-"), 6).await;
        scene.asks(3, RecordedRequest::is_watch).await;
    }
    scene.proxy.heal();
    scene
        .recovers("every watch is cut in the middle of a line")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_are_gone() {
    let mut scene = Scene::start_with(|asked| {
        if asked.is_watch() {
            Fault::Expired
        } else {
            Fault::None
        }
    })
    .await;
    scene.add("late", 30).await;
    scene.asks(6, RecordedRequest::is_watch).await;
    scene.proxy.heal();
    scene.recovers("every watch ends with 410 Gone").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer() {
    let mut scene = Scene::start().await;
    scene.settled().await;
    scene.proxy.rule(|_| Fault::Silence);
    scene.add("late", 30).await;
    scene.asks(45, |_| true).await;
    scene.proxy.heal();
    scene.recovers("no answer at all").await;
}

/// With the limits that a scheduler has by itself: each write is given up after 15 s, and tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_minute_without_an_answer() {
    const LATE: usize = 10;
    let mut scene = Scene::start_patient().await;
    scene.settled().await;
    let began = Instant::now();
    scene.proxy.rule(|_| Fault::Silence);
    scene.add("late", 10).await;
    // The third try of a binding comes after two that were given up.
    scene
        .asks(LATE + 1, RecordedRequest::writes_a_binding)
        .await;
    scene.asks(LATE, RecordedRequest::writes_a_binding).await;
    let silent = began.elapsed();
    assert!(silent >= Duration::from_secs(30), "{silent:?}");
    scene.proxy.heal();
    scene.recovers("half a minute without an answer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_whose_other_end_has_vanished() {
    let mut scene = Scene::start().await;
    scene.settled().await;
    scene.proxy.freeze();
    scene.add("late", 30).await;
    scene.recovers("half-closed connections").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_restarted() {
    let mut scene = Scene::start().await;
    // It waits for a cluster that joins while the server is away.
    let bindings = scene.bare.bindings("default");
    scene.bare.bind(&binding("homesick", 1, on("m9"))).await;
    scene.settled().await;
    berth_e2e::eventually("the binding to wait", async || {
        let stored = bindings.get("homesick").await.unwrap();
        let waits = scheduled(&stored).is_some_and(|c| c.reason == "NoClusterFit");
        if waits { Ok(()) } else { Err("not yet") }
    })
    .await;
    scene.proxy.down().await;
    berth_e2e::bare::join(&scene.bare.client, &cluster("m9", 1)).await;
    scene.add("late", 30).await;
    scene.proxy.back_up();
    let began = Instant::now();
    berth_e2e::eventually("the waiting binding to be placed", async || {
        if is_settled(&bindings.get("homesick").await.unwrap()) {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    println!(
        "a cluster that joined during the outage is used after {:.1?}",
        began.elapsed()
    );
    scene.recovers("the server restarts").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_answers() {
    let mut scene = Scene::start_with(|_| Fault::Late(Duration::from_millis(200))).await;
    scene.add("late", 30).await;
    scene.recovers("every answer takes 200 ms").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_lost() {
    let mut scene = Scene::start().await;
    scene.settled().await;
    scene.proxy.rule(|asked| match asked.number % 2 {
        0 if !asked.is_watch() => Fault::LoseAnswer,
        _ => Fault::None,
    });
    scene.add("late", 30).await;
    scene.asks(60, |_| true).await;
    scene.proxy.heal();
    scene.recovers("every other answer is lost").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_of_one_name() {
    let mut scene = Scene::start_with(|_| Fault::Late(Duration::from_millis(3))).await;
    let other = berth_e2e::Running::start(crate::scene::impatient(), scene.proxy.client());
    scene.add("late", 60).await;
    scene.settled().await;
    let writes = scene.proxy.count(RecordedRequest::writes_a_binding);
    never(
        "a write after all is placed",
        Duration::from_millis(300),
        async || match scene.proxy.count(RecordedRequest::writes_a_binding) - writes {
            more if more <= 64 => Ok(()),
            more => Err(format!("{more} more writes")),
        },
    )
    .await;
    other.stop().await.unwrap();
    scene.recovers("two schedulers of one name").await;
}
