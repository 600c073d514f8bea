//! A fuzz target for requests to the embedded API server. An input is a text with the method and the path in the first
//! line, the headers in further lines, an empty line, and the body.
//!
//! No request may cause a panic, and each request must get a response in time.

#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use berth_apiserver::{Server, ServerConfig};
use http::Request;
use kube::client::Body;
use libfuzzer_sys::{Corpus, fuzz_target};
use tokio::runtime::Runtime;

/// Time limit for a response.
const TIMEOUT: Duration = Duration::from_secs(10);

struct Instance {
    runtime: Runtime,
    client: kube::Client,
    _server: Server,
}

static INSTANCE: LazyLock<Instance> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let (server, client) = runtime.block_on(async {
        let server = Server::start(ServerConfig::default()).await;
        let server = server.expect("a server");
        let client = server.client();
        (server, client)
    });
    Instance {
        runtime,
        client,
        _server: server,
    }
});

/// Returns the request in an input, or `None` if the input is not a valid request or may be a watch.
fn request(input: &[u8]) -> Option<Request<Body>> {
    let end = input.windows(2).position(|two| two == b"\n\n");
    let (head, body) = match end {
        Some(end) => (&input[..end], &input[end + 2..]),
        None => (input, &input[input.len()..]),
    };
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    // A watch would last until the time limit.
    if !path.starts_with('/') || path.contains("watch") {
        return None;
    }
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name.trim(), value.trim());
    }
    request.body(Body::from(body.to_vec())).ok()
}

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some(request) = request(input) else {
        return Corpus::Reject;
    };
    let Instance {
        runtime, client, ..
    } = &*INSTANCE;
    let response =
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, client.send(request)).await });
    assert!(response.is_ok(), "no response within {TIMEOUT:?}");
    Corpus::Keep
});
