//! Tests of RBAC authorization: decisions, error messages and default roles. To send a request as a user, the tests
//! send it as the administrator who impersonates this user.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub(crate) const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

pub(crate) fn unique(prefix: &str) -> String {
    format!(
        "{prefix}-{}",
        &uuid::Uuid::new_v4().simple().to_string()[..8]
    )
}

/// Sends a request as a user in the group `devs`.
pub(crate) async fn request_as(
    server: &TestServer,
    user: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> ApiResponse {
    let headers = [
        JSON,
        ("impersonate-user", user),
        ("impersonate-group", "devs"),
    ];
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    server.raw(method, path, &headers, body).await
}

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]})
}

/// Creates a Role with these rules, binds the Role to a user, and waits until the server applies the first rule.
pub(crate) async fn grant(server: &TestServer, namespace: &str, user: &str, rules: Value) {
    let path = format!("{RBAC}/namespaces/{namespace}");
    let first = rules[0].clone();
    server
        .create(&format!("{path}/roles"), role("given", rules))
        .await;
    server
        .create(
            &format!("{path}/rolebindings"),
            binding("given", "Role", "given", user),
        )
        .await;
    let review = json!({"spec": {"user": user, "resourceAttributes": {
        "namespace": namespace, "verb": first["verbs"][0], "group": first["apiGroups"][0],
        "resource": first["resources"][0], "name": first["resourceNames"][0]}}});
    eventually("the rights to apply", async || {
        let path = format!("{REVIEWS}/subjectaccessreviews");
        let response = server.raw("POST", &path, &[JSON], review.to_string()).await;
        if response.json["status"]["allowed"] == true {
            Ok(())
        } else {
            Err(response.text)
        }
    })
    .await;
}

/// Checks that a request without the required right gets 403. The message names the user, the verb, the resource and
/// the namespace.
#[tokio::test]
async fn refusals_name_user_verb_resource_and_namespace() {
    let server = server().await;
    let cases = [
        (
            "GET",
            "/api/v1/namespaces/default/configmaps",
            r#"configmaps is forbidden: User "zoe" cannot list resource "configmaps" in API group "" in the namespace "default""#,
            json!({"kind": "configmaps"}),
        ),
        (
            "GET",
            "/api/v1/namespaces/default/configmaps/foo",
            r#"configmaps "foo" is forbidden: User "zoe" cannot get resource "configmaps" in API group "" in the namespace "default""#,
            json!({"kind": "configmaps", "name": "foo"}),
        ),
        (
            "GET",
            "/api/v1/nodes?watch=true",
            r#"nodes is forbidden: User "zoe" cannot watch resource "nodes" in API group "" at the cluster scope"#,
            json!({"kind": "nodes"}),
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/p/log",
            r#"pods "p" is forbidden: User "zoe" cannot get resource "pods/log" in API group "" in the namespace "default""#,
            json!({"kind": "pods", "name": "p"}),
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/default/deployments/x/scale",
            r#"deployments.apps "x" is forbidden: User "zoe" cannot update resource "deployments/scale" in API group "apps" in the namespace "default""#,
            json!({"kind": "deployments", "name": "x", "group": "apps"}),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default",
            r#"namespaces "default" is forbidden: User "zoe" cannot delete resource "namespaces" in API group "" in the namespace "default""#,
            json!({"kind": "namespaces", "name": "default"}),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/pods",
            r#"pods is forbidden: User "zoe" cannot deletecollection resource "pods" in API group "" in the namespace "default""#,
            json!({"kind": "pods"}),
        ),
        (
            "GET",
            "/apis/nothing/v1/foos",
            r#"foos.nothing is forbidden: User "zoe" cannot list resource "foos" in API group "nothing" at the cluster scope"#,
            json!({"kind": "foos", "group": "nothing"}),
        ),
        (
            "GET",
            "/foo/bar",
            r#"forbidden: User "zoe" cannot get path "/foo/bar""#,
            json!({}),
        ),
    ];
    for (method, path, message, details) in cases {
        let response = request_as(&server, "zoe", method, path, &Value::Null).await;
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Forbidden", "details": details, "code": 403});
        assert_eq!((response.code, &response.json), (403, &expected), "{path}");
    }
    // All authenticated users may read discovery documents.
    for path in ["/api", "/apis", "/apis/apps/v1", "/openapi/v3"] {
        let response = request_as(&server, "zoe", "GET", path, &Value::Null).await;
        assert_eq!(response.code, 200, "{path}");
    }
}

/// Checks that a Role allows only its verbs, on its resources and resource names, in its namespace. All other requests
/// get 403.
#[tokio::test]
async fn rights_are_limited_to_names_verbs_and_namespaces() {
    let server = server().await;
    let (namespace, elsewhere) = (server.namespace().await, server.namespace().await);
    let user = unique("user");
    grant(
        &server,
        &namespace,
        &user,
        json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"]},
            {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]},
        ]),
    )
    .await;
    let map = json!({"metadata": {"name": "a"}});
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let secret = |name: &str| format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let scale = format!("/apis/apps/v1/namespaces/{namespace}/deployments/none");
    for (method, path, code) in [
        ("POST", maps(&namespace), 201),
        ("GET", format!("{}/a", maps(&namespace)), 200),
        ("GET", maps(&namespace), 403),
        ("DELETE", format!("{}/a", maps(&namespace)), 403),
        ("POST", maps(&elsewhere), 403),
        ("GET", secret("mine"), 404),
        ("GET", secret("yours"), 403),
        ("GET", format!("{scale}/scale"), 404),
        ("GET", scale, 403),
    ] {
        let response = request_as(&server, &user, method, &path, &map).await;
        assert_eq!(response.code, code, "{method} {path}: {}", response.text);
    }
}

/// Checks that a user who may create Roles and RoleBindings can grant only the rights that the user has.
#[tokio::test]
async fn users_cannot_grant_rights_they_do_not_hold() {
    let server = server().await;
    let namespace = server.namespace().await;
    let user = unique("user");
    let manage = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
            "verbs": ["create", "update", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"], "resourceNames": ["a"]},
    ]);
    grant(&server, &namespace, &user, manage).await;
    let path = format!("{RBAC}/namespaces/{namespace}");
    let (roles, bindings) = (format!("{path}/roles"), format!("{path}/rolebindings"));
    let held = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]);
    let response = request_as(&server, &user, "POST", &roles, &role("less", held)).await;
    assert_eq!(response.code, 201, "{}", response.text);
    let more = json!([
        {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a", "b"]},
    ]);
    let response = request_as(&server, &user, "POST", &roles, &role("more", more)).await;
    let message = response.json["message"].as_str().unwrap_or_default();
    let reason = "is attempting to grant RBAC permissions not currently held";
    assert!(
        response.code == 403 && message.contains(reason),
        "{message}"
    );
    for (kind, name, code) in [
        ("ClusterRole", "cluster-admin", 403),
        ("ClusterRole", "there-is-none", 404),
        ("Role", "less", 201),
    ] {
        let wanted = binding(&unique("b"), kind, name, &user);
        let response = request_as(&server, &user, "POST", &bindings, &wanted).await;
        assert_eq!(response.code, code, "{name}: {}", response.text);
    }
}

/// Checks that a new server has the default ClusterRoles of Kubernetes, each with the expected number of rules.
#[tokio::test]
async fn default_cluster_roles_exist() {
    let server = server().await;
    let get = async |path: &str| {
        server
            .raw("GET", &format!("{RBAC}/{path}"), &[], "")
            .await
            .json
    };
    let admin = get("clusterroles/cluster-admin").await;
    assert_eq!(
        admin["rules"],
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]}])
    );
    for (name, rules) in [
        ("system:aggregate-to-admin", 2),
        ("system:aggregate-to-edit", 15),
        ("system:aggregate-to-view", 12),
        ("system:auth-delegator", 2),
        ("system:basic-user", 2),
        ("system:discovery", 1),
        ("system:monitoring", 2),
        ("system:public-info-viewer", 1),
    ] {
        let role = get(&format!("clusterroles/{name}")).await;
        assert_eq!(
            role["rules"].as_array().map(Vec::len),
            Some(rules),
            "{name}"
        );
    }
    for name in ["admin", "edit", "view"] {
        let role = get(&format!("clusterroles/{name}")).await;
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        let selects = &role["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"][&label];
        assert_eq!(selects, "true", "{role}");
        // A real kube-apiserver leaves the aggregation of these rules to kube-controller-manager, which does not run.
        assert!(
            server.is_kube_apiserver() || role["rules"].as_array().is_some_and(|r| r.len() > 10)
        );
    }
    let public = get("clusterrolebindings/system:public-info-viewer").await;
    assert_eq!(public["subjects"].as_array().map(Vec::len), Some(2));
}

/// Checks the output of `kubectl auth whoami`, `kubectl auth can-i` and `kubectl create token`, and the error message
/// of a forbidden `kubectl get`.
#[needs(kubectl)]
#[tokio::test]
async fn kubectl_whoami_and_can_i_work() {
    let server = server().await;
    let namespace = server.namespace().await;
    let run = async |arguments: &[&str]| {
        let output = server.kubectl(arguments).await;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        (output.status.success(), text)
    };
    let (ok, text) = run(&["auth", "whoami", "--as=eve", "--as-group=devs"]).await;
    assert!(
        ok && text.contains("eve") && text.contains("[devs system:authenticated]"),
        "{text}"
    );
    let cases: [(&[&str], &str); 4] = [
        (&["auth", "can-i", "delete", "pods"], "yes\n"),
        (&["auth", "can-i", "delete", "pods", "--as=eve"], "no\n"),
        (&["auth", "can-i", "get", "/healthz", "--as=eve"], "yes\n"),
        (&["auth", "can-i", "get", "/metrics", "--as=eve"], "no\n"),
    ];
    for (arguments, expected) in cases {
        let (_, text) = run(arguments).await;
        assert_eq!(text, expected, "{arguments:?}");
    }
    let list = ["auth", "can-i", "--list", "--as=eve", "-n", &namespace];
    let (ok, text) = run(&list).await;
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(line).collect();
    assert!(ok, "{text}");
    for held in [
        "Resources Non-Resource URLs Resource Names Verbs",
        "selfsubjectaccessreviews.authorization.k8s.io [] [] [create]",
        "[/apis/*] [] [get]",
    ] {
        assert!(lines.iter().any(|line| line == held), "{held}: {text}");
    }
    let (ok, text) = run(&["create", "serviceaccount", "bot", "-n", &namespace]).await;
    assert!(ok, "{text}");
    let (ok, token) = run(&["create", "token", "bot", "-n", &namespace, "--duration=15m"]).await;
    assert!(ok && token.split('.').count() == 3, "{token}");
    let (ok, text) = run(&["get", "configmaps", "-n", &namespace, "--as=eve"]).await;
    let expected = format!(
        "Error from server (Forbidden): configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{namespace}\"\n"
    );
    assert!(!ok);
    assert_eq!(text, expected);
}
