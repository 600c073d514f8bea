//! Protection against privilege escalation through Roles and RoleBindings.

use berth_e2e::eventually;
use kube::Client;
use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::objects::{ResponseStatus, status_of};
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer, raw};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

/// A namespace with the Roles `strong` and `writing`, and a RoleBinding for each Role.
struct Scene {
    /// The path of the namespace in the RBAC API.
    path: String,
    /// A client that may write Roles and RoleBindings, and lacks the rights of `strong`.
    writer: Client,
}

impl Scene {
    /// Creates the namespace. The Role of the writer also has `extra_rules`.
    async fn new(server: &TestServer, extra_rules: Value) -> Self {
        let namespace = server.namespace().await;
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        server
            .create(&accounts, json!({"metadata": {"name": "writer"}}))
            .await;
        let path = format!("{accounts}/writer/token");
        let token = server.raw("POST", &path, &[JSON], "{}").await;
        let token = token.json["status"]["token"].as_str().unwrap().to_owned();
        let path = format!("{RBAC}/namespaces/{namespace}");
        let strong = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
        let mut rules = vec![
            json!({"apiGroups": [GROUP], "resources": ["roles", "rolebindings"],
            "verbs": ["create", "get", "update", "patch"]}),
        ];
        rules.extend(extra_rules.as_array().unwrap().iter().cloned());
        let subject = json!({"kind": "ServiceAccount", "name": "writer", "namespace": namespace});
        for (role, rules) in [("strong", strong), ("writing", json!(rules))] {
            let object = json!({"metadata": {"name": role}, "rules": rules});
            server.create(&format!("{path}/roles"), object).await;
        }
        for (role, subjects) in [("strong", json!([])), ("writing", json!([subject]))] {
            let object = json!({"metadata": {"name": role}, "subjects": subjects,
                "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": role}});
            server.create(&format!("{path}/rolebindings"), object).await;
        }
        let writer = server.with_token(Some(&token)).await;
        eventually("the rights to apply", async || {
            let path = format!("{path}/roles/writing");
            match raw(&writer, "GET", &path, &[], "").await.code {
                200 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        Self { path, writer }
    }

    async fn merge(&self, rest: &str, change: Value) -> ApiResponse {
        let path = format!("{}/{rest}", self.path);
        raw(&self.writer, "PATCH", &path, &[MERGE], change.to_string()).await
    }

    async fn post(&self, rest: &str, object: Value) -> ApiResponse {
        let path = format!("{}/{rest}", self.path);
        raw(&self.writer, "POST", &path, &[JSON], object.to_string()).await
    }
}

/// Checks that the server refused a write that would grant the rights of `strong`.
fn assert_refused(response: &ApiResponse) {
    let ResponseStatus(code, message) = status_of(response);
    let reason = "is attempting to grant RBAC permissions not currently held";
    assert!(code == 403 && message.contains(reason), "{message}");
}

/// Checks that a client cannot change the labels of a Role that has rights that the client lacks. The client cannot
/// change the labels of a RoleBinding to such a Role either.
#[tokio::test]
async fn roles_with_more_rights_cannot_even_be_labelled() {
    let server = server().await;
    let scene = Scene::new(&server, json!([])).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    for resource in ["roles", "rolebindings"] {
        let response = scene
            .merge(&format!("{resource}/strong"), label.clone())
            .await;
        assert_refused(&response);
    }
    // The client may change the finalizers of these objects. The client may also label a Role if the client has all
    // rights of this Role.
    let held_back = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    for (what, change) in [
        ("roles/strong", &held_back),
        ("rolebindings/strong", &held_back),
        ("roles/strong", &json!({"metadata": {"finalizers": null}})),
        (
            "rolebindings/strong",
            &json!({"metadata": {"finalizers": null}}),
        ),
        ("roles/writing", &label),
        ("rolebindings/writing", &label),
    ] {
        let response = scene.merge(what, change.clone()).await;
        assert_eq!(response.code, 200, "{what}: {}", response.text);
    }
}

/// Checks that the verb `escalate` permits a client to create a Role with rights that the client lacks. The verb `bind`
/// permits a RoleBinding to such a Role. Neither verb permits the other operation.
#[tokio::test]
async fn the_verbs_escalate_and_bind_allow_escalation() {
    let server = server().await;
    let strong = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let role = |name: &str| json!({"metadata": {"name": name}, "rules": strong});
    let binding = |name: &str, kind: &str, role: &str| {
        json!({"metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
            "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "user"}]})
    };
    let escalates = json!([{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]}]);
    let scene = Scene::new(&server, escalates).await;
    let response = scene.post("roles", role("more")).await;
    assert_eq!(response.code, 201, "{}", response.text);
    let response = scene
        .post("rolebindings", binding("b", "Role", "strong"))
        .await;
    assert_refused(&response);

    let binds = json!([{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["bind"],
        "resourceNames": ["strong"]}]);
    let scene = Scene::new(&server, binds).await;
    let response = scene
        .post("rolebindings", binding("b", "Role", "strong"))
        .await;
    assert_eq!(response.code, 201, "{}", response.text);
    let response = scene.post("roles", role("more")).await;
    assert_refused(&response);
    let response = scene
        .post("rolebindings", json!({"metadata": {"name": "nothing"}}))
        .await;
    assert_eq!(
        status_of(&response),
        (500, "unsupported role reference kind: \"\"")
    );
}
