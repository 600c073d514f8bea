//! Validation of the counts in the status of workloads, for example `readyReplicas`.

use serde_json::{Value, json};

use crate::harness::objects::{Objects, deployment};
use crate::harness::server;

/// Returns the path of the group and version, the plural, and an object of each kind that has counts in its status.
fn workloads() -> Vec<(&'static str, &'static str, Value)> {
    let (meta, selector) = (json!({"name": "a"}), json!({"matchLabels": {"a": "b"}}));
    let template = &deployment("a")["spec"]["template"];
    let mut never = template.clone();
    never["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"selector": selector, "template": template, "serviceName": "a"});
    let mut controller = json!({"metadata": meta, "spec": {"template": template}});
    controller["spec"]["selector"] = selector["matchLabels"].clone();
    let mut all: Vec<_> = ["deployments", "replicasets", "statefulsets", "daemonsets"]
        .into_iter()
        .map(|plural| {
            let mut object = json!({"metadata": meta, "spec": spec});
            if plural != "statefulsets" {
                object["spec"]
                    .as_object_mut()
                    .unwrap()
                    .remove("serviceName");
            }
            ("apis/apps/v1", plural, object)
        })
        .collect();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
    all.extend([
        ("api/v1", "replicationcontrollers", controller),
        (
            "apis/batch/v1",
            "jobs",
            json!({"metadata": meta, "spec": {"template": never}}),
        ),
        (
            "apis/policy/v1",
            "poddisruptionbudgets",
            json!({"metadata": meta, "spec": {"selector": selector, "minAvailable": 1}}),
        ),
        (
            "apis/autoscaling/v2",
            "horizontalpodautoscalers",
            json!({"metadata": meta, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}),
        ),
    ]);
    all
}

/// Checks that a status update with a negative count is refused. For kinds with replicas, a partial count, such as
/// `readyReplicas`, must not exceed `replicas`.
#[tokio::test]
async fn negative_counts_and_counts_above_the_replicas_are_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    for (group, plural, object) in workloads() {
        let objects = Objects::at(&server, format!("/{group}/namespaces/{namespace}/{plural}"));
        objects.create(&object).await;
        let refused = async |status: Value, field: &str| {
            let response = objects.merge("/a/status", &json!({"status": status})).await;
            assert_eq!(response.code, 422, "{plural} {status}: {}", response.text);
            let expected = [format!("status.{field} FieldValueInvalid")];
            assert_eq!(response.causes(), expected, "{plural} {status}");
        };
        let negative: &[&str] = match plural {
            "daemonsets" => &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
            ],
            "jobs" => &["active", "succeeded", "failed", "ready", "terminating"],
            "poddisruptionbudgets" => &[
                "disruptionsAllowed",
                "currentHealthy",
                "desiredHealthy",
                "expectedPods",
            ],
            "horizontalpodautoscalers" => &["desiredReplicas", "currentReplicas"],
            _ => &["readyReplicas", "observedGeneration"],
        };
        // Returns a status with all required counts, in which `field` is negative.
        let required = |field: &str| {
            let mut status = match plural {
                "daemonsets" => json!({"currentNumberScheduled": 0, "numberMisscheduled": 0,
                    "desiredNumberScheduled": 0, "numberReady": 0}),
                "poddisruptionbudgets" => json!({"disruptionsAllowed": 0, "currentHealthy": 0,
                    "desiredHealthy": 0, "expectedPods": 0}),
                "horizontalpodautoscalers" => json!({"desiredReplicas": 0}),
                "jobs" => json!({}),
                _ => json!({"replicas": 0}),
            };
            status[field] = json!(-1);
            status
        };
        for field in negative {
            let status = json!({"status": required(field)});
            let response = objects.merge("/a/status", &status).await;
            assert_eq!(response.code, 422, "{plural} {status}: {}", response.text);
            // The negative count may also cause errors about other fields.
            let expected = format!("status.{field} FieldValueInvalid");
            let found = response.causes();
            assert!(found.contains(&expected), "{plural} {status}: {found:?}");
        }
        let parts: &[&str] = match plural {
            "deployments" => &["readyReplicas", "updatedReplicas"],
            "replicasets" | "replicationcontrollers" => &["readyReplicas", "fullyLabeledReplicas"],
            "statefulsets" => &["readyReplicas", "currentReplicas", "updatedReplicas"],
            _ => &[],
        };
        for part in parts {
            let mut status = json!({"replicas": 1});
            status[part] = json!(2);
            refused(status, part).await;
        }
        if !parts.is_empty() {
            let status = json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 2});
            refused(status, "availableReplicas").await;
            let status = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2});
            let response = objects.merge("/a/status", &json!({"status": status})).await;
            assert_eq!(response.code, 200, "{plural}: {}", response.text);
        }
    }
}
