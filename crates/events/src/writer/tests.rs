//! Tests of the writer with a server that is slow, fails or loses events.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::{Event as ApiEvent, ObjectReference};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::{Event, EventRecorder, Severity};

/// The state of a test server.
#[derive(Default)]
struct State {
    events: BTreeMap<String, ApiEvent>,
    writes: usize,
    concurrent: usize,
    max_concurrent: usize,
    /// The number of further requests that fail.
    failures: usize,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

impl Server {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Returns a client whose responses take `delay`.
    fn client(&self, delay: Duration) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                {
                    let mut state = server.state();
                    state.writes += 1;
                    state.concurrent += 1;
                    state.max_concurrent = state.max_concurrent.max(state.concurrent);
                }
                tokio::time::sleep(delay).await;
                let (parts, body) = request.into_parts();
                let sent = body.collect_bytes().await?;
                let mut state = server.state();
                state.concurrent -= 1;
                let (code, answer) = state.answer(&parts.method, parts.uri.path(), &sent);
                Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()))
                    .map_err(tower::BoxError::from)
            }
        });
        kube::Client::new(service, "default")
    }

    fn counts(&self) -> Vec<(String, i32)> {
        let state = self.state();
        let events = state.events.values();
        events
            .map(|event| {
                let message = event.message.clone().unwrap_or_default();
                (message, event.count.unwrap_or_default())
            })
            .collect()
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let rejected = |code: u16| {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": code, "reason": "", "message": "no" });
            (code, status)
        };
        if self.failures > 0 {
            self.failures -= 1;
            return rejected(503);
        }
        if *method == Method::POST {
            let event: ApiEvent = serde_json::from_slice(body).unwrap();
            let name = event.metadata.name.clone().unwrap();
            self.events.insert(name, event.clone());
            return (201, serde_json::to_value(event).unwrap());
        }
        let name = path.rsplit('/').next().unwrap();
        let Some(event) = self.events.get_mut(name) else {
            return rejected(404);
        };
        let mut changed = serde_json::to_value(&*event).unwrap();
        let merged: Value = serde_json::from_slice(body).unwrap();
        for (field, value) in merged.as_object().unwrap() {
            changed[field] = value.clone();
        }
        *event = serde_json::from_value(changed.clone()).unwrap();
        (200, changed)
    }
}

fn event_of(name: &str, message: &str) -> Event {
    Event {
        object: ObjectReference {
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        },
        severity: Severity::Normal,
        reason: "Test",
        message: message.to_owned(),
    }
}

/// Records these events, and waits until they are written.
async fn record(server: &Server, events: impl IntoIterator<Item = Event>) {
    let (recorder, writer) = EventRecorder::new(server.client(Duration::from_millis(10)), "test");
    for event in events {
        recorder.record(event);
    }
    drop(recorder);
    writer.run(CancellationToken::new()).await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_are_limited() {
    let server = Server::default();
    let all = (0..100).map(|index| event_of(&format!("o{index}"), "a"));
    record(&server, all).await;
    assert_eq!(server.state().max_concurrent, MAX_CONCURRENT);
    assert_eq!(server.state().events.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn repetitions_need_few_writes() {
    let server = Server::default();
    record(&server, (0..100).map(|_| event_of("o", "a"))).await;
    assert_eq!(server.counts(), [("a".to_owned(), 100)]);
    let writes = server.state().writes;
    assert_eq!(writes, 2, "one write of the event, and one of its count");
}

#[tokio::test(start_paused = true)]
async fn writes_are_retried_while_the_server_fails() {
    let server = Server::default();
    server.state().failures = 5;
    record(&server, [event_of("o", "a")]).await;
    assert_eq!(server.counts(), [("a".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn expired_event_is_recreated_with_its_count() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    recorder.record(event_of("o", "a"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = std::mem::take(&mut server.state().events);
    recorder.record(event_of("o", "a"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    drop(recorder);
    writing.await.unwrap();
    assert_eq!(server.counts(), [("a".to_owned(), 2)]);
    let state = server.state();
    let (before, after) = (before.first_key_value(), state.events.first_key_value());
    let (before, after) = (before.unwrap(), after.unwrap());
    assert_eq!(before.0, after.0);
    assert_eq!(before.1.first_timestamp, after.1.first_timestamp);
}

#[tokio::test(start_paused = true)]
async fn the_next_write_counts_the_event_of_a_failed_write() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    server.state().failures = 12;
    recorder.record(event_of("o", "a"));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(server.counts(), []);
    recorder.record(event_of("o", "a"));
    drop(recorder);
    writing.await.unwrap();
    assert_eq!(server.counts(), [("a".to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn changing_messages_do_not_flood_the_server() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    for n in 1..=720 {
        recorder.record(event_of("o", &format!("try {n} failed")));
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    drop(recorder);
    writing.await.unwrap();
    assert!(server.state().writes <= 25 + 24);
    let mut counts = server.counts();
    counts.sort_unstable();
    assert_eq!(counts.len(), 10);
    // The message comes from the last write.
    let (message, count) = &counts[0];
    let latest = format!("(combined from similar events): try {} failed", count + 9);
    assert_eq!(*message, latest);
}

#[tokio::test(start_paused = true)]
async fn events_carry_component_and_host() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "scheduler");
    recorder.record(event_of("a", "a"));
    recorder.of("kubelet").on("n1").record(event_of("b", "a"));
    drop(recorder);
    writer.run(CancellationToken::new()).await;
    let state = server.state();
    let written: Vec<_> = state
        .events
        .values()
        .map(|event| {
            let source = event.source.clone().unwrap();
            let reporting = (&event.reporting_component, &event.reporting_instance);
            let reporting = (reporting.0.clone(), reporting.1.clone());
            (source.component, source.host, reporting.0, reporting.1)
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    let expected = [
        (text("scheduler"), None, text("scheduler"), text("")),
        (text("kubelet"), text("n1"), text("kubelet"), text("n1")),
    ];
    assert_eq!(written, expected);
}

#[tokio::test(start_paused = true)]
async fn queued_events_are_written_after_shutdown_within_a_timeout() {
    for (delay, expected) in [
        (Duration::from_millis(10), 100),
        (Duration::from_hours(1), 0),
    ] {
        let server = Server::default();
        let (recorder, writer) = EventRecorder::new(server.client(delay), "test");
        for index in 0..100 {
            recorder.record(event_of(&format!("o{index}"), "a"));
        }
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        writer.run(shutdown).await;
        assert_eq!(server.state().events.len(), expected);
        // A recorder accepts events after the shutdown, and drops them.
        recorder.record(event_of("late", "a"));
    }
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_queue_are_dropped() {
    let server = Server::default();
    let client = server.client(Duration::ZERO);
    let (recorder, writer) = EventRecorder::with_queue_length(client, "test", 3);
    for index in 0..10 {
        recorder.record(event_of(&format!("o{index}"), "a"));
    }
    drop(recorder);
    writer.run(CancellationToken::new()).await;
    assert_eq!(server.state().events.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn writes_yield_to_urgent_work() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    recorder.set_busy(true);
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    for index in 0..10 {
        recorder.record(event_of(&format!("o{index}"), "a"));
    }
    tokio::time::sleep(MAX_YIELD * 5 + MAX_YIELD / 2).await;
    assert_eq!(server.state().events.len(), 5);
    recorder.set_busy(false);
    drop(recorder);
    writing.await.unwrap();
    assert_eq!(server.state().events.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn writes_wait_for_the_rate_limiter() {
    struct Slow;
    impl RateLimiter for Slow {
        fn acquire(&self) -> BoxFuture<'_, ()> {
            Box::pin(tokio::time::sleep(Duration::from_secs(10)))
        }
    }
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    recorder.record(event_of("o", "a"));
    drop(recorder);
    let began = Instant::now();
    let writer = writer.with_rate_limiter(Arc::new(Slow));
    writer.run(CancellationToken::new()).await;
    assert!(began.elapsed() >= Duration::from_secs(10));
}
