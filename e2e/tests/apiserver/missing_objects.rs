//! Tests of PUT and apply requests for objects that do not exist.
//!
//! A PUT request creates missing objects of some kinds. An apply request creates missing objects of all kinds. Both
//! need the right to create the object. Further tests cover the resource version in PUT and POST requests.

use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::objects::{Objects, status_of};
use crate::harness::server;

const APPLY: &str = "application/apply-patch+yaml";
const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks that a PUT request for a missing object creates the object for some kinds, such as Service and Lease, and
/// gets 404 for the others.
#[tokio::test]
async fn put_creates_missing_objects_of_some_kinds() {
    let server = server().await;
    let namespace = server.namespace().await;
    let role = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let binding = json!({"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}});
    let pod = json!({"kind": "Pod", "name": "p", "namespace": namespace});
    let labels = json!({"selector": {"matchLabels": {"a": "b"}}});
    for (path, object, code) in [
        (
            "/api/v1/NS/services",
            json!({"spec": {"ports": [{"port": 80}]}}),
            201,
        ),
        (
            "/api/v1/NS/limitranges",
            json!({"spec": {"limits": []}}),
            201,
        ),
        ("/api/v1/NS/endpoints", json!({}), 201),
        ("/api/v1/NS/events", json!({"involvedObject": pod}), 201),
        ("/apis/coordination.k8s.io/v1/NS/leases", json!({}), 201),
        ("/apis/rbac.authorization.k8s.io/v1/NS/roles", role, 201),
        (
            "/apis/rbac.authorization.k8s.io/v1/NS/rolebindings",
            binding,
            201,
        ),
        ("/api/v1/NS/configmaps", json!({}), 404),
        (
            "/apis/policy/v1/NS/poddisruptionbudgets",
            json!({"spec": labels}),
            404,
        ),
    ] {
        let path = path.replace("NS", &format!("namespaces/{namespace}"));
        let objects = Objects::at(&server, path);
        let mut object = object;
        object["metadata"] = json!({"name": "new"});
        let trial = objects.put("/new?dryRun=All", &object).await;
        assert_eq!(trial.code, code, "{}", trial.text);
        // A resource version does not prevent the creation, because the object of this version may have been deleted.
        object["metadata"]["resourceVersion"] = json!("1");
        let put = objects.put("/new", &object).await;
        assert_eq!(put.code, code, "{}", put.text);
        object["metadata"]["resourceVersion"] = Value::Null;
        assert_eq!(
            objects.get("/new").await.code,
            if code == 201 { 200 } else { 404 }
        );
    }
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let leases = Objects::at(&server, leases);
    for (meta, code) in [
        (json!({"name": "other", "uid": "abc"}), 409),
        (json!({"name": "other", "resourceVersion": "x"}), 500),
        (json!({"name": "Other"}), 400),
    ] {
        let refused = leases.put("/other", &json!({"metadata": meta})).await;
        assert_eq!(refused.code, code, "{}", refused.text);
    }
    let negative = json!({"metadata": {"name": "other"}, "spec": {"leaseDurationSeconds": -1}});
    assert_eq!(leases.put("/other", &negative).await.code, 422);
}

/// Checks that a user who may only change objects gets 403 for a missing object, with PUT and with apply. For an
/// existing object, the requests succeed.
#[tokio::test]
async fn put_and_apply_need_the_right_to_create_missing_objects() {
    let server = server().await;
    let namespace = server.namespace().await;
    let roles = format!("/apis/{GROUP}/v1/namespaces/{namespace}");
    let rule = |verbs: Value| json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": verbs}]);
    let changes =
        json!({"metadata": {"name": "changes"}, "rules": rule(json!(["get", "patch", "update"]))});
    let binding = json!({"metadata": {"name": "changes"}, "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "changes"}});
    Objects::at(&server, format!("{roles}/roles"))
        .create(&changes)
        .await;
    Objects::at(&server, format!("{roles}/rolebindings"))
        .create(&binding)
        .await;
    let maps = Objects::maps(&server, &namespace);
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let leases = Objects::at(&server, leases);
    let jane = ("impersonate-user", "jane");
    eventually("the rights to apply", async || {
        match maps.send("GET", "/new", &[jane], "").await.code {
            404 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    let lease = json!({"metadata": {"name": "new"}});
    let apply = [jane, ("content-type", APPLY)];
    let put = [jane, JSON];
    let applied = async |rest: &str| maps.send("PATCH", rest, &apply, map.to_string()).await;
    let replaced = async || leases.send("PUT", "/new", &put, lease.to_string()).await;
    let refusal = |what: &str, resource: &str, group: &str| {
        format!(
            "{what} \"new\" is forbidden: User \"jane\" cannot create resource \"{resource}\" in API group \"{group}\" \
             in the namespace \"{namespace}\""
        )
    };
    let why = refusal("configmaps", "configmaps", "");
    for rest in ["/new?fieldManager=m", "/new?fieldManager=m&dryRun=All"] {
        assert_eq!(status_of(&applied(rest).await), (403, why.as_str()));
    }
    let why = refusal(
        "leases.coordination.k8s.io",
        "leases",
        "coordination.k8s.io",
    );
    assert_eq!(status_of(&replaced().await), (403, why.as_str()));
    // An existing object needs only the right to change it.
    maps.create(&map).await;
    leases.create(&lease).await;
    assert_eq!(applied("/new?fieldManager=m").await.code, 200);
    let live = leases.get("/new").await.text;
    let again = leases.send("PUT", "/new", &put, live).await;
    assert_eq!(again.code, 200, "{}", again.text);
}

/// Checks that a PUT request without a resource version gets 422 for Leases and PodDisruptionBudgets.
#[tokio::test]
async fn some_kinds_cannot_be_replaced_without_a_version() {
    let server = server().await;
    let namespace = server.namespace().await;
    let budget =
        json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}});
    for (path, object, kind) in [
        (
            "/apis/policy/v1/NS/poddisruptionbudgets",
            budget,
            "poddisruptionbudgets.policy",
        ),
        (
            "/apis/coordination.k8s.io/v1/NS/leases",
            json!({"metadata": {"name": "a"}}),
            "leases.coordination.k8s.io",
        ),
    ] {
        let path = path.replace("NS", &format!("namespaces/{namespace}"));
        let objects = Objects::at(&server, path);
        let mut live = objects.create(&object).await;
        let why = format!(
            "{kind} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        );
        assert_eq!(
            status_of(&objects.put("/a", &object).await),
            (422, why.as_str())
        );
        live["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(objects.put("/a", &live).await.code, 200);
    }
}

/// Checks that a POST request for an object with a positive resource version gets an error. A version that is not a
/// positive number is ignored.
#[tokio::test]
async fn created_objects_must_not_have_a_valid_version() {
    let server = server().await;
    let maps = Objects::maps(&server, &server.namespace().await);
    let map = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version}});
    for version in ["x", "0", "-1", ""] {
        let created = maps.post("?dryRun=All", &map(version)).await;
        assert_eq!(created.code, 201, "{version}: {}", created.text);
    }
    let why = "resourceVersion should not be set on objects to be created";
    assert_eq!(status_of(&maps.post("", &map("7")).await), (500, why));
}
