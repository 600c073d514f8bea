//! The extender of the examples, run for real.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::fake::config;
use super::rounds::{Rounds, everywhere, to_one};

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

/// None where there is no Python, which is said.
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
            println!("skipped: the extender of the examples needs python3: {error}");
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
        "the extender says {url:?}"
    );
    Some(Licences {
        child,
        url,
        _folder: folder,
    })
}

#[tokio::test]
async fn workloads_go_where_licences_are() {
    let Some(licences) = licences(json!({ "m1": 0, "m2": 3, "m3": 7 })) else {
        return;
    };
    for names_only in [true, false] {
        let fields = json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5,
            "clusterCacheCapable": names_only });
        let mut rounds = Rounds::new(&[config(&licences.url, fields)]);
        assert_eq!(
            rounds.decide(&everywhere()).await.clusters().unwrap(),
            ["m2", "m3"]
        );
        assert_eq!(
            rounds.decide(&to_one()).await.clusters().unwrap(),
            ["m3"],
            "it has the most left"
        );
        let counted = format!(
            "scheduler_extender_connections_total{{extender=\"{}\"}} 1",
            licences.url
        );
        assert!(
            rounds.metrics.text().lines().any(|line| line == counted),
            "one connection serves all calls"
        );
    }
}

#[tokio::test]
async fn without_licences_each_cluster_says_why() {
    let Some(licences) = licences(json!({ "m1": 0, "m2": 0 })) else {
        return;
    };
    let mut rounds = Rounds::new(&[config(&licences.url, json!({ "filterVerb": "filter" }))]);
    let error = rounds.decide(&everywhere()).await.clusters().unwrap_err();
    assert_eq!(
        error,
        "0/4 clusters are available: 2 cluster(s) had no licence server, 2 cluster(s) had no licences left."
    );
}

#[tokio::test]
async fn a_verb_that_the_extender_does_not_have_is_an_error() {
    let Some(licences) = licences(json!({})) else {
        return;
    };
    let mut rounds = Rounds::new(&[config(&licences.url, json!({ "filterVerb": "sieve" }))]);
    let error = rounds.decide(&everywhere()).await.clusters().unwrap_err();
    assert!(error.ends_with("the answer is 404 Not Found"), "{error}");
}
