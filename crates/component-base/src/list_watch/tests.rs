use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::{Body, ClientBuilder, DynBody};
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt as _};

use super::*;
use crate::kube_client::response_limits::ResponseLimits;

/// The requests of a test: their paths with queries.
type Log = Arc<Mutex<Vec<String>>>;

type Answer = Response<Box<DynBody>>;

/// Returns a client of a server, and the requests that the server receives.
fn server(respond: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (Client, Log) {
    let log = Log::default();
    let (requests, respond) = (log.clone(), Arc::new(respond));
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        requests.lock().unwrap().push(uri.clone());
        let respond = respond.clone();
        let response: BoxFuture<'static, Result<_, Infallible>> =
            Box::pin(async move { Ok(respond(&uri)) });
        response
    });
    (Client::new(service, "n"), log)
}

fn text(text: impl Into<String>) -> Answer {
    answer(Full::new(Bytes::from(text.into())))
}

fn answer<B>(body: B) -> Answer
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    Response::new(Box::new(body.map_err(Into::into)))
}

fn with_status(code: u16, body: &str) -> Answer {
    let mut response = text(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

fn is_watch(uri: &str) -> bool {
    uri.contains("watch=true")
}

fn config_map(name: &str, version: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "n", "resourceVersion": version } })
}

fn list(version: &str, names: &[&str], token: &str) -> String {
    let items: Vec<Value> = names.iter().map(|name| config_map(name, "1")).collect();
    json!({ "metadata": { "resourceVersion": version, "continue": token }, "items": items })
        .to_string()
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}

/// Returns a response that sends each part after a pause. Without an end, it stays open after the last part.
fn parts(parts: Vec<(Duration, String)>, ends: bool) -> Answer {
    let sent = stream::iter(parts).then(|(pause, text)| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, Infallible>(Frame::data(Bytes::from(text)))
    });
    let open = stream::once(async move {
        if !ends {
            std::future::pending::<()>().await;
        }
        Ok(Frame::data(Bytes::new()))
    });
    answer(StreamBody::new(sent.chain(open).boxed()))
}

fn forbidden() -> Answer {
    let status = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no" });
    with_status(403, &status.to_string())
}

/// Collects the items of the stream for a time.
async fn collect(client: Client, config: Config, time: Duration) -> Vec<String> {
    let mut events = events(Api::<ConfigMap>::all(client), config);
    let mut items = Vec::new();
    let _ = tokio::time::timeout(time, async {
        while let Some(event) = events.next().await {
            items.push(match event {
                Ok(event) => event.to_string(),
                Err(error) => error.to_string(),
            });
        }
    })
    .await;
    items
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_repeated_with_growing_pauses() {
    let (client, log) = server(|_| forbidden());
    let items = collect(client, Config::default(), Duration::from_mins(1)).await;
    let requests = log.lock().unwrap().len();
    assert!((8..=12).contains(&requests), "{requests} requests");
    assert_eq!(items.len(), requests);
    assert!(
        items.iter().all(|item| item.contains("cannot list")),
        "{items:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_until_the_server_accepts_a_request() {
    let refuses = Arc::new(Mutex::new(true));
    let state = refuses.clone();
    let (client, _) = server(move |uri| match (*state.lock().unwrap(), is_watch(uri)) {
        (true, _) => forbidden(),
        (false, false) => text(list("1", &[], "")),
        (false, true) => parts(Vec::new(), false),
    });
    let (reports, mut receiver) = Reports::channel();
    assert_eq!(*receiver.borrow_and_update(), Connection::Starting);
    let config = Config {
        reports,
        ..Config::default()
    };
    let mut events = events(Api::<ConfigMap>::all(client), config);
    assert!(events.next().await.unwrap().is_err());
    let failure = Failure {
        code: Some(403),
        message: "no".to_owned(),
    };
    assert_eq!(*receiver.borrow_and_update(), Connection::Failed(failure));
    assert!(events.next().await.unwrap().is_err());
    assert!(
        !receiver.has_changed().unwrap(),
        "the same failure is reported once"
    );
    *refuses.lock().unwrap() = false;
    assert!(events.next().await.unwrap().is_ok());
    assert_eq!(*receiver.borrow_and_update(), Connection::Works);
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_repeated_with_growing_pauses() {
    let (client, log) = server(|uri| {
        if is_watch(uri) {
            forbidden()
        } else {
            text(list("1", &[], ""))
        }
    });
    let items = collect(client, Config::default(), Duration::from_mins(1)).await;
    let requests = log.lock().unwrap().len();
    assert!((9..=13).contains(&requests), "{requests} requests");
    assert_eq!(items[..2], ["Init", "InitDone"]);
}

#[tokio::test(start_paused = true)]
async fn only_a_watch_is_a_watch() {
    type Respond = fn() -> Answer;
    let responses: [(&str, Respond, &str); 7] = [
        ("empty", || text(""), "the watch ended"),
        ("redirect", || with_status(302, ""), "status 302"),
        ("no content", || with_status(204, ""), "status 204"),
        (
            "page",
            || {
                let mut page = text("<html>");
                let kind = http::HeaderValue::from_static("text/html");
                page.headers_mut().insert("content-type", kind);
                page
            },
            "content type text/html",
        ),
        (
            "page without a type",
            || text("<html><body>Log in</body></html>\n"),
            "not an event: <html>",
        ),
        (
            "list",
            || text(format!("{}\n", list("1", &["a"], ""))),
            "not an event",
        ),
        (
            "one event",
            || text(event("ADDED", &config_map("a", "2"))),
            "the watch ended",
        ),
    ];
    for (name, respond, expected) in responses {
        let (client, log) = server(move |uri| {
            if is_watch(uri) {
                respond()
            } else {
                text(list("1", &[], ""))
            }
        });
        let items = collect(client, Config::default(), Duration::from_mins(1)).await;
        let requests = log.lock().unwrap().len();
        assert!((9..=13).contains(&requests), "{name}: {requests} requests");
        let errors = items.iter().filter(|item| item.contains(expected)).count();
        assert!(errors + 1 >= requests - 1, "{name}: {items:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_watch_is_renewed_at_once() {
    let lived = Duration::from_secs(5);
    let (client, log) = server(move |uri| {
        if is_watch(uri) {
            parts(vec![(lived, event("ADDED", &config_map("a", "7")))], true)
        } else {
            text(list("1", &[], ""))
        }
    });
    let start = Instant::now();
    let items = collect(
        client,
        Config::default(),
        lived * 4 + Duration::from_secs(1),
    )
    .await;
    assert!(start.elapsed() >= lived * 4);
    assert_eq!(items[..2], ["Init", "InitDone"]);
    assert_eq!(items[2..], ["Apply(a)"; 4]);
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 6);
    assert!(log[5].contains("resourceVersion=7"), "{}", log[5]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_that_lasts_as_long_as_requested_is_healthy() {
    let config = Config {
        watch: Duration::from_secs(2),
        ..Config::default()
    };
    let lived = config.watch;
    let (client, log) = server(move |uri| {
        if is_watch(uri) {
            parts(vec![(lived, String::new())], true)
        } else {
            text(list("1", &[], ""))
        }
    });
    let items = collect(client, config, Duration::from_secs(21)).await;
    assert_eq!(items, ["Init", "InitDone"]);
    assert_eq!(log.lock().unwrap().len(), 12);
}

/// An API server of a control plane with several servers may answer a list with `resourceVersion=0` from the past.
#[tokio::test(start_paused = true)]
async fn lists_are_consistent_reads_in_pages() {
    let gone = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "old" });
    let (client, log) = server(move |uri| {
        if is_watch(uri) {
            return text(event("ADDED", &config_map("c", "9")) + &event("ERROR", &gone));
        }
        text(if uri.contains("continue=next") {
            list("5", &["b"], "")
        } else {
            list("5", &["a"], "next")
        })
    });
    let items = collect(client, Config::default(), Duration::from_millis(90)).await;
    let page = [
        "Init",
        "InitApply(a)",
        "InitApply(b)",
        "InitDone",
        "Apply(c)",
    ];
    assert_eq!(items[..5], page);
    assert!(items[5].contains("old"), "{items:?}");
    let log = log.lock().unwrap();
    assert!(log[2].contains("resourceVersion=5"), "{log:?}");
    for request in log.iter().filter(|request| !is_watch(request)) {
        assert!(request.contains("limit=500"), "{request}");
        assert!(!request.contains("resourceVersion"), "{request}");
    }
}

fn streams(uri: &str) -> bool {
    uri.contains("sendInitialEvents=true")
}

fn bookmark(version: &str) -> String {
    let annotations = json!({ "k8s.io/initial-events-end": "true" });
    event(
        "BOOKMARK",
        &json!({ "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": { "resourceVersion": version, "annotations": annotations } }),
    )
}

fn streaming() -> Config {
    Config {
        start: Start::Stream,
        ..Config::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_the_list_and_continues() {
    let (client, log) = server(|uri| {
        assert!(streams(uri), "{uri}");
        let list = event("ADDED", &config_map("a", "3"))
            + &event("ADDED", &config_map("b", "4"))
            + &event("DELETED", &config_map("b", "5"))
            + &bookmark("5");
        let change = event("MODIFIED", &config_map("a", "6"));
        parts(
            vec![(Duration::ZERO, list), (Duration::from_mins(1), change)],
            false,
        )
    });
    let items = collect(client, streaming(), Duration::from_secs(61)).await;
    let expected = [
        "Init",
        "InitApply(a)",
        "InitApply(b)",
        "Delete(b)",
        "InitDone",
        "Apply(a)",
    ];
    assert_eq!(items, expected);
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 1);
    // As for a list: a version such as 0 would allow the server to answer from the past.
    let is_consistent =
        |uri: &str| uri.contains("resourceVersion=&") || uri.ends_with("resourceVersion=");
    assert!(
        is_consistent(&log[0]) && log[0].contains("resourceVersionMatch=NotOlderThan"),
        "{log:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_its_list_is_listed() {
    type Respond = fn() -> Answer;
    let invalid = || {
        let status = json!({ "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "sendInitialEvents: Forbidden" });
        with_status(422, &status.to_string())
    };
    let servers: [(&str, Respond, usize); 5] = [
        ("refuses", invalid, 0),
        ("forbids watches", forbidden, 0),
        ("is a page", || with_status(200, "<html>"), 1),
        ("ends", || parts(Vec::new(), true), 1),
        (
            "hides the end",
            || {
                let object = event("ADDED", &config_map("a", "3"));
                parts(vec![(Duration::ZERO, object)], false)
            },
            1,
        ),
    ];
    for (name, respond, inits) in servers {
        let (client, log) = server(move |uri| {
            if streams(uri) {
                respond()
            } else if is_watch(uri) {
                parts(Vec::new(), false)
            } else {
                text(list("5", &["a"], ""))
            }
        });
        let items = collect(client, streaming(), Duration::from_secs(15)).await;
        let end = ["Init", "InitApply(a)", "InitDone"];
        assert_eq!(items[items.len() - 3..], end, "{name}: {items:?}");
        let begun = items.iter().filter(|item| *item == "Init").count();
        assert_eq!(begun, 1 + inits, "{name}: {items:?}");
        let asked = log
            .lock()
            .unwrap()
            .iter()
            .filter(|uri| streams(uri))
            .count();
        assert_eq!(asked, 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_fails_is_repeated() {
    let unreadable = json!({ "metadata": { "name": "b", "resourceVersion": "8" }, "data": 1 });
    let unavailable =
        json!({ "kind": "Status", "status": "Failure", "code": 503, "message": "starting" });
    let failures = [
        (503, unavailable.to_string(), "starting"),
        (
            429,
            unavailable.to_string().replace("503", "429"),
            "starting",
        ),
        (200, event("ADDED", &unreadable), "cannot list the objects"),
        (200, event("ERROR", &unavailable), "starting"),
    ];
    for (code, body, expected) in failures {
        let (client, _) = server(move |uri| {
            assert!(streams(uri), "{uri}");
            with_status(code, &body)
        });
        let items = collect(client, streaming(), Duration::from_mins(1)).await;
        let failed = items.iter().filter(|item| item.contains(expected)).count();
        assert!((8..=12).contains(&failed), "{code}: {items:?}");
        assert!(!items.iter().any(|item| item == "InitDone"), "{items:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_new_list() {
    let gone = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "old" });
    let (client, log) = server(move |uri| {
        if is_watch(uri) {
            text(event("ERROR", &gone))
        } else {
            text(list("5", &["a"], ""))
        }
    });
    let items = collect(client, Config::default(), Duration::from_millis(200)).await;
    let lists = log
        .lock()
        .unwrap()
        .iter()
        .filter(|uri| !is_watch(uri))
        .count();
    assert_eq!(lists, 2);
    assert_eq!(items.iter().filter(|item| *item == "Init").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_or_lists_again_after_an_outage() {
    for (after_outage, expected) in [(AfterOutage::Resume, 1), (AfterOutage::List, 2)] {
        // The connection stays open, but the server has disappeared.
        let (client, log) = server(move |uri| {
            if is_watch(uri) {
                parts(Vec::new(), false)
            } else {
                text(list("5", &["a"], ""))
            }
        });
        let config = Config {
            watch: Duration::from_secs(20),
            after_outage,
            ..Config::default()
        };
        collect(client, config, Duration::from_secs(30)).await;
        let log = log.lock().unwrap();
        let lists = log.iter().filter(|uri| !is_watch(uri)).count();
        assert_eq!(lists, expected, "{after_outage:?}: {log:?}");
        assert_eq!(log.len() - lists, 2, "{after_outage:?}: {log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_skipped() {
    let unreadable = json!({ "metadata": { "name": "b", "resourceVersion": "8" }, "data": 1 });
    let (client, _) = server(move |uri| {
        if is_watch(uri) {
            let events = event("ADDED", &unreadable) + &event("ADDED", &config_map("c", "9"));
            parts(vec![(Duration::from_secs(2), events)], false)
        } else {
            text(list("5", &[], ""))
        }
    });
    let items = collect(client, Config::default(), Duration::from_secs(3)).await;
    assert!(items[2].contains("cannot read an object"), "{items:?}");
    assert_eq!(items[3..], ["Apply(c)"]);
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_ends_the_watch() {
    let (client, log) = server(move |uri| {
        if is_watch(uri) {
            let endless = stream::repeat_with(|| {
                Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 1 << 16])))
            });
            answer(StreamBody::new(endless))
        } else {
            text(list("5", &[], ""))
        }
    });
    let items = collect(client, Config::default(), Duration::from_millis(50)).await;
    assert!(items[2].contains("longer than 16 MiB"), "{items:?}");
    assert_eq!(log.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_large_is_repeated_in_smaller_pages() {
    let log = Log::default();
    let requests = log.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        requests.lock().unwrap().push(uri.clone());
        async move {
            let is_small = uri.contains("limit=5&") || uri.ends_with("limit=5");
            if is_watch(&uri) {
                return std::future::pending().await;
            }
            let body = if is_small {
                list("5", &["a"], "")
            } else {
                " ".repeat(20 << 20)
            };
            Ok::<_, BoxError>(text(body))
        }
    });
    let client = ClientBuilder::new(service.boxed(), "n")
        .with_layer(&ResponseLimits)
        .build();
    let items = collect(client, Config::default(), Duration::from_secs(2)).await;
    assert!(items[0].contains("larger than 16 MiB"), "{items:?}");
    assert_eq!(
        items[items.len() - 3..],
        ["Init", "InitApply(a)", "InitDone"]
    );
    let log = log.lock().unwrap();
    let sizes = ["limit=500", "limit=50", "limit=5"];
    assert!(
        log.iter().zip(sizes).all(|(uri, size)| uri.contains(size)),
        "{log:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_beyond_its_limits_is_left_alone_for_a_while() {
    let limits = Limits {
        objects: 2,
        bytes: 1 << 20,
    };
    let (client, log) = server(|uri| {
        if is_watch(uri) {
            let events =
                event("ADDED", &config_map("b", "6")) + &event("ADDED", &config_map("c", "7"));
            parts(vec![(Duration::ZERO, events)], false)
        } else {
            text(list("5", &["a"], ""))
        }
    });
    let config = Config {
        budget: Some(Budget::new("m1".to_owned(), limits)),
        ..Config::default()
    };
    let items = collect(client, config, Duration::from_mins(4)).await;
    assert_eq!(items[..4], ["Init", "InitApply(a)", "InitDone", "Apply(b)"]);
    assert!(
        items[4].contains("more than 2 objects or 1 MiB"),
        "{items:?}"
    );
    assert_eq!(items.len(), 5);
    assert_eq!(log.lock().unwrap().len(), 2);
}
