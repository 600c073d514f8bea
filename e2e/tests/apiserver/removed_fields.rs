//! Removal of structs, such as probes and volumes, that a server-side apply no longer sets. When the last field manager
//! stops setting fields of a struct, the server also removes the defaults of the struct.

use serde_json::{Value, json};

use crate::harness::objects::{Objects, deployment, map, status_of};
use crate::harness::server;

/// A function that changes the pod spec in the template of a Deployment.
type Change = fn(&mut Value);

fn deployment_with(change: Change) -> Value {
    let mut web = deployment("web");
    change(&mut web["spec"]["template"]["spec"]);
    web
}

fn probe(pod: &mut Value) {
    pod["containers"][0]["livenessProbe"] = json!({"httpGet": {"path": "/", "port": 80}});
}

/// Checks that the defaults of a struct are removed after its only applier stops setting the struct. If the applier
/// replaces a field by an alternative field, only the alternative field remains.
#[tokio::test]
async fn structs_without_applied_fields_are_removed_with_their_defaults() {
    let server = server().await;
    let cases: [(&str, Change, Change, &str, Value); 6] = [
        (
            "probe",
            probe,
            |_| {},
            "/containers/0/livenessProbe",
            Value::Null,
        ),
        (
            "action",
            probe,
            |pod| pod["containers"][0]["livenessProbe"] = json!({"tcpSocket": {"port": 80}}),
            "/containers/0/livenessProbe",
            json!({"tcpSocket": {"port": 80}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
                "failureThreshold": 3}),
        ),
        (
            "volume",
            |pod| pod["volumes"] = json!([{"name": "v", "configMap": {"name": "x"}}]),
            |pod| pod["volumes"] = json!([{"name": "v", "secret": {"secretName": "x"}}]),
            "/volumes/0",
            json!({"name": "v", "secret": {"secretName": "x", "defaultMode": 420}}),
        ),
        (
            "variable",
            |pod| {
                pod["containers"][0]["env"] = json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
            },
            |_| {},
            "/containers/0/env",
            json!([{"name": "A", "value": "1"}]),
        ),
        (
            "hook",
            |pod| {
                pod["containers"][0]["lifecycle"] =
                    json!({"preStop": {"httpGet": {"path": "/", "port": 80}}});
            },
            |pod| pod["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 1}}}),
            "/containers/0/lifecycle",
            json!({"preStop": {"sleep": {"seconds": 1}}}),
        ),
        (
            "limits",
            |pod| pod["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}}),
            |_| {},
            "/containers/0/resources",
            json!({}),
        ),
    ];
    for (case, before, after, place, expected) in cases {
        let deployments = Objects::deployments(&server, &server.namespace().await);
        let created = deployments
            .apply("web", "one", &deployment_with(before))
            .await;
        assert_eq!(created.code, 201, "{case}: {}", created.text);
        let now = deployments
            .apply("web", "one", &deployment_with(after))
            .await;
        assert_eq!(now.code, 200, "{case}: {}", now.text);
        let pod = &now.json["spec"]["template"]["spec"];
        let left = pod.pointer(place).unwrap_or(&Value::Null);
        assert_eq!(*left, expected, "{case}");
    }
}

/// Checks that a struct remains while another applier owns one of its fields. If an apply leaves only fields that make
/// the struct invalid, the apply is refused.
#[tokio::test]
async fn struct_fields_of_other_appliers_remain() {
    let server = server().await;
    let deployments = Objects::deployments(&server, &server.namespace().await);
    let mut first = deployment_with(probe);
    first["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1}});
    deployments.apply("web", "one", &first).await;
    let probe_period = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "livenessProbe": {"periodSeconds": 20}}]}}}});
    let second_apply = deployments
        .apply("web", "two&force=true", &probe_period)
        .await;
    assert_eq!(second_apply.code, 200, "{}", second_apply.text);
    let refused = deployments.apply("web", "one", &deployment("web")).await;
    let why = "Deployment.apps \"web\" is invalid: spec.template.spec.containers[0].livenessProbe: Required value: must \
               specify a handler type";
    assert_eq!(status_of(&refused), (422, why));
    let kept = deployments
        .apply("web", "one", &deployment_with(probe))
        .await
        .json;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    assert_eq!(kept["spec"]["strategy"], strategy);
    let container = &kept["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["livenessProbe"]["periodSeconds"], 20);
}

/// Checks that an apply without metadata is refused, because the name is removed too. The apply succeeds if another
/// manager owns a part of the metadata.
#[tokio::test]
async fn removing_all_applied_metadata_removes_the_name() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let labelled = map("m", json!({"k": "v"}), json!({"a": "b"}));
    maps.apply("m", "one", &labelled).await;
    let mut without = map("m", json!({"k": "v"}), Value::Null);
    without.as_object_mut().unwrap().remove("metadata");
    let refused = maps.apply("m", "one", &without).await;
    let why = "the name of the object (m based on URL) was undeterminable: name must be provided";
    assert_eq!(status_of(&refused), (400, why));
    // The metadata remains if another manager owns a label.
    let other = map("m", Value::Null, json!({"c": "d"}));
    maps.apply("m", "two", &other).await;
    let done = maps.apply("m", "one", &without).await;
    assert_eq!(done.code, 200, "{}", done.text);
    assert_eq!(done.json["metadata"]["labels"], json!({"c": "d"}));
}
