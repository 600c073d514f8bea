use std::convert::Infallible;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::cluster::{LocalSecretReference, NodeSummary};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;

/// The response of the control plane to a request for the Secret: a version and a token, or a status code.
type SecretResponse = Arc<Mutex<Result<(&'static str, &'static str), u16>>>;

fn control_plane(secret: SecretResponse) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| {
        let (code, body) = match *secret.lock().unwrap() {
            Ok((version, token)) => {
                let metadata = json!({ "name": "m1", "uid": "u", "resourceVersion": version });
                (
                    200,
                    json!({ "metadata": metadata, "data": { "token": STANDARD.encode(token) } }),
                )
            }
            Err(code) => (
                code,
                json!({ "status": "Failure", "code": code, "message": "no", "reason": "No" }),
            ),
        };
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    Client::new(service, "n")
}

/// Starts a member that accepts this token only. Returns its address. `/readyz` hangs while the token is `hang`.
async fn member(token: Arc<Mutex<&'static str>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let token = token.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let expected = *token.lock().unwrap();
                async move {
                    if expected == "hang" {
                        std::future::pending::<()>().await;
                    }
                    let sent = request.headers().get("authorization");
                    let is_accepted =
                        sent.is_some_and(|sent| *sent == *format!("Bearer {expected}"));
                    let mut response = Response::new(Full::new(Bytes::from_static(b"ok")));
                    if !is_accepted {
                        *response.status_mut() = StatusCode::UNAUTHORIZED;
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    format!("http://{address}")
}

fn new_member(control_plane: Client, endpoint: String, resource_modeling: bool) -> Member {
    let mut cluster = Cluster::new("m1", ClusterSpec::default());
    cluster.spec.api_endpoint = Some(endpoint);
    cluster.spec.insecure_skip_tls_verification = Some(true);
    cluster.spec.secret_ref = Some(LocalSecretReference {
        namespace: "n".to_owned(),
        name: "m1".to_owned(),
    });
    Member {
        control_plane,
        cluster: Arc::new(cluster),
        options: ClusterStatusOptions {
            resource_modeling,
            ..ClusterStatusOptions::default()
        },
        readiness: Readiness::default(),
        outage: RepeatedFailure::default(),
        write_failure: RepeatedFailure::default(),
        connection: None,
        monitor: Monitor::default(),
    }
}

#[tokio::test]
async fn a_member_that_refuses_lists_of_nodes_is_ready_with_its_last_summaries() {
    let token = Arc::new(Mutex::new("t"));
    let control_plane = control_plane(Arc::new(Mutex::new(Ok(("1", "t")))));
    let mut member = new_member(control_plane, member(token).await, true);
    let summary = NodeSummary {
        total_num: Some(3),
        ready_num: Some(3),
    };
    Arc::make_mut(&mut member.cluster).status = Some(ClusterStatus {
        node_summary: Some(summary.clone()),
        ..ClusterStatus::default()
    });
    assert_eq!(
        member.probe(Duration::from_secs(20)).await,
        ProbeResult::Ready
    );
    assert!(member.collect().await.is_none());

    let connection = member.connection.as_mut().unwrap();
    connection.since = Instant::now().checked_sub(FIRST_LISTS_TIMEOUT).unwrap();

    let status = member.collect().await.unwrap().status;
    assert_eq!(status.node_summary, Some(summary));
    assert_eq!(status.resource_summary, None);
}

#[tokio::test]
async fn each_probe_reads_the_secret_of_the_member() {
    let secret: SecretResponse = Arc::new(Mutex::new(Ok(("1", "old"))));
    let token = Arc::new(Mutex::new("old"));
    let endpoint = member(token.clone()).await;
    let mut member = new_member(control_plane(secret.clone()), endpoint, false);
    let timeout = Duration::from_secs(20);
    assert_eq!(member.probe(timeout).await, ProbeResult::Ready);

    // A rotated token.
    *token.lock().unwrap() = "new";
    *secret.lock().unwrap() = Ok(("2", "new"));
    assert_eq!(member.probe(timeout).await, ProbeResult::Ready);

    // An outage of the control plane.
    *secret.lock().unwrap() = Err(503);
    assert_eq!(member.probe(timeout).await, ProbeResult::Ready);

    // A deleted Secret.
    *secret.lock().unwrap() = Err(404);
    let deleted = member.probe(timeout).await;
    assert!(
        matches!(&deleted, ProbeResult::NoClient(why) if why.contains("cannot read the secret n/m1")),
        "{deleted:?}"
    );

    // A refused token.
    *secret.lock().unwrap() = Ok(("3", "wrong"));
    assert_eq!(member.probe(timeout).await, ProbeResult::TokenRefused);

    // A member that accepts connections, but does not respond.
    *token.lock().unwrap() = "hang";
    let hanging = member.probe(Duration::from_millis(50)).await;
    assert!(
        matches!(&hanging, ProbeResult::NotReachable(why) if why.contains("no response within")),
        "{hanging:?}"
    );
}
