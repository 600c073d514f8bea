//! Tests of the table in docs/compatibility.md that lists which karmadactl commands work with `berth up`.

use berth_test_requirements::needs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use berth_apiserver::{Server, ServerConfig};
use http::Method;
use serde_json::json;

use crate::test_plane::{TestPlane, request};

const DOCUMENT: &str = include_str!("../../../../docs/compatibility.md");
const FAILS: &str = "fails: ";
const TIMEOUT: Duration = Duration::from_mins(1);

const FILES: [(&str, &str); 3] = [
    (
        "web.yaml",
        r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
",
    ),
    (
        "rebalancer.yaml",
        r"
apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata: {name: web}
spec: {workloads: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: default}]}
",
    ),
    (
        "customization.yaml",
        r"
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: replicas}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    replicaResource:
      luaScript: |
        function GetReplicas(obj)
          return obj.spec.replicas, nil
        end
",
    ),
];

/// Returns the rows of the table. Each row is a command and its documented outcome.
fn rows() -> Vec<(&'static str, &'static str)> {
    DOCUMENT
        .lines()
        .filter_map(|line| line.strip_prefix("| `karmadactl "))
        .map(|row| {
            let (command, rest) = row.split_once("` | ").unwrap();
            (command, rest.split(" |").next().unwrap())
        })
        .collect()
}

fn run(program: &Path, plane: &TestPlane, words: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .args(words)
        .current_dir(plane.folder())
        .env("HOME", plane.folder())
        .env("KUBECONFIG", plane.kubeconfig())
        .env("KUBE_EDITOR", "true")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

/// Runs a command repeatedly until it has the documented outcome, because the effects of earlier commands may be
/// delayed.
async fn until(program: &Path, plane: &TestPlane, command: &str, outcome: &str) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (success, message) = tokio::task::block_in_place(|| run(program, plane, &words));
        let as_documented = match outcome.strip_prefix(FAILS) {
            Some(reason) => !success && message.contains(reason.trim_matches('`')),
            None => success,
        };
        if as_documented {
            return;
        }
        assert!(Instant::now() < end, "{command}: {outcome}, but: {message}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[test]
fn each_row_of_the_table_has_a_valid_outcome() {
    let rows = rows();
    assert!(rows.len() > 20, "{rows:?}");
    for (command, outcome) in rows {
        let is_valid = outcome == "works" || outcome.starts_with(FAILS);
        assert!(is_valid, "{command}: {outcome}");
    }
}

#[needs(karmadactl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karmadactl_commands_have_the_documented_outcomes() {
    let directory = std::env::var_os("BERTH_E2E_KARMADA")
        .map(PathBuf::from)
        .unwrap();
    let program = directory.join("karmadactl");
    let plane = TestPlane::start(2).await;
    for (name, text) in FILES {
        std::fs::write(plane.folder().join(name), text).unwrap();
    }
    let other = Server::start(ServerConfig::default()).await.unwrap();
    let kubeconfig = plane.folder().join("other.kubeconfig");
    std::fs::write(kubeconfig, other.kubeconfig("other")).unwrap();
    let legacy = json!({ "metadata": { "name": "legacy" }, "data": { "a": "b" } });
    let maps = "/api/v1/namespaces/default/configmaps";
    plane.create(&plane.through("member2"), maps, &legacy).await;
    for (command, outcome) in rows() {
        let mut command = command.to_owned();
        if command.contains("POD") {
            command = command.replace("POD", &running_pod(&plane).await);
        }
        until(&program, &plane, &command, outcome).await;
    }
    other.shutdown().await;
    plane.control_plane.stop().await;
}

/// Returns the name of a running pod in the first member.
async fn running_pod(plane: &TestPlane) -> String {
    let end = Instant::now() + TIMEOUT;
    loop {
        let path = "/api/v1/namespaces/default/pods";
        let pods = request(&plane.through("member1"), Method::GET, path, "")
            .await
            .json();
        let pod = &pods["items"][0];
        if pod["status"]["phase"] == "Running" {
            return pod["metadata"]["name"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < end, "no pod runs: {pods}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
