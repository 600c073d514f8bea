//! Writes to subresources: `binding` and `status` of pods, `scale` of Deployments, `finalize` of namespaces, and
//! `approval` and `status` of certificate signing requests.

use base64::Engine;
use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::server;

/// Checks that the `binding` subresource sets the node of a pod, and merges the labels and annotations of the binding
/// into the pod. Invalid bindings and a second binding are refused.
#[tokio::test]
async fn pod_bindings_set_node_labels_and_annotations() {
    let server = server().await;
    let pods = format!("/api/v1/namespaces/{}/pods", server.namespace().await);
    let meta = json!({"name": "p", "labels": {"a": "1"}, "annotations": {"x": "1"}});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let created = server
        .create(&pods, json!({"metadata": meta, "spec": spec}))
        .await;
    let node = json!({"kind": "Node", "name": "n"});
    let path = format!("{pods}/p/binding");
    for (binding, code) in [
        (json!({"target": node}), 400),
        (json!({"metadata": {"name": "other"}, "target": node}), 400),
        (
            json!({"metadata": {"name": "p", "namespace": "other"}, "target": node}),
            400,
        ),
        (json!({"metadata": {"name": "p"}}), 500),
        (
            json!({"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n"}}),
            500,
        ),
        (
            json!({"metadata": {"name": "p", "uid": "u"}, "target": node}),
            409,
        ),
    ] {
        let response = server
            .raw("POST", &path, &[JSON], binding.to_string())
            .await;
        assert_eq!(response.code, code, "{binding}");
    }

    let meta = json!({"name": "p", "labels": {"a": "2", "l": "m"}, "annotations": {"y": "2"}});
    let binding = json!({"metadata": meta, "target": node});
    server
        .create(&format!("{path}?dryRun=All"), binding.clone())
        .await;
    let pod = server.raw("GET", &format!("{pods}/p"), &[], "").await.json;
    assert_eq!(
        pod["spec"]["nodeName"],
        json!(null),
        "a dry run must not set the node"
    );
    server.create(&path, binding).await;
    let pod = server.raw("GET", &format!("{pods}/p"), &[], "").await.json;
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["metadata"]["labels"], json!({"a": "2", "l": "m"}));
    assert_eq!(pod["metadata"]["annotations"], json!({"x": "1", "y": "2"}));
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(pod["status"]["conditions"][0]["status"], "True");
    assert_eq!(
        pod["metadata"]["generation"],
        created["metadata"]["generation"]
    );
    assert_eq!(
        pod["metadata"]["managedFields"],
        created["metadata"]["managedFields"]
    );
    let again = json!({"metadata": {"name": "p"}, "target": {"name": "m"}}).to_string();
    let again = server.raw("POST", &path, &[JSON], again).await;
    assert_eq!(
        (again.code, again.json["message"].as_str()),
        (
            409,
            Some(
                "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""
            )
        )
    );
}

/// Checks that `scale` refuses invalid replicas, and that the managed fields of a write to `scale` have no time.
#[tokio::test]
async fn scale_is_validated_and_its_managed_fields_have_no_time() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    server
        .create(
            &deployments,
            json!({"metadata": {"name": "d"}, "spec": spec}),
        )
        .await;
    let path = format!("{deployments}/d/scale");
    for (replicas, why) in [
        (json!(-1), "must be greater than or equal to 0"),
        (json!("x"), "of type int32"),
        (json!(3_000_000_000_u32), "of type int32"),
    ] {
        let change = json!({"spec": {"replicas": replicas}}).to_string();
        let response = server.raw("PATCH", &path, &[MERGE], change).await;
        let message = response.json["message"].as_str().unwrap();
        assert!(
            response.code == 422 && message.ends_with(why),
            "{}",
            response.text
        );
    }
    let change = json!({"spec": {"replicas": 4}}).to_string();
    let as_scaler = format!("{path}?fieldManager=scaler");
    assert_eq!(
        server.raw("PATCH", &as_scaler, &[MERGE], change).await.code,
        200
    );
    let deployment = server
        .raw("GET", &format!("{deployments}/d"), &[], "")
        .await
        .json;
    let writers = deployment["metadata"]["managedFields"].as_array().unwrap();
    let writer = writers
        .iter()
        .find(|writer| writer["subresource"] == "scale")
        .unwrap();
    let expected = json!({"manager": "scaler", "operation": "Update", "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}, "subresource": "scale"});
    assert_eq!(*writer, expected);
}

#[tokio::test]
async fn namespace_finalizers_are_validated() {
    let server = server().await;
    let name = server.namespace().await;
    let path = format!("/api/v1/namespaces/{name}/finalize?dryRun=All");
    let finalize = async |finalizers: Value| {
        let body = json!({"metadata": {"name": name}, "spec": {"finalizers": finalizers}});
        server.raw("PUT", &path, &[JSON], body.to_string()).await
    };
    let refused = finalize(json!(["kubernetes", "x"])).await;
    let causes = ["spec.finalizers[1] FieldValueInvalid".to_owned()];
    assert_eq!((refused.code, refused.causes()), (422, causes.into()));
    let own = json!(["kubernetes", "example.com/x"]);
    assert_eq!(finalize(own.clone()).await.json["spec"]["finalizers"], own);
}

/// Checks that a write to the status of a certificate signing request keeps the message of the approval, and sets the
/// transition time of a new condition.
#[tokio::test]
async fn status_updates_keep_the_approval_of_certificate_requests() {
    let server = server().await;
    let name = server.namespace().await;
    let pair = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default()
        .serialize_request(&pair)
        .unwrap();
    let request = base64::engine::general_purpose::STANDARD.encode(request.pem().unwrap());
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec =
        json!({"request": request, "signerName": "example.com/s", "usages": ["client auth"]});
    server
        .create(requests, json!({"metadata": {"name": name}, "spec": spec}))
        .await;
    let patch_conditions = async |part: &str, conditions: Value| {
        let change = json!({"status": {"conditions": conditions}}).to_string();
        let path = format!("{requests}/{name}/{part}");
        server.raw("PATCH", &path, &[MERGE], change).await
    };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let approved = condition("Approved", "True");
    let failed = condition("Failed", "True");
    let mut with_message = approved.clone();
    with_message["message"] = json!("fine");
    assert_eq!(
        patch_conditions("approval", json!([with_message]))
            .await
            .code,
        200
    );
    let both = patch_conditions("status", json!([approved, failed])).await;
    let conditions = &both.json["status"]["conditions"];
    assert_eq!(conditions[0]["message"], "fine", "{}", both.text);
    assert!(
        conditions[1]["lastTransitionTime"].is_string(),
        "{}",
        both.text
    );
}

/// Checks that a status update whose `observedGeneration` is null keeps the earlier value, in the status and in a
/// condition.
#[tokio::test]
async fn pod_status_updates_keep_the_observed_generation() {
    let server = server().await;
    let pods = format!("/api/v1/namespaces/{}/pods", server.namespace().await);
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    server.create(&pods, pod).await;
    let path = format!("{pods}/p/status");
    let patch_status = async |status: Value| {
        let change = json!({"status": status}).to_string();
        server.raw("PATCH", &path, &[MERGE], change).await
    };
    let condition = |status: &str, seen: Value| json!([{"type": "Ready", "status": status, "observedGeneration": seen}]);
    let first = json!({"observedGeneration": 3, "conditions": condition("True", json!(2))});
    assert_eq!(patch_status(first).await.code, 200);
    let next = patch_status(json!({"observedGeneration": null, "qosClass": null,
        "conditions": condition("False", Value::Null)}))
    .await;
    assert_eq!(next.code, 200, "{}", next.text);
    let status = &next.json["status"];
    assert_eq!(status["observedGeneration"], 3);
    assert_eq!(status["qosClass"], "Burstable");
    let expected = json!([{"type": "Ready", "status": "False", "observedGeneration": 2, "lastProbeTime": null,
        "lastTransitionTime": null}]);
    assert_eq!(status["conditions"], expected);
    let wrong = patch_status(json!({"observedGeneration": -1})).await;
    let causes = ["status.observedGeneration FieldValueInvalid".to_owned()];
    assert_eq!((wrong.code, wrong.causes()), (422, causes.into()));
}
