//! Tests of `berth status` with a namespace: it lists the workloads that are not well, and `berth top` and `berth watch`
//! agree.

use std::fs;

use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};
use serde_json::Value;

use crate::program::{Up, berth, root, until};

/// A Deployment whose CPU request exceeds the capacity of every member, and its policy.
const HUGE: &str = include_str!("manifests/huge.json");
/// A Deployment whose containers crash in member1, its namespace and its policy.
const CRASHING: &str = include_str!("manifests/crashing.yaml");

fn apply(up: &Up, manifest: &str) {
    let file = up.home.path().join("manifest");
    fs::write(&file, manifest).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

/// Runs a command, and returns its output and its exit code.
fn run(up: &Up, words: &[&str]) -> (String, Option<i32>) {
    let output = berth(up.home.path(), words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.code())
}

/// Waits until the output of a command contains all texts, and returns the output.
fn wait_for(up: &Up, words: &[&str], texts: &[&str]) -> String {
    until(&texts.join(", "), || {
        let (output, _) = run(up, words);
        if texts.iter().all(|text| output.contains(text)) {
            Ok(output)
        } else {
            Err(output)
        }
    })
}

#[needs(kubectl)]
#[test]
fn status_lists_the_workloads_that_are_not_well() {
    let up = Up::start(&["--members=1"]);
    apply(&up, HUGE);
    wait_for(&up, &["status", "default"], &["stuck", "not enough"]);
    let mut transcript = Transcript::new();
    for command in [
        "status default",
        "status default --exit-code",
        "status --namespace=default --output=json",
        "status kube-system --exit-code",
        "status defualt",
        "status deployment/huge",
        "status default -A",
        "status --exit-code",
    ] {
        up.record(&mut transcript, command);
    }
    assert_snapshot!(transcript);
}

#[needs(kubectl)]
#[test]
fn a_crashing_workload_and_a_lost_cluster_are_not_well() {
    let up = Up::start(&[
        "--members=2",
        "--cluster-status-update-frequency=200ms",
        "--cluster-failure-threshold=1s",
    ]);
    apply(&up, CRASHING);
    let example = root().join("examples/nginx.yaml");
    apply(&up, &fs::read_to_string(example).unwrap());

    wait_for(&up, &["status", "default"], &["1 well\n", "--all lists it"]);
    let all = wait_for(
        &up,
        &["status", "-A", "--all"],
        &["default/Deployment nginx"],
    );
    let (web, nginx) = (all.find("shop/Deployment web"), all.find("nginx"));
    assert!(web < nginx, "{all}");
    // The replicas have some time to start, unless the cause is known before.
    wait_for(
        &up,
        &["status", "shop"],
        &["shop/Deployment web", "   0/2   "],
    );

    let (text, code) = run(&up, &["status", "default", "--exit-code"]);
    assert_eq!(code, Some(0), "{text}");
    run(&up, &["fail", "member2"]);
    let lost = "member2 is not ready: nothing is known about its replica";
    let text = wait_for(&up, &["status", "default"], &[lost]);
    assert!(text.starts_with("1 degraded\n"), "{text}");
    assert!(text.contains("   1/2     1/2   "), "{text}");
    assert!(
        text.contains("\n  fix: look at `kubectl describe cluster member2`"),
        "{text}"
    );
    let (text, code) = run(&up, &["status", "-A", "--exit-code", "-o", "json"]);
    assert_eq!(code, Some(3), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let nginx = rows.iter().find(|row| row["name"] == "nginx").unwrap();
    assert_eq!(nginx["reason"], "StaleStatus");

    let (top, _) = run(&up, &["top"]);
    assert!(top.contains(lost) && top.contains("\nNOT WELL "), "{top}");
    let member2 = top.lines().find(|line| line.starts_with("member2 "));
    assert!(member2.unwrap().contains("   NO      -   "), "{top}");
    run(&up, &["heal", "member2"]);
}
