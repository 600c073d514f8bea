//! Tests of a web application that consists of a Deployment, a load balancer and an Ingress, and of its failover. Also
//! a test of a ReplicationController.

use berth_test_requirements::needs;
use serde_json::Value;

use crate::program::{Up, berth, root, until};

const APPLICATION: &str = include_str!("manifests/web_application.yaml");

fn json(up: &Up, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["-o", "json"]);
    let text = up.kubectl(&all);
    serde_json::from_str(&text).unwrap()
}

/// Waits until the three bindings of the application are healthy in the same member, a member other than `not`. Returns
/// the name of this member.
fn healthy_member(up: &Up, not: &str) -> String {
    until("the application to be healthy", || {
        let names = ["web-deployment", "web-service", "web-ingress"];
        let mut members = Vec::new();
        for name in names {
            let binding = json(up, &["get", "resourcebinding", name, "--ignore-not-found"]);
            let items = binding["status"]["aggregatedStatus"].as_array();
            let states: Vec<(&str, &str)> = items
                .into_iter()
                .flatten()
                .map(|item| {
                    let text = |field: &str| item[field].as_str().unwrap_or_default();
                    (text("clusterName"), text("health"))
                })
                .collect();
            match states.as_slice() {
                [(member, "Healthy")] if *member != not => members.push((*member).to_owned()),
                _ => return Err(format!("{name}: {states:?}")),
            }
        }
        members.dedup();
        match members.as_slice() {
            [member] => Ok(member.clone()),
            _ => Err(format!("{members:?}")),
        }
    })
}

#[needs(kubectl)]
#[test]
fn a_web_application_becomes_healthy_and_moves_from_a_failed_member() {
    let up = Up::start(&[
        "--members=2",
        "--cluster-status-update-frequency=200ms",
        "--cluster-failure-threshold=500ms",
        "--cluster-success-threshold=500ms",
        "--resource-eviction-rate=100",
    ]);
    let file = up.home.path().join("web.yaml");
    std::fs::write(&file, APPLICATION).unwrap();
    let failover = root().join("examples/failover.yaml");
    for file in [failover.to_str().unwrap(), file.to_str().unwrap()] {
        let apply = ["apply", "-f", file];
        up.kubectl(&apply);
    }
    let first = healthy_member(&up, "");
    let service = json(
        &up,
        &[&format!("--context={first}"), "get", "service", "web"],
    );
    let address = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
    assert!(address.is_string(), "{service}");
    // The status of the template contains the address that the member assigned.
    until("the address in the template", || {
        let template = json(&up, &["get", "service", "web"]);
        let shown = &template["status"]["loadBalancer"]["ingress"];
        if shown[0]["ip"] == *address {
            Ok(())
        } else {
            Err(shown.to_string())
        }
    });
    // The control plane runs no pods for a ReplicationController that no policy selects.
    let here = json(&up, &["get", "replicationcontroller", "old"]);
    assert_eq!(here["status"]["replicas"], 0);

    let failed = berth(up.home.path(), &["fail", &first]).output().unwrap();
    assert!(failed.status.success(), "{failed:?}");
    let second = healthy_member(&up, &first);
    assert_ne!(second, first);
    for name in ["web-deployment", "web-service", "web-ingress"] {
        let binding = json(&up, &["get", "resourcebinding", name]);
        let tasks = &binding["spec"]["gracefulEvictionTasks"];
        assert!(
            tasks.is_null() || tasks == &Value::Array(Vec::new()),
            "{tasks}"
        );
    }
}

#[needs(kubectl)]
#[test]
fn a_replication_controller_runs_in_a_member() {
    let up = Up::start(&["--members=1"]);
    let file = up.home.path().join("rc.yaml");
    let documents = APPLICATION.split("---\n");
    let controller: Vec<&str> = documents
        .filter(|d| d.contains("ReplicationController"))
        .collect();
    std::fs::write(&file, controller[0]).unwrap();
    let apply = ["--context=member1", "apply", "-f", file.to_str().unwrap()];
    up.kubectl(&apply);
    until("the controller to be ready", || {
        let found = json(
            &up,
            &["--context=member1", "get", "replicationcontroller", "old"],
        );
        if found["status"]["readyReplicas"] == 1 {
            Ok(())
        } else {
            Err(found["status"].to_string())
        }
    });
    let events = [
        "--context=member1",
        "get",
        "events",
        "--field-selector=involvedObject.kind=ReplicationController",
    ];
    until("an event of the controller", || {
        let list = json(&up, &events);
        let event = &list["items"][0];
        let sources = [&event["source"]["component"], &event["reportingComponent"]];
        if sources
            .iter()
            .any(|source| **source == "replication-controller")
        {
            Ok(())
        } else {
            Err(list.to_string())
        }
    });
}
