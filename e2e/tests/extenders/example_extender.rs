//! A test of the example extender `examples/extender/licences.py`, with all verbs that it serves. The module also
//! starts example programs for other tests.

use berth_test_requirements::needs;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::fixture::{Plane, to_all_clusters, to_best_cluster};

/// A running example program. The process is killed when the value is dropped.
pub(crate) struct Example(Child);

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the folder of the example programs.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/extender")
}

/// Starts an example program on a free port, and returns the program and its URL. The test needs `#[needs(python3)]`.
pub(crate) fn start(program: &str, arguments: &[&OsStr]) -> (Example, String) {
    let started = Command::new("python3")
        .arg(folder().join(program))
        .args(["--port", "0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.unwrap();
    let mut url = String::new();
    let printed = child.stdout.take().unwrap();
    BufReader::new(printed).read_line(&mut url).unwrap();
    (Example(child), url.trim().to_owned())
}

/// Checks that the example extender chooses the clusters with free licences, and that each stored decision reduces the
/// licences of its clusters.
#[needs(python3)]
#[tokio::test(flavor = "multi_thread")]
async fn decisions_that_the_extender_stores_use_up_licences() {
    // Start the control plane first, because the extender needs its kubeconfig. Start the scheduler last, because it
    // needs the address of the extender.
    let plane = Plane::start().await;
    let stock = plane.bare.folder().join("stock.json");
    std::fs::write(&stock, json!({ "m1": 0, "m2": 1, "m3": 2 }).to_string()).unwrap();
    let kubeconfig = plane.bare.kubeconfig();
    let arguments = [
        OsStr::new("--stock"),
        stock.as_os_str(),
        OsStr::new("--kubeconfig"),
        kubeconfig.as_os_str(),
    ];
    let (_licences, url) = start("licences.py", &arguments);
    let fixture = plane.with_extenders(
        json!([{ "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt", "bindVerb": "bind", "weight": 5, "clusterCacheCapable": true,
            "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] }]),
    );
    assert_eq!(
        fixture.schedule(&to_best_cluster("first")).await.unwrap(),
        ["m3"],
        "m3 has the most licences left"
    );
    assert_eq!(
        fixture.schedule(&to_all_clusters("second")).await.unwrap(),
        ["m2", "m3"]
    );
    let (reason, message) = fixture
        .schedule(&to_all_clusters("third"))
        .await
        .unwrap_err();
    assert_eq!(reason, "NoClusterFit");
    assert_eq!(
        message,
        "0/4 clusters are available: 1 cluster(s) had no licence server, 3 cluster(s) had no licences left."
    );
    fixture.stop().await;
}
