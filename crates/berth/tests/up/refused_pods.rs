//! Tests of pods that a simulated member refuses, because of a quota or of a webhook.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use berth_test_requirements::needs;

use crate::program::{Up, until};

fn in_member(up: &Up, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    up.in_member("member1", &words)
}

/// Checks that a refusal is visible in an event and in the condition of the workload, and ends with its cause.
#[needs(kubectl)]
#[test]
fn refused_pods_are_reported_as_events_and_conditions() {
    let up = Up::start(&["--members=1"]);
    in_member(&up, "create quota few --hard=pods=1");
    in_member(&up, "create deployment web --image=nginx --replicas=2");
    until("the event", || {
        let events = in_member(&up, "get events --field-selector=reason=FailedCreate");
        if events.contains("Error creating: pods \"web-") && events.contains("exceeded quota: few")
        {
            Ok(())
        } else {
            Err(events)
        }
    });
    let failure =
        "get deployment web -o jsonpath={.status.conditions[?(@.type==\"ReplicaFailure\")].reason}";
    until("the condition", || match in_member(&up, failure).as_str() {
        "FailedCreate" => Ok(()),
        other => Err(other.to_owned()),
    });
    in_member(&up, "delete quota few");
    in_member(&up, "scale deployment web --replicas=3");
    in_member(&up, "rollout status deployment/web --timeout=90s");
    assert_eq!(in_member(&up, failure), "");
}

/// Checks that a webhook that does not respond delays only the pods in its namespace.
#[needs(kubectl)]
#[test]
fn a_hanging_webhook_delays_only_its_namespace() {
    let up = Up::start(&["--members=1"]);
    // The connections are accepted by the system, and nothing responds.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let webhook = format!(
        r#"{{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {{"name": "hangs"}}, "webhooks": [{{"name": "hangs.example.com", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 30, "failurePolicy": "Fail",
            "clientConfig": {{"url": "https://127.0.0.1:{port}/"}},
            "namespaceSelector": {{"matchLabels": {{"kubernetes.io/metadata.name": "stuck"}}}},
            "rules": [{{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}}]}}]}}"#
    );
    let file = up.home.path().join("webhook.json");
    std::fs::write(&file, webhook).unwrap();
    in_member(&up, &format!("apply -f {}", file.display()));
    in_member(&up, "create namespace stuck");
    for name in ["a", "b", "c"] {
        let words = format!("create deployment {name} --image=nginx --replicas=5 -n stuck");
        in_member(&up, &words);
    }
    let start = Instant::now();
    in_member(&up, "create deployment free --image=nginx --replicas=5");
    in_member(&up, "rollout status deployment/free --timeout=60s");
    assert!(
        start.elapsed() < Duration::from_secs(25),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(in_member(&up, "get pods -n stuck -o name"), "");
}
