//! Tests of the example extender `licences.py`, which runs as a process.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::fake::config;
use super::harness::{Harness, everywhere, to_one};

struct Licences {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Licences {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/extender/licences.py")
}

/// Starts the example extender. If Python is missing, prints a message and returns `None`.
fn licences(stock: serde_json::Value) -> Option<Licences> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stock.json");
    std::fs::write(&file, stock.to_string()).unwrap();
    let started = Command::new("python3")
        .arg(script())
        .args(["--port", "0", "--stock"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: the example extender needs python3: {error}");
            return None;
        }
    };
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let url = url.trim().to_owned();
    assert!(
        url.starts_with("http://127.0.0.1:"),
        "unexpected output: {url:?}"
    );
    Some(Licences {
        child,
        url,
        _folder: folder,
    })
}

#[tokio::test]
async fn workloads_are_placed_in_clusters_with_licences() {
    let Some(licences) = licences(json!({ "m1": 0, "m2": 3, "m3": 7 })) else {
        return;
    };
    for names_only in [true, false] {
        let fields = json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5,
            "clusterCacheCapable": names_only });
        let mut harness = Harness::new(&[config(&licences.url, fields)]);
        assert_eq!(
            harness.decide(&everywhere()).await.clusters().unwrap(),
            ["m2", "m3"]
        );
        assert_eq!(
            harness.decide(&to_one()).await.clusters().unwrap(),
            ["m3"],
            "m3 has the most licences"
        );
        let expected = format!(
            "scheduler_extender_connections_total{{extender=\"{}\"}} 1",
            licences.url
        );
        assert!(
            harness.metrics_text().lines().any(|line| line == expected),
            "all calls share one connection"
        );
    }
}

#[tokio::test]
async fn each_cluster_without_licences_has_a_reason() {
    let Some(licences) = licences(json!({ "m1": 0, "m2": 0 })) else {
        return;
    };
    let mut harness = Harness::new(&[config(&licences.url, json!({ "filterVerb": "filter" }))]);
    let error = harness.decide(&everywhere()).await.clusters().unwrap_err();
    assert_eq!(
        error,
        "0/4 clusters are available: 2 cluster(s) had no licence server, 2 cluster(s) had no licences left."
    );
}

#[tokio::test]
async fn unknown_verbs_are_errors() {
    let Some(licences) = licences(json!({})) else {
        return;
    };
    let mut harness = Harness::new(&[config(&licences.url, json!({ "filterVerb": "sieve" }))]);
    let error = harness.decide(&everywhere()).await.clusters().unwrap_err();
    assert!(
        error.ends_with("the response status is 404 Not Found"),
        "{error}"
    );
}
