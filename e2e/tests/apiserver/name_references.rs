//! Names that fields of an object use for other parts of the same object: volumes, containers and resource claims.

use serde_json::{Value, json};

use crate::harness::objects::Objects;
use crate::harness::server;

/// Returns a stateful set with the claim template `data`, whose pods have this spec.
fn stateful_set(name: &str, pod: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}]}})
}

/// Returns a container with these fields.
fn container(fields: Value) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    for (name, value) in fields.as_object().unwrap() {
        container[name.as_str()] = value.clone();
    }
    container
}

/// Checks that a claim template is a volume for all references of a stateful set, also in place of a volume with the
/// same name.
#[tokio::test]
async fn claim_templates_are_volumes() {
    let server = server().await;
    let namespace = server.namespace().await;
    let sets = Objects::at(
        &server,
        format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"),
    );
    let mounts = json!([{"name": "data", "mountPath": "/x"}]);
    let plain = container(json!({}));
    let mounting = container(json!({"volumeMounts": mounts}));
    let init = json!({"name": "i", "image": "i", "volumeMounts": mounts});
    for (name, pod) in [
        ("main", json!({"containers": [mounting]})),
        (
            "init",
            json!({"containers": [plain], "initContainers": [init]}),
        ),
        (
            "beside",
            json!({"containers": [mounting], "volumes": [{"name": "config", "configMap": {"name": "m"}}]}),
        ),
        (
            "device",
            json!({"containers": [container(json!({"volumeDevices": [{"name": "data", "devicePath": "/x"}]}))]}),
        ),
        // The claim replaces the volume, so the volume is not validated.
        (
            "replaced",
            json!({"containers": [mounting], "volumes": [{"name": "data", "configMap": {}}]}),
        ),
        // The controller sets these fields of the pods.
        (
            "identity",
            json!({"containers": [plain], "hostname": "No_name", "subdomain": "No_name"}),
        ),
    ] {
        let response = sets.post("", &stateful_set(name, &pod)).await;
        assert_eq!(response.code, 201, "{name}: {}", response.text);
    }
    let other = json!([{"name": "other", "mountPath": "/x"}]);
    let pod = json!({"containers": [container(json!({"volumeMounts": other}))]});
    let response = sets.post("", &stateful_set("other", &pod)).await;
    assert_eq!(
        (response.code, response.causes()),
        (
            422,
            vec![
                "spec.template.spec.containers[0].volumeMounts[0].name FieldValueNotFound"
                    .to_owned()
            ]
        )
    );
    let scaled = sets.merge("/main", &json!({"spec": {"replicas": 2}})).await;
    assert_eq!(scaled.code, 200, "{}", scaled.text);
}

/// Checks that a reference to a volume, container or resource claim needs an object of this name and of the right
/// type.
#[tokio::test]
async fn references_name_existing_parts() {
    let server = server().await;
    let namespace = server.namespace().await;
    let jobs = Objects::at(
        &server,
        format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
    );
    let job = |name: &str, fields: Value, container_of_rule: &str| {
        let files = json!([{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "scratch", "path": "p", "key": "k"}}}]);
        let mut main = container(
            json!({"env": files, "resources": {"claims": [{"name": "gpu"}]},
            "volumeDevices": [{"name": "disk", "devicePath": "/x"}], "volumeMounts": [{"name": "map", "mountPath": "/y"}]}),
        );
        for (name, value) in fields.as_object().unwrap() {
            main[name.as_str()] = value.clone();
        }
        json!({"metadata": {"name": name}, "spec": {
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes":
                {"containerName": container_of_rule, "operator": "In", "values": [1]}}]},
            "template": {"spec": {"restartPolicy": "Never", "containers": [main],
                "initContainers": [{"name": "i", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
                "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "map", "configMap": {"name": "m"}},
                    {"name": "disk", "persistentVolumeClaim": {"claimName": "d"}}]}}}})
    };
    for (name, container_of_rule) in [("main", "c"), ("init", "i")] {
        let response = jobs
            .post("", &job(name, json!({}), container_of_rule))
            .await;
        assert_eq!(response.code, 201, "{name}: {}", response.text);
    }
    let file_of = |volume: &str| {
        let source = json!({"fileKeyRef": {"volumeName": volume, "path": "p", "key": "k"}});
        json!({"env": [{"name": "A", "valueFrom": source}]})
    };
    let device = |volume: &str| json!({"volumeDevices": [{"name": volume, "devicePath": "/x"}]});
    let name_of_file = "spec.template.spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName";
    for (fields, container_of_rule, cause) in [
        (
            device("none"),
            "c",
            "spec.template.spec.containers[0].volumeDevices[0].name FieldValueNotFound".to_owned(),
        ),
        (
            device("map"),
            "c",
            "spec.template.spec.containers[0].volumeDevices[0].name FieldValueInvalid".to_owned(),
        ),
        (
            file_of("none"),
            "c",
            format!("{name_of_file} FieldValueNotFound"),
        ),
        (
            file_of("map"),
            "c",
            format!("{name_of_file} FieldValueInvalid"),
        ),
        (
            json!({"resources": {"claims": [{"name": "none"}]}}),
            "c",
            "spec.template.spec.containers[0].resources.claims[0] FieldValueNotFound".to_owned(),
        ),
        (
            json!({}),
            "none",
            "spec.podFailurePolicy.rules[0].onExitCodes.containerName FieldValueInvalid".to_owned(),
        ),
    ] {
        let response = jobs.post("", &job("bad", fields, container_of_rule)).await;
        assert_eq!(
            (response.code, response.causes()),
            (422, vec![cause]),
            "{}",
            response.text
        );
    }
}

/// Checks that an ephemeral container may use the volumes of its pod, and that its target is a container of the pod.
#[tokio::test]
async fn ephemeral_containers_refer_to_their_pod() {
    let server = server().await;
    let namespace = server.namespace().await;
    let pods = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/pods"));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container(json!({}))],
        "volumes": [{"name": "scratch", "emptyDir": {}}]}});
    pods.create(&pod).await;
    let path = "spec.ephemeralContainers[0]";
    for (fields, expected) in [
        (
            json!({"targetContainerName": "none"}),
            Some(format!("{path}.targetContainerName FieldValueNotFound")),
        ),
        (
            json!({"volumeMounts": [{"name": "none", "mountPath": "/x"}]}),
            Some(format!("{path}.volumeMounts[0].name FieldValueNotFound")),
        ),
        (
            json!({"name": "c"}),
            Some(format!("{path}.name FieldValueDuplicate")),
        ),
        (
            json!({"targetContainerName": "c", "volumeMounts": [{"name": "scratch", "mountPath": "/x"}]}),
            None,
        ),
    ] {
        let mut debugger = json!({"name": "debugger", "image": "i"});
        for (name, value) in fields.as_object().unwrap() {
            debugger[name.as_str()] = value.clone();
        }
        let body = json!({"spec": {"ephemeralContainers": [debugger]}});
        let response = pods.strategic("/p/ephemeralcontainers", &body).await;
        let code = if expected.is_some() { 422 } else { 200 };
        assert_eq!(
            (response.code, response.causes()),
            (code, Vec::from_iter(expected)),
            "{}",
            response.text
        );
    }
}
