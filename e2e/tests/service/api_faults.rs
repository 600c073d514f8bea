//! Tests of faults between the scheduler and the API server. After each fault, the scheduler has placed each binding
//! with exactly one write.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_e2e::proxy::{Fault, RecordedRequest};
use berth_scheduler::Timeouts;
use futures::StreamExt as _;
use http::StatusCode;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::assertions::{is_settled, scheduled};
use crate::fault_fixture::FaultFixture;
use crate::objects::{binding, cluster, on_cluster};

/// Except for watches, three of four requests get a response with status 500.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn internal_errors_are_retried() {
    let mut fixture = FaultFixture::start().await;
    fixture.wait_until_placed().await;
    fixture.proxy.rule(|request| {
        if request.is_watch() || request.number % 4 == 0 {
            Fault::None
        } else {
            Fault::Respond(StatusCode::INTERNAL_SERVER_ERROR, None)
        }
    });
    fixture.add("late", 30).await;
    fixture
        .wait_for_requests(30, RecordedRequest::writes_a_binding)
        .await;
    fixture.proxy.heal();
    fixture
        .assert_recovers("three of four responses are 500")
        .await;
}

/// Writes of bindings get a response with status 429 and `Retry-After: 2`. At least two seconds pass before each retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_is_respected() {
    let mut fixture = FaultFixture::start().await;
    fixture.wait_until_placed().await;
    let requests_before = fixture.proxy.requests().len();
    fixture.proxy.rule(|request| {
        if request.writes_a_binding() {
            Fault::Respond(StatusCode::TOO_MANY_REQUESTS, Some(2))
        } else {
            Fault::None
        }
    });
    fixture.add("late", 30).await;
    fixture
        .wait_for_requests(20, RecordedRequest::writes_a_binding)
        .await;
    fixture.proxy.heal();
    let requests = fixture.proxy.requests();
    fixture.wait_until_placed().await;
    let mut previous: HashMap<String, Instant> = HashMap::new();
    for request in requests[requests_before..]
        .iter()
        .filter(|request| request.writes_a_binding())
    {
        if let Some(before) = previous.insert(request.path.clone(), request.at) {
            let pause = request.at - before;
            assert!(
                pause >= Duration::from_secs(2),
                "the scheduler retried a write after only {pause:?}"
            );
        }
    }
    fixture.assert_recovers("429 with Retry-After: 2").await;
}

/// Another client repeatedly writes each binding and its status while the scheduler places it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicting_writes_are_retried() {
    let mut fixture = FaultFixture::start_with(|_| Fault::Delay(Duration::from_millis(5))).await;
    let api = fixture.bare.bindings("default");
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
    fixture.add("late", 30).await;
    storm.await.unwrap();
    fixture
        .assert_recovers("other clients write each binding 40 times meanwhile")
        .await;
}

/// The connection of each watch breaks within a line of the response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_cut_in_the_middle_of_a_line_are_restarted() {
    let mut fixture = FaultFixture::start_with(|request| {
        if request.is_watch() {
            Fault::CutInLine(request.number % 4)
        } else {
            Fault::None
        }
    })
    .await;
    for round in 0..5 {
        fixture.add(&format!("late{round}-"), 6).await;
        fixture
            .wait_for_requests(3, RecordedRequest::is_watch)
            .await;
    }
    fixture.proxy.heal();
    fixture
        .assert_recovers("every watch is cut in the middle of a line")
        .await;
}

/// The API server ends each watch with status 410.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_watches_are_restarted() {
    let mut fixture = FaultFixture::start_with(|request| {
        if request.is_watch() {
            Fault::Expired
        } else {
            Fault::None
        }
    })
    .await;
    fixture.add("late", 30).await;
    fixture
        .wait_for_requests(6, RecordedRequest::is_watch)
        .await;
    fixture.proxy.heal();
    fixture
        .assert_recovers("every watch ends with 410 Gone")
        .await;
}

/// No new request gets a response, and no new watch gets an event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_requests_time_out_and_are_retried() {
    let mut fixture = FaultFixture::start().await;
    fixture.wait_until_placed().await;
    fixture.proxy.rule(|_| Fault::Silence);
    fixture.add("late", 30).await;
    fixture.wait_for_requests(45, |_| true).await;
    fixture.proxy.heal();
    fixture.assert_recovers("no response at all").await;
}

/// The watches that are already open still receive new bindings. Each write times out and is retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_recovers_from_silence_that_outlasts_several_attempts() {
    const LATE: usize = 10;
    let defaults = Timeouts::default();
    assert_eq!(
        defaults.request.as_secs(),
        15,
        "the default time limit of requests has changed: update docs/compatibility.md"
    );
    let timeouts = Timeouts {
        request: Duration::from_secs(1),
        ..defaults
    };
    let mut fixture = FaultFixture::start_with_timeouts(timeouts).await;
    fixture.wait_until_placed().await;
    let began = Instant::now();
    fixture.proxy.rule(|_| Fault::Silence);
    fixture.add("late", 10).await;
    // The third attempt to write a binding follows two timeouts.
    fixture
        .wait_for_requests(LATE + 1, RecordedRequest::writes_a_binding)
        .await;
    fixture
        .wait_for_requests(LATE, RecordedRequest::writes_a_binding)
        .await;
    let silent = began.elapsed();
    assert!(silent >= 2 * timeouts.request, "{silent:?}");
    fixture.proxy.heal();
    fixture
        .assert_recovers("no response to three attempts")
        .await;
}

/// Existing connections no longer transmit data. The scheduler opens new connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_connections_are_replaced() {
    let mut fixture = FaultFixture::start().await;
    fixture.wait_until_placed().await;
    fixture.proxy.freeze();
    fixture.add("late", 30).await;
    fixture.assert_recovers("half-closed connections").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_recovers_from_a_server_restart() {
    let mut fixture = FaultFixture::start().await;
    // This binding waits for a cluster that is created during the outage.
    let bindings = fixture.bare.bindings("default");
    fixture
        .bare
        .bind(&binding("for-a-join", 1, on_cluster("m9")))
        .await;
    fixture.wait_until_placed().await;
    berth_e2e::eventually("the binding to wait", async || {
        let stored = bindings.get("for-a-join").await.unwrap();
        let waits = scheduled(&stored).is_some_and(|c| c.reason == "NoClusterFit");
        if waits { Ok(()) } else { Err("not yet") }
    })
    .await;
    fixture.proxy.down().await;
    berth_e2e::bare_control_plane::join(&fixture.bare.client, &cluster("m9", 1)).await;
    fixture.add("late", 30).await;
    fixture.proxy.back_up();
    let began = Instant::now();
    berth_e2e::eventually("the waiting binding to be placed", async || {
        if is_settled(&bindings.get("for-a-join").await.unwrap()) {
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
    fixture.assert_recovers("the server restarts").await;
}

/// Each response takes 200 milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_responses_delay_but_do_not_fail_scheduling() {
    let mut fixture = FaultFixture::start_with(|_| Fault::Delay(Duration::from_millis(200))).await;
    fixture.add("late", 30).await;
    fixture.assert_recovers("every response takes 200 ms").await;
}

/// The API server executes all requests. The response to every second request is lost, unless the request is a watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_responses_do_not_duplicate_writes() {
    let mut fixture = FaultFixture::start().await;
    fixture.wait_until_placed().await;
    fixture.proxy.rule(|request| match request.number % 2 {
        0 if !request.is_watch() => Fault::LoseResponse,
        _ => Fault::None,
    });
    fixture.add("late", 30).await;
    fixture.wait_for_requests(60, |_| true).await;
    fixture.proxy.heal();
    fixture
        .assert_recovers("every second response is lost")
        .await;
}

/// Both schedulers write through the same slow proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_with_one_name_place_each_binding_once() {
    let mut fixture = FaultFixture::start_with(|_| Fault::Delay(Duration::from_millis(3))).await;
    let other = berth_e2e::RunningScheduler::start(
        crate::fault_fixture::short_timeouts(),
        fixture.proxy.client(),
    );
    fixture.add("late", 60).await;
    fixture.wait_until_placed().await;
    let writes = fixture.proxy.count(RecordedRequest::writes_a_binding);
    // The stopped scheduler completes its running writes before it ends. The remaining scheduler completes its earlier
    // writes before it places the marker.
    other.stop().await.unwrap();
    fixture.add("marker", 1).await;
    fixture.wait_until_placed().await;
    let later = fixture.proxy.count(RecordedRequest::writes_a_binding) - writes;
    // The limit allows for the running writes of one scheduler (at most 64), and for two writes of the marker: its
    // clusters and its status.
    assert!(later <= 66, "{later} writes after all bindings were placed");
    fixture
        .assert_recovers("two schedulers with one name")
        .await;
}
