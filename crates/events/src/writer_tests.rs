//! The writer against a slow, failing or forgetful server.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::{EventRecorder, Happening, Severity};

/// The state of a server.
#[derive(Default)]
struct Held {
    events: BTreeMap<String, Event>,
    writes: usize,
    under_way: usize,
    most_at_once: usize,
    /// The number of further requests that fail.
    ill: usize,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Held>>);

impl Server {
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.lock().unwrap()
    }

    /// Returns a client whose responses take `delay`.
    fn client(&self, delay: Duration) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                {
                    let mut held = server.held();
                    held.writes += 1;
                    held.under_way += 1;
                    held.most_at_once = held.most_at_once.max(held.under_way);
                }
                tokio::time::sleep(delay).await;
                let (parts, body) = request.into_parts();
                let sent = body.collect_bytes().await?;
                let mut held = server.held();
                held.under_way -= 1;
                let (code, answer) = held.answer(&parts.method, parts.uri.path(), &sent);
                Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()))
                    .map_err(tower::BoxError::from)
            }
        });
        kube::Client::new(service, "default")
    }

    fn counts(&self) -> Vec<(String, i32)> {
        let held = self.held();
        let events = held.events.values();
        events
            .map(|event| {
                let message = event.message.clone().unwrap_or_default();
                (message, event.count.unwrap_or_default())
            })
            .collect()
    }
}

impl Held {
    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let refused = |code: u16| {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": code, "reason": "", "message": "no" });
            (code, status)
        };
        if self.ill > 0 {
            self.ill -= 1;
            return refused(503);
        }
        if *method == Method::POST {
            let event: Event = serde_json::from_slice(body).unwrap();
            let name = event.metadata.name.clone().unwrap();
            self.events.insert(name, event.clone());
            return (201, serde_json::to_value(event).unwrap());
        }
        let name = path.rsplit('/').next().unwrap();
        let Some(event) = self.events.get_mut(name) else {
            return refused(404);
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

fn happening(name: &str, message: &str) -> Happening {
    Happening {
        object: ObjectReference {
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        },
        severity: Severity::Normal,
        reason: "Test",
        message: message.to_owned(),
    }
}

/// Records these events and waits until they are written.
async fn tell(server: &Server, happenings: impl IntoIterator<Item = Happening>) {
    let (recorder, writer) = EventRecorder::new(server.client(Duration::from_millis(10)), "test");
    for happening in happenings {
        recorder.record(happening);
    }
    drop(recorder);
    writer.run(CancellationToken::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_few_events_are_written_at_a_time() {
    let server = Server::default();
    let all = (0..100).map(|index| happening(&format!("o{index}"), "a"));
    tell(&server, all).await;
    assert_eq!(server.held().most_at_once, AT_ONCE);
    assert_eq!(server.held().events.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn repetitions_cost_few_writes() {
    let server = Server::default();
    tell(&server, (0..100).map(|_| happening("o", "a"))).await;
    assert_eq!(server.counts(), [("a".to_owned(), 100)]);
    let writes = server.held().writes;
    assert_eq!(writes, 2, "the event, and its count");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_sent_again_while_the_server_is_not_well() {
    let server = Server::default();
    server.held().ill = 5;
    tell(&server, [happening("o", "a")]).await;
    assert_eq!(server.counts(), [("a".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_created_again_as_it_was_and_counted() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    recorder.record(happening("o", "a"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = std::mem::take(&mut server.held().events);
    recorder.record(happening("o", "a"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    drop(recorder);
    writing.await.unwrap();
    assert_eq!(server.counts(), [("a".to_owned(), 2)]);
    let held = server.held();
    let (before, after) = (before.first_key_value(), held.events.first_key_value());
    let (before, after) = (before.unwrap(), after.unwrap());
    assert_eq!(before.0, after.0);
    assert_eq!(before.1.first_timestamp, after.1.first_timestamp);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_counted_with_what_can_be() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    server.held().ill = 12;
    recorder.record(happening("o", "a"));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(server.counts(), []);
    recorder.record(happening("o", "a"));
    drop(recorder);
    writing.await.unwrap();
    assert_eq!(server.counts(), [("a".to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn words_that_change_for_hours_do_not_fill_the_server() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    for n in 1..=720 {
        recorder.record(happening("o", &format!("try {n} failed")));
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    drop(recorder);
    writing.await.unwrap();
    assert!(server.held().writes <= 25 + 24);
    let mut counts = server.counts();
    counts.sort_unstable();
    assert_eq!(counts.len(), 10);
    // The message is that of the last write.
    let (message, count) = &counts[0];
    let latest = format!("(combined from similar events): try {} failed", count + 9);
    assert_eq!(*message, latest);
}

#[tokio::test(start_paused = true)]
async fn an_event_says_who_tells_it() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "scheduler");
    recorder.record(happening("a", "a"));
    recorder.of("kubelet").on("n1").record(happening("b", "a"));
    drop(recorder);
    writer.run(CancellationToken::new()).await;
    let held = server.held();
    let said: Vec<_> = held
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
    assert_eq!(said, expected);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_written_at_the_end_but_not_for_ever() {
    for (delay, expected) in [
        (Duration::from_millis(10), 100),
        (Duration::from_hours(1), 0),
    ] {
        let server = Server::default();
        let (recorder, writer) = EventRecorder::new(server.client(delay), "test");
        for index in 0..100 {
            recorder.record(happening(&format!("o{index}"), "a"));
        }
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        writer.run(shutdown).await;
        assert_eq!(server.held().events.len(), expected);
        // Events after the shutdown are not awaited.
        recorder.record(happening("late", "a"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_dropped_without_waiting() {
    let server = Server::default();
    let client = server.client(Duration::ZERO);
    let (recorder, writer) = EventRecorder::with_backlog(client, "test", 3);
    for index in 0..10 {
        recorder.record(happening(&format!("o{index}"), "a"));
    }
    drop(recorder);
    writer.run(CancellationToken::new()).await;
    assert_eq!(server.held().events.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn events_leave_way_to_urgent_work() {
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    recorder.set_busy(true);
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    for index in 0..10 {
        recorder.record(happening(&format!("o{index}"), "a"));
    }
    tokio::time::sleep(LONGEST_YIELD * 5 + LONGEST_YIELD / 2).await;
    assert_eq!(server.held().events.len(), 5);
    recorder.set_busy(false);
    drop(recorder);
    writing.await.unwrap();
    assert_eq!(server.held().events.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn each_write_waits_for_its_turn() {
    struct Slow;
    impl Pace for Slow {
        fn turn(&self) -> BoxFuture<'_, ()> {
            Box::pin(tokio::time::sleep(Duration::from_secs(10)))
        }
    }
    let server = Server::default();
    let (recorder, writer) = EventRecorder::new(server.client(Duration::ZERO), "test");
    recorder.record(happening("o", "a"));
    drop(recorder);
    let began = Instant::now();
    let writer = writer.with_pace(Arc::new(Slow));
    writer.run(CancellationToken::new()).await;
    assert!(began.elapsed() >= Duration::from_secs(10));
}
