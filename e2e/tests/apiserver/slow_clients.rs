//! Clients that do not read the events of their watch: they do not delay other clients.

use std::time::Duration;

use futures::future::join_all;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::harness::objects::{Objects, map, version};
use crate::harness::server;
use crate::harness::server::TestServer;

/// The time limit of a read from a connection.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// Opens a watch on a separate connection. Reads only the head of the response.
async fn watch(server: &TestServer, path: &str) -> Body {
    let mut config = server.config().await;
    config.read_timeout = None;
    let client = server::client_of(config);
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// Reads `count` events of a watch, or fewer if the watch ends before.
async fn read_events(body: &mut Body, count: usize) -> Vec<Value> {
    let (mut text, mut found) = (Vec::new(), Vec::new());
    while found.len() < count {
        let frame = tokio::time::timeout(READ_TIMEOUT, body.frame())
            .await
            .unwrap();
        let Some(Ok(frame)) = frame else { break };
        for byte in frame.into_data().unwrap_or_default() {
            if byte == b'\n' {
                found.push(serde_json::from_slice(&text).unwrap());
                text.clear();
            } else {
                text.push(byte);
            }
        }
    }
    found
}

/// Checks that writes and another watch proceed while fifty clients leave large events unread.
#[tokio::test]
async fn fifty_unread_watches_do_not_delay_others() {
    const WATCHES: usize = 50;
    const CHANGES: usize = 60;
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let first = maps.create(&map("a", json!({}), json!({}))).await;
    let path = format!(
        "/api/v1/namespaces/{namespace}/configmaps?watch=true&timeoutSeconds=100&resourceVersion={}",
        version(&first)
    );
    let mut unread = join_all((0..WATCHES).map(|_| watch(&server, &path))).await;
    let mut read = watch(&server, &path).await;
    // The changes together exceed the buffers between the server and an idle client.
    let filler = "x".repeat(150 << 10);
    let write = async {
        let mut versions = Vec::new();
        for change in 0..CHANGES {
            let large = json!({"data": {"k": format!("{change} {filler}")}});
            let response = maps.merge("/a", &large).await;
            assert_eq!(response.code, 200, "{}", response.text);
            versions.push(version(&response.json).to_owned());
        }
        versions
    };
    let (versions, seen) = tokio::join!(write, read_events(&mut read, CHANGES));
    let version_of = |event: &Value| version(&event["object"]).to_owned();
    let received: Vec<String> = seen.iter().map(version_of).collect();
    assert_eq!(received, versions, "events of the watch that is read");
    // A client that starts to read late receives the first events without a gap, until the server has closed the
    // watch.
    drop(unread.split_off(2));
    for mut late in unread {
        let events = read_events(&mut late, CHANGES).await;
        let changes = events.iter().filter(|event| event["type"] != "ERROR");
        let received: Vec<String> = changes.map(version_of).collect();
        assert!(
            !received.is_empty() && versions.starts_with(&received),
            "{received:?}"
        );
    }
}
