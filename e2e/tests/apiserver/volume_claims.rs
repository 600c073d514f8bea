//! Updates of PersistentVolumeClaims: immutable fields, expansion of bound claims, and quotas.

use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::objects::message_outline;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

async fn change(server: &TestServer, path: &str, change: Value) -> ApiResponse {
    server
        .raw("PATCH", path, &[MERGE], change.to_string())
        .await
}

fn claim(name: &str, class: Option<&str>) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "2Gi"}}}})
}

/// Returns a patch that requests this size.
fn size(size: &str) -> Value {
    json!({"spec": {"resources": {"requests": {"storage": size}}}})
}

#[tokio::test]
async fn the_spec_of_a_claim_is_immutable() {
    let server = server().await;
    let claims = format!(
        "/api/v1/namespaces/{}/persistentvolumeclaims",
        server.namespace().await
    );
    server.create(&claims, claim("c", None)).await;
    for changed in [
        size("3Gi"),
        json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
        json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}, "resources": {"limits":
            {"storage": "9Gi"}}}}),
    ] {
        let response = change(&server, &format!("{claims}/c"), changed).await;
        assert_eq!(
            (response.code, response.causes()),
            (422, vec!["spec FieldValueForbidden".to_owned()])
        );
    }
    let block = json!({"spec": {"volumeMode": "Block", "storageClassName": "some"}});
    let response = change(&server, &format!("{claims}/c"), block).await;
    let causes = ["spec FieldValueForbidden", "volumeMode FieldValueInvalid"];
    assert_eq!(
        (response.code, response.causes()),
        (422, causes.map(str::to_owned).to_vec())
    );
}

/// Checks that a bound claim can grow if its StorageClass allows expansion, and that the new size must respect the
/// LimitRange and the quota. A claim cannot shrink.
#[tokio::test]
async fn bound_claims_expand_within_class_limits_and_quotas() {
    let server = server().await;
    let name = server.namespace().await;
    let namespace = format!("/api/v1/namespaces/{name}");
    let hard = json!({"requests.storage": "10Gi", "configmaps": "0"});
    server
        .create(
            &format!("{namespace}/resourcequotas"),
            json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}),
        )
        .await;
    if server.is_kube_apiserver() {
        // No kube-controller-manager runs beside kube-apiserver, so the test writes the status of the quota.
        let path = format!("{namespace}/resourcequotas/q/status");
        let status =
            json!({"status": {"hard": hard, "used": {"requests.storage": "0", "configmaps": "0"}}});
        assert_eq!(change(&server, &path, status).await.code, 200);
    }
    let limit = json!({"type": "PersistentVolumeClaim", "max": {"storage": "8Gi"}});
    server
        .create(
            &format!("{namespace}/limitranges"),
            json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}}),
        )
        .await;
    server.create("/apis/storage.k8s.io/v1/storageclasses",
        json!({"metadata": {"name": name}, "provisioner": "example.com/p", "allowVolumeExpansion": true}),
    )
    .await;
    let claims = format!("{namespace}/persistentvolumeclaims");
    // kube-apiserver may notice the new quota and LimitRange with a delay.
    let (mut large, map) = (claim("trial", None), json!({"metadata": {"name": "trial"}}));
    large["spec"]["resources"]["requests"]["storage"] = json!("9Gi");
    for (plural, object, whose) in [
        ("persistentvolumeclaims", large, "maximum storage usage"),
        ("configmaps", map, "exceeded quota"),
    ] {
        eventually("the limits to apply", async || {
            let path = format!("{namespace}/{plural}?dryRun=All");
            let response = server.raw("POST", &path, &[JSON], object.to_string()).await;
            if response.code == 403 && response.text.contains(whose) {
                Ok(())
            } else {
                Err(response.text)
            }
        })
        .await;
    }
    for (claim_name, class) in [
        ("a", Some(name.as_str())),
        ("b", Some(&name)),
        ("fixed", None),
    ] {
        server.create(&claims, claim(claim_name, class)).await;
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}});
        let path = format!("{claims}/{claim_name}/status");
        assert_eq!(change(&server, &path, bound).await.code, 200);
    }
    eventually("the usage to be counted", async || {
        let quota = server
            .raw("GET", &format!("{namespace}/resourcequotas/q"), &[], "")
            .await;
        if quota.json["status"]["used"]["requests.storage"] == "6Gi" {
            Ok(())
        } else {
            Err(quota.text)
        }
    })
    .await;
    let forbidden =
        |claim: &str, why: &str| format!("persistentvolumeclaims \"{claim}\" is forbidden: {why}");
    let small = "PersistentVolumeClaim \"a\" is invalid: spec.resources.requests.storage: Forbidden: field can not be \
                 less than status.capacity";
    for (claim, requested, code, expected) in [
        ("a", "3Gi", 200, None),
        ("a", "2Gi", 422, Some(small.to_owned())),
        (
            "a",
            "9Gi",
            403,
            Some(forbidden(
                "a",
                "maximum storage usage per PersistentVolumeClaim is 8Gi, but request is 9Gi",
            )),
        ),
        (
            "b",
            "6Gi",
            403,
            Some(forbidden(
                "b",
                "exceeded quota: q, requested: requests.storage=4Gi, used: requests.storage=7Gi, limited: \
                 requests.storage=10Gi",
            )),
        ),
        ("b", "5Gi", 200, None),
        (
            "fixed",
            "3Gi",
            403,
            Some(forbidden(
                "fixed",
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                 support resize",
            )),
        ),
    ] {
        let response = change(&server, &format!("{claims}/{claim}"), size(requested)).await;
        assert_eq!(
            response.code, code,
            "{claim} {requested}: {}",
            response.text
        );
        let message = response.json["message"].as_str().filter(|_| code != 200);
        let (found, expected) = (
            message.map(message_outline),
            expected.as_deref().map(message_outline),
        );
        assert_eq!(found, expected, "{claim} {requested}");
    }
}
