//! Tests with the requests of GitOps controllers. Such a controller applies manifests with force. To detect drift, it
//! compares the stored object with the result of a dry run. If values that the server fills in appeared as drift, the
//! controller would apply the manifest endlessly.

use serde_json::{Value, json};

use crate::harness::content_type::{APPLY, MERGE};
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

async fn apply(server: &TestServer, path: &str, dry_run: bool, object: &Value) -> ApiResponse {
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let path = format!("{path}?fieldManager=controller&force=true{dry_run}");
    server
        .raw("PATCH", &path, &[APPLY], object.to_string())
        .await
}

/// Returns objects with the few fields that a user writes, and the path of each object.
fn objects(namespace: &str) -> Vec<(String, Value)> {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]});
    let web = json!({
        "containers": [{
            "name": "c", "image": "nginx", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}],
            "resources": {"requests": {"cpu": "0.1", "memory": "0.5Gi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "readinessProbe": {"httpGet": {"port": 80}},
        }],
        "volumes": [{"name": "v", "configMap": {"name": "c"}}],
    });
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
    [
        ("api/v1", "serviceaccounts", "ServiceAccount", json!({})),
        ("api/v1", "configmaps", "ConfigMap", json!({"data": {"a": "1"}})),
        ("api/v1", "secrets", "Secret", json!({"data": {"p": "d29yZA=="}})),
        (
            "api/v1",
            "services",
            "Service",
            json!({"spec": {"selector": {"app": "web"}, "ports": [
                {"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP", "name": "dns"}]}}),
        ),
        (
            "apis/rbac.authorization.k8s.io/v1",
            "roles",
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}),
        ),
        (
            "apis/rbac.authorization.k8s.io/v1",
            "rolebindings",
            "RoleBinding",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
                "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": namespace},
                    {"kind": "Group", "name": "people"}]}),
        ),
        (
            "apis/apps/v1",
            "deployments",
            "Deployment",
            json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": web}}}),
        ),
        (
            "apis/autoscaling/v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 5, "metrics": [{"type": "Resource", "resource": cpu}],
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}),
        ),
        (
            "apis/networking.k8s.io/v1",
            "ingresses",
            "Ingress",
            json!({"spec": {"rules": [{"host": "a.example", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": backend}]}}]}}),
        ),
        (
            "apis/batch/v1",
            "cronjobs",
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}}),
        ),
        (
            "apis/policy/v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        ),
    ]
    .into_iter()
    .map(|(place, plural, kind, mut object)| {
        let version = place.split_once('/').map_or(place, |(_, version)| version);
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": "web"});
        (format!("/{place}/namespaces/{namespace}/{plural}/web"), object)
    })
    .collect()
}

/// Checks that a second apply of each object, and its dry run, return the object without a change.
#[tokio::test]
async fn defaults_do_not_appear_as_drift() {
    let server = server().await;
    let namespace = server.namespace().await;
    for (path, object) in objects(&namespace) {
        let created = apply(&server, &path, false, &object).await;
        assert_eq!(created.code, 201, "{path}: {}", created.text);
        for dry_run in [true, false] {
            let again = apply(&server, &path, dry_run, &object).await;
            assert_eq!(again.code, 200, "{path}: {}", again.text);
            assert_eq!(again.json, created.json, "{path}");
        }
    }
}

/// Checks that, after another client changes a field, a dry run returns the value of the manifest, and an apply
/// restores this value.
#[tokio::test]
async fn drift_is_visible_in_a_dry_run_and_repaired_by_apply() {
    let server = server().await;
    let namespace = server.namespace().await;
    let (path, object) = objects(&namespace)
        .into_iter()
        .find(|(path, _)| path.contains("deployments"))
        .unwrap();
    assert_eq!(apply(&server, &path, false, &object).await.code, 201);
    let changed = server
        .raw(
            "PATCH",
            &format!("{path}?fieldManager=other"),
            &[MERGE],
            r#"{"spec":{"replicas":7,"paused":true}}"#,
        )
        .await;
    assert_eq!(changed.code, 200, "{}", changed.text);

    let tried = apply(&server, &path, true, &object).await;
    assert_eq!(tried.code, 200, "{}", tried.text);
    assert_eq!(tried.json["spec"]["replicas"], 2);
    let stored = server.raw("GET", &path, &[], "").await.json;
    assert_eq!(stored["spec"]["replicas"], 7);

    let repaired = apply(&server, &path, false, &object).await;
    assert_eq!(repaired.code, 200, "{}", repaired.text);
    let spec = &repaired.json["spec"];
    // Fields that the manifest does not set keep their values.
    assert_eq!(
        (&spec["replicas"], &spec["paused"]),
        (&json!(2), &json!(true))
    );
    let managers = repaired.json["metadata"]["managedFields"]
        .as_array()
        .unwrap();
    let other_entry = managers
        .iter()
        .find(|entry| entry["manager"] == "other")
        .unwrap();
    assert_eq!(other_entry["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));
}
