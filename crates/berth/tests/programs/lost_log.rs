//! Services whose log reader goes away, as in `berth scheduler 2>&1 | head -1`, run on.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command_line::command;

/// Number of failed requests, each with a log line, for which the service must run on.
const REQUESTS: usize = 6;
/// Time within which the service sends these requests.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A service that is killed at the end of the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the response of a probe.
fn probe(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// The API server closes each connection, so the scheduler keeps writing log lines.
#[test]
fn a_scheduler_without_a_log_reader_runs_until_sigterm() {
    let api_server = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let server = format!("http://{}", api_server.local_addr().unwrap());
    let content = format!(
        r#"{{"clusters":[{{"name":"a","cluster":{{"server":"{server}"}}}}],
            "contexts":[{{"name":"a","context":{{"cluster":"a"}}}}],"current-context":"a"}}"#
    );
    std::fs::write(&kubeconfig, content).unwrap();
    let child = command("berth", &["scheduler", "-v=4", "--kubeconfig"])
        .arg(&kubeconfig)
        .args(["--leader-elect=false", "--metrics-bind-address=0"])
        .arg("--health-probe-bind-address=127.0.0.1:0")
        .env("HOME", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut service = Service(child);
    let mut log = BufReader::new(service.0.stderr.take().unwrap());
    let (mut address, mut lines) = (String::new(), String::new());
    while address.is_empty() {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "{lines}");
        if let Some((_, found)) = line.split_once("serving health and metrics address=") {
            found.trim().clone_into(&mut address);
        }
        lines.push_str(&line);
    }
    assert!(
        lines.contains("starting berth-scheduler version="),
        "{lines}"
    );
    drop(log);
    api_server.set_nonblocking(true).unwrap();
    let (mut requests, deadline) = (0, Instant::now() + TIMEOUT);
    while requests < REQUESTS {
        let ended = service.0.try_wait().unwrap();
        assert!(ended.is_none(), "the service has ended: {ended:?}");
        assert!(Instant::now() < deadline, "only {requests} requests");
        match api_server.accept() {
            Ok(connection) => {
                drop(connection);
                requests += 1;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
    let response = probe(&address);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(
        service.0.try_wait().unwrap().is_none(),
        "the service has ended"
    );
    let id = service.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(service.0.wait().unwrap().code(), Some(0));
}
