//! A test of the example extender `examples/extender/licences.py`, configured with all verbs that it serves.

use std::ffi::OsStr;

use berth_e2e::example_extender;
use berth_e2e::scheduler_fixture::four_clusters;
use berth_test_requirements::needs;
use serde_json::json;

use crate::fixture::{start_on, to_all_clusters, to_best_cluster};

/// Checks that the example extender chooses the clusters with free licences, and that each stored decision reduces the
/// licences of its clusters.
#[needs(python3)]
#[tokio::test(flavor = "multi_thread")]
async fn decisions_that_the_extender_stores_use_up_licences() {
    // Start the control plane first, because the extender needs its kubeconfig. Start the scheduler last, because it
    // needs the address of the extender.
    let bare = four_clusters().await;
    let stock = bare.folder().join("stock.json");
    std::fs::write(&stock, json!({ "m1": 0, "m2": 1, "m3": 2 }).to_string()).unwrap();
    let kubeconfig = bare.kubeconfig();
    let arguments = [
        OsStr::new("--stock"),
        stock.as_os_str(),
        OsStr::new("--kubeconfig"),
        kubeconfig.as_os_str(),
    ];
    let (_licences, url) = example_extender::start("licences.py", &arguments);
    let fixture = start_on(
        bare,
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
