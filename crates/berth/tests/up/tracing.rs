//! Tests of `berth up --tracing-endpoint`, which sends traces to an OpenTelemetry collector.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use berth_test_requirements::needs;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::program::{Up, berth, line, root, until};

/// A collector that stores the received spans.
struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let spans = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&spans);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let mut reader = BufReader::new(connection.unwrap());
                while let Some(request) = read_request(&mut reader) {
                    let resources = request.resource_spans.into_iter();
                    let scopes = resources.flat_map(|resource| resource.scope_spans);
                    let mut all = received.lock().unwrap();
                    all.extend(scopes.flat_map(|scope| scope.spans));
                    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    reader.get_mut().write_all(response).unwrap();
                }
            }
        });
        Self { endpoint, spans }
    }

    fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }
}

/// Reads a request of the exporter. Returns `None` at the end of the connection.
fn read_request(reader: &mut impl std::io::BufRead) -> Option<ExportTraceServiceRequest> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    assert!(first.starts_with("POST /v1/traces "), "{first}");
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(text) = header.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ExportTraceServiceRequest::decode(body.as_slice()).unwrap())
}

fn attribute(span: &Span, key: &str) -> String {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.clone()) {
        Some(Value::StringValue(text)) => text,
        _ => String::new(),
    }
}

/// Returns the number of child spans of a span, keyed by the name and the attribute `cluster` of the child, such as
/// `apply_work member1`.
fn children(spans: &[Span], root: &Span) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for span in spans {
        if span.trace_id == root.trace_id && span.parent_span_id == root.span_id {
            let name = format!("{} {}", span.name, attribute(span, "cluster"));
            *names.entry(name.trim().to_owned()).or_default() += 1;
        }
    }
    names
}

#[needs(kubectl)]
#[test]
fn one_trace_contains_the_spans_from_the_policy_to_the_members() {
    let collector = Collector::start();
    let home = Arc::new(tempfile::tempdir().unwrap());
    let endpoint = format!("--tracing-endpoint={}", collector.endpoint);
    let mut command = berth(home.path(), &["up", "--port=0", &endpoint]);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    let up = Up::with(home, command);
    let example = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", example.to_str().unwrap()]);
    let trace = until("the whole trace", || {
        let spans = collector.spans();
        let mut roots = spans.iter().filter(|span| span.name == "apply_policy");
        let complete = roots.find(|root| {
            let names = children(&spans, root);
            [
                "schedule",
                "sync_works",
                "apply_work member1",
                "apply_work member2",
            ]
            .iter()
            .all(|name| names.contains_key(*name))
        });
        let Some(root) = complete else {
            let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
            return Err(format!("{names:?}"));
        };
        let same = |span: &&Span| span.trace_id == root.trace_id;
        Ok(spans.iter().filter(same).cloned().collect::<Vec<_>>())
    });
    let root = trace
        .iter()
        .find(|span| span.name == "apply_policy")
        .unwrap();
    assert!(root.parent_span_id.is_empty(), "{root:?}");
    assert_eq!(attribute(root, "binding"), "default/nginx-deployment");
    let decision = trace
        .iter()
        .find(|span| span.name == "schedule" && !attribute(span, "clusters").is_empty())
        .unwrap();
    assert_eq!(attribute(decision, "clusters"), "member1:1,member2:1");
    assert_eq!(attribute(decision, "reason"), "Success");
    let stages = children(&trace, decision);
    let stages: Vec<&str> = stages.keys().map(String::as_str).collect();
    assert_eq!(
        stages,
        ["AssignReplicas", "Filter", "Score", "Select", "write"]
    );
    let binding = ["get", "rb", "nginx-deployment", "-o"];
    let path = "jsonpath={.metadata.annotations.tracing\\.berth/traceparent}";
    let annotation = up.kubectl(&[&binding[..], &[path]].concat());
    let trace_id = u128::from_be_bytes(root.trace_id.clone().try_into().unwrap());
    assert!(
        annotation.contains(&format!("{trace_id:032x}")),
        "{annotation}"
    );
}

#[needs(kubectl)]
#[test]
fn without_an_endpoint_works_have_no_trace_annotation() {
    let up = Up::start(&[]);
    let example = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", example.to_str().unwrap()]);
    until("the works", || {
        let works = up.kubectl(&["get", "works", "-A", "-o", "yaml"]);
        if works.matches("kind: Deployment").count() < 2 {
            return Err(works);
        }
        assert!(!works.contains("traceparent"), "{works}");
        Ok(())
    });
}

#[test]
fn an_endpoint_without_a_scheme_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["up", "--port=0", "--tracing-endpoint=127.0.0.1:4318"];
    let output = berth(home.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        line(&output).contains("http://127.0.0.1:4318"),
        "{output:?}"
    );
}
