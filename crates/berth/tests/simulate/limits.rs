//! Tests of `berth simulate` with limits on the replicas of clusters.

use berth_test_transcripts::assert_snapshot;

use crate::program::{DYNAMIC, app, simulated};

const FLEET: &str = "-f examples/fleet.yaml -f -";

#[test]
fn limits_bound_the_replicas_of_each_cluster() {
    let web = app("web", 9, DYNAMIC);
    let limited = |limits: &str| {
        let metadata = "kind: PropagationPolicy\nmetadata: {";
        let annotation = format!("annotations: {{scheduling.berth/replica-limits: '{limits}'}}, ");
        web.replace(metadata, &format!("{metadata}{annotation}"))
    };
    let first = r#"{"clusters": [{"targetCluster": {"clusterNames": ["member3"]}, "max": 2}]}"#;
    assert_snapshot!(simulated(&[
        ("a maximum", FLEET, &limited(first)),
        ("an even spread", FLEET, &limited(r#"{"spread": "Even"}"#)),
        (
            "as many as fit",
            FLEET,
            &limited(r#"{"fit": "BestEffort", "clusters": [{"max": "20%"}]}"#),
        ),
        (
            "too few places",
            FLEET,
            &limited(r#"{"clusters": [{"max": "20%"}]}"#),
        ),
        ("an invalid value", FLEET, &limited(r#"{"spread": "even"}"#)),
    ]));
}
