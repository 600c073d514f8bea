//! Objects that say that they are of another kind than that of the path, or say it in a way that cannot be read.

use serde_json::{Value, json};

use crate::server;

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const STRATEGIC: (&str, &str) = ("content-type", "application/strategic-merge-patch+json");

#[tokio::test]
async fn what_is_of_another_kind_is_refused_in_the_words_of_a_real_server() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned();
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let autoscalers =
        format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
    let unread = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json \
                  parse error: json: cannot unmarshal";
    let scheme = "in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"";
    let body = |version: &str, kind: &str| {
        format!(
            "{{\"apiVersion\":\"{version}\",\"kind\":\"{kind}\",\"metadata\":{{\"name\":\"x\"}}}}"
        )
    };
    let cases = [
        (
            &maps,
            "{\"apiVersion\": 5, \"kind\": \"ConfigMap\"}".to_owned(),
            format!("{unread} number into Go struct field .apiVersion of type string ({{\"apiVersion\": 5, \"kind\": \"Con ...)"),
        ),
        (
            &maps,
            "{\"kind\":true}".to_owned(),
            format!("{unread} bool into Go struct field .kind of type string ({{\"kind\":true}})"),
        ),
        (
            &maps,
            "[]".to_owned(),
            format!(
                "{unread} array into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                 Kind string \"json:\\\"kind,omitempty\\\"\" }} (5b5d)"
            ),
        ),
        (
            &maps,
            "{\"apiVersion\":\"a/b/c\"}".to_owned(),
            "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c \
             ({\"apiVersion\":\"a/b/c\"})"
                .to_owned(),
        ),
        (
            &maps,
            body("v2", "ConfigMap"),
            format!(
                "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for \
                 version \"v2\" {scheme}"
            ),
        ),
        (
            &maps,
            body("apps/v1", "ConfigMap"),
            format!(
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for \
                 version \"apps/v1\" {scheme}"
            ),
        ),
        (
            &maps,
            body("v1", "Pod"),
            "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown \
             conversion"
                .to_owned(),
        ),
        (
            &deployments,
            body("autoscaling/v1", "HorizontalPodAutoscaler"),
            "HorizontalPodAutoscaler in version \"v1\" cannot be handled as a Deployment: converting \
             (v1.HorizontalPodAutoscaler) to (apps.Deployment): unknown conversion"
                .to_owned(),
        ),
        (
            &roles,
            body("rbac.authorization.k8s.io/v1", "Role"),
            "Role in version \"v1\" cannot be handled as a ClusterRole: converting (v1.Role) to (rbac.ClusterRole): \
             unknown conversion"
                .to_owned(),
        ),
        (
            &events,
            body("v1", "Event"),
            "the API version in the data (v1) does not match the expected API version (events.k8s.io/v1)".to_owned(),
        ),
        (
            &autoscalers,
            body("autoscaling/v1", "HorizontalPodAutoscaler"),
            "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
                .to_owned(),
        ),
        (
            &definitions,
            body("v1", "ConfigMap"),
            "ConfigMap in version \"v1\" cannot be handled as a CustomResourceDefinition: no kind \"ConfigMap\" is \
             registered for version \"v1\" in scheme \"k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55\""
                .to_owned(),
        ),
    ];
    for (path, body, said) in cases {
        let answer = server.raw("POST", path, &[JSON], body.clone()).await;
        assert_eq!(
            (answer.code, &answer.json["message"]),
            (400, &json!(said)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_patch_does_not_change_the_kind() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({"metadata": {"name": "m"}}).to_string();
    assert_eq!(server.raw("POST", &maps, &[JSON], map).await.code, 201);
    let path = format!("{maps}/m");
    let send = async |kind: (&str, &str), change: Value| {
        server
            .raw("PATCH", &path, &[kind], change.to_string())
            .await
    };
    for (change, why) in [
        (
            json!({"kind": 5}),
            "}\": couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind \
             of type string",
        ),
        (
            json!({"kind": "Pod"}),
            "}\": converting (v1.Pod) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"apiVersion": "v2"}),
            "}\": no kind \"ConfigMap\" is registered for version \"v2\" in scheme \
             \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
    ] {
        let answer = send(MERGE, change).await;
        let message = answer.json["message"].as_str().unwrap();
        assert!(
            answer.code == 422 && message.ends_with(why),
            "{}",
            answer.text
        );
    }
    // Such a patch knows of fields, and the kind is none.
    let answer = send(STRATEGIC, json!({"kind": "Pod", "apiVersion": "v2"})).await;
    assert_eq!(
        (answer.code, &answer.json["kind"]),
        (200, &json!("ConfigMap")),
        "{}",
        answer.text
    );
}
