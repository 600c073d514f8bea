//! The example that fills ClusterScores from Prometheus, with a fake Prometheus on a local port.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use berth_api::ClusterScore;
use berth_e2e::BareControlPlane;
use berth_test_requirements::needs;
use kube::Api;
use serde_json::{Value, json};

/// Answers one HTTP request with a JSON document. Returns the URL, and the thread, which returns the request.
fn serve_once(answer: &Value) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = answer.to_string();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let size = stream.read(&mut request).unwrap();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        String::from_utf8_lossy(&request[..size]).into_owned()
    });
    (url, thread)
}

#[needs(kubectl, python3)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_writes_the_samples_of_a_query_as_scores() {
    let bare = BareControlPlane::start(&[]).await;
    let sample = |labels: Value, value: &str| json!({ "metric": labels, "value": [1_800_000_000.25, value] });
    let samples = [
        sample(json!({ "cluster": "m1" }), "120.5"),
        sample(json!({ "cluster": "m2" }), "NaN"),
        sample(json!({ "job": "a" }), "1"),
    ];
    let data = json!({ "resultType": "vector", "result": samples });
    let (url, prometheus) = serve_once(&json!({ "status": "success", "data": data }));
    let program = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/cluster-scores/prometheus_scores.py");
    let output = Command::new("python3")
        .arg(program)
        .args(["--prometheus", &url, "--score", "carbon", "--query"])
        .arg("avg by (cluster) (carbon)")
        .env("KUBECONFIG", bare.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let request = prometheus.join().unwrap();
    let query = "GET /api/v1/query?query=avg+by+%28cluster%29+%28carbon%29 HTTP/1.1";
    assert!(request.starts_with(query), "{request}");

    let scores: Api<ClusterScore> = Api::all(bare.client.clone());
    let written = scores
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let written: Vec<Value> = written
        .items
        .iter()
        .map(|score| json!({ "name": score.metadata.name, "spec": score.spec }))
        .collect();
    let expected = json!([{ "name": "prometheus-carbon-m1", "spec": { "clusterName": "m1", "scores": { "carbon": 120.5 },
        "timestamp": "2027-01-15T08:00:00Z", "validUntil": "2027-01-15T08:10:00Z" } }]);
    assert_eq!(json!(written), expected);
    bare.stop().await;
}
