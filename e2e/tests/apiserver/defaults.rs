//! Tests of values that the server fills in: priorities of pods, node ports of Services, and tokens in Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::server;
use crate::server::{ApiResponse, TestServer};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn create(server: &TestServer, path: &str, object: Value) -> ApiResponse {
    server.raw("POST", path, &[JSON], object.to_string()).await
}

/// Checks that a pod gets the priority and preemption policy of its PriorityClass. A pod with a different priority or
/// preemption policy gets 403.
#[tokio::test]
async fn pods_get_the_priority_of_their_class() {
    let server = server().await;
    let namespace = server.namespace().await;
    let class = format!("class-{namespace}");
    let object = json!({"metadata": {"name": class}, "value": 7, "preemptionPolicy": "Never"});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(create(&server, classes, object).await.code, 201);
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = |spec: Value| {
        let mut all = json!({"containers": [{"name": "c", "image": "i"}]});
        for (field, value) in spec.as_object().unwrap() {
            all[field.as_str()] = value.clone();
        }
        json!({"metadata": {"name": "p"}, "spec": all})
    };
    let trial = format!("{pods}?dryRun=All");
    // The server may use a new PriorityClass with a delay.
    let given = eventually("the class to apply", async || {
        let response = create(&server, &trial, pod(json!({"priorityClassName": class}))).await;
        if response.code == 201 {
            Ok(response.json["spec"].clone())
        } else {
            Err(response.text)
        }
    })
    .await;
    assert_eq!(given["priority"], 7);
    assert_eq!(given["preemptionPolicy"], "Never");
    let plain = create(&server, &trial, pod(json!({}))).await.json["spec"].take();
    assert_eq!(plain["priority"], 0);
    assert_eq!(plain["preemptionPolicy"], "PreemptLowerPriority");
    for (spec, why) in [
        (
            json!({"priorityClassName": "nothing"}),
            "pods \"p\" is forbidden: no PriorityClass with name nothing was found",
        ),
        (
            json!({"priority": 5}),
            "pods \"p\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority \
             admission controller computed 0 from the given PriorityClass name",
        ),
        (
            json!({"priorityClassName": class, "preemptionPolicy": "PreemptLowerPriority"}),
            "pods \"p\" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided \
             in pod spec; priority admission controller computed Never from the given PriorityClass name",
        ),
    ] {
        let response = create(&server, &trial, pod(spec)).await;
        assert_eq!(
            (response.code, &response.json["message"]),
            (403, &json!(why))
        );
    }
    // An update that omits the priority keeps the stored priority.
    let created = create(&server, &pods, pod(json!({"priorityClassName": class}))).await;
    let mut again = created.json;
    again["spec"].as_object_mut().unwrap().remove("priority");
    let path = format!("{pods}/p");
    let kept = server.raw("PUT", &path, &[JSON], again.to_string()).await;
    assert_eq!(
        (kept.code, &kept.json["spec"]["priority"]),
        (200, &json!(7))
    );
}

/// Checks that a Service gets a free node port, and that another Service with the same node port gets 422.
#[tokio::test]
async fn node_ports_belong_to_one_service() {
    let server = server().await;
    let namespace = server.namespace().await;
    let services = format!("/api/v1/namespaces/{namespace}/services");
    let service = |name: &str, port: Value| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [port]}});
    let first = create(&server, &services, service("first", json!({"port": 80}))).await;
    let port = first.json["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30_000..32_768).contains(&port), "{port}");
    let same = service("second", json!({"port": 81, "nodePort": port}));
    let refused = create(&server, &services, same).await;
    let why = format!(
        "Service \"second\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: provided port is already allocated"
    );
    assert_eq!((refused.code, &refused.json["message"]), (422, &json!(why)));
    // Two Services cannot share a node port, even with different protocols.
    let other = json!({"port": 81, "protocol": "UDP", "nodePort": port});
    let other = create(&server, &services, service("third", other)).await;
    assert_eq!(other.code, 422, "{}", other.text);
    // A replacement that omits the node port keeps the allocated node port.
    let mut again = first.json;
    again["spec"]["ports"][0]
        .as_object_mut()
        .unwrap()
        .remove("nodePort");
    again["metadata"]["labels"] = json!({"a": "b"});
    let path = format!("{services}/first");
    let kept = server.raw("PUT", &path, &[JSON], again.to_string()).await;
    assert_eq!(
        kept.json["spec"]["ports"][0]["nodePort"], port,
        "{}",
        kept.text
    );
}

/// Checks that the server writes a token for the ServiceAccount, its namespace and the CA certificate into a token
/// Secret. A token Secret without an existing ServiceAccount is deleted.
#[tokio::test]
async fn token_secrets_are_filled_in_and_deleted_with_their_account() {
    let server = server().await;
    let namespace = server.namespace().await;
    let base = format!("/api/v1/namespaces/{namespace}");
    let secret = |name: &str, annotations: Value| json!({"metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token"});
    let secrets = format!("{base}/secrets");
    let refused = create(&server, &secrets, secret("s", json!({}))).await;
    let why = "Secret \"s\" is invalid: metadata.annotations[kubernetes.io/service-account.name]: Required value";
    assert_eq!((refused.code, &refused.json["message"]), (422, &json!(why)));
    if server.is_real() {
        // kube-controller-manager, which fills in token Secrets for kube-apiserver, does not run.
        return;
    }
    let account = json!({"metadata": {"name": "robot"}});
    let account = create(&server, &format!("{base}/serviceaccounts"), account).await;
    let of_robot = json!({"kubernetes.io/service-account.name": "robot"});
    let created = create(&server, &secrets, secret("s", of_robot)).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let path = format!("{secrets}/s");
    let filled = async || {
        let found = server.raw("GET", &path, &[], "").await;
        if found.json["data"]["token"].is_string() {
            Ok(found.json)
        } else {
            Err(found.text)
        }
    };
    let found = eventually("the token", filled).await;
    let uid = &found["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(*uid, account.json["metadata"]["uid"]);
    let text = |key: &str| {
        let bytes = STANDARD
            .decode(found["data"][key].as_str().unwrap())
            .unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(text("namespace"), namespace);
    assert!(text("ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    let review = async || {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": text("token")}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        create(&server, path, review).await.json["status"].take()
    };
    let status = review().await;
    let user = format!("system:serviceaccount:{namespace}:robot");
    assert_eq!(status["user"]["username"], user, "{status}");
    // The server fills in a removed token again.
    let merge = ("content-type", "application/merge-patch+json");
    let emptied = json!({"data": {"token": null}}).to_string();
    let emptied = server.raw("PATCH", &path, &[merge], emptied).await;
    assert_eq!(emptied.code, 200, "{}", emptied.text);
    eventually("the token to be restored", filled).await;

    let missing_account = json!({"kubernetes.io/service-account.name": "missing"});
    let account = format!("{base}/serviceaccounts/robot");
    assert_eq!(server.raw("DELETE", &account, &[], "").await.code, 200);
    create(&server, &secrets, secret("orphan", missing_account)).await;
    for name in ["s", "orphan"] {
        let path = format!("{secrets}/{name}");
        eventually("the secret to be deleted", async || {
            let found = server.raw("GET", &path, &[], "").await;
            if found.code == 404 {
                Ok(())
            } else {
                Err(found.text)
            }
        })
        .await;
    }
    assert!(review().await["authenticated"] != true);
}
