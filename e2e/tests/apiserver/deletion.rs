//! Tests of requests that delete objects and collections: preconditions, propagation policies, finalizers and
//! responses.

use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::objects::{
    Objects, ResponseStatus, deployment, map, names, status_of, version,
};
use crate::harness::server;

/// Checks that the response to a deletion is the deleted object for Services, ServiceAccounts and pods, and a Status
/// for other kinds.
#[tokio::test]
async fn deletion_returns_a_status_or_the_object() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let created = maps.create(&map("a", json!({}), json!({}))).await;
    let deleted = maps.delete("/a", &Value::Null).await;
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}});
    assert_eq!((deleted.code, deleted.json), (200, expected));
    let missing = maps.delete("/a", &Value::Null).await;
    assert_eq!(status_of(&missing), (404, "configmaps \"a\" not found"));
    let in_namespace =
        |group: &str, plural: &str| format!("{group}/namespaces/{namespace}/{plural}");
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    for (path, spec, kind) in [
        (
            in_namespace("/api/v1", "services"),
            json!({"ports": [{"port": 80}]}),
            "Service",
        ),
        (
            in_namespace("/api/v1", "serviceaccounts"),
            Value::Null,
            "ServiceAccount",
        ),
        (in_namespace("/api/v1", "pods"), pod, "Pod"),
        (in_namespace("/api/v1", "secrets"), Value::Null, "Status"),
        (
            in_namespace("/apis/apps/v1", "deployments"),
            deployment("x")["spec"].clone(),
            "Status",
        ),
        (
            in_namespace("/apis/coordination.k8s.io/v1", "leases"),
            json!({}),
            "Status",
        ),
    ] {
        let objects = Objects::at(&server, path.as_str());
        let mut object = json!({"metadata": {"name": "x"}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        objects.create(&object).await;
        let deleted = objects.delete("/x", &Value::Null).await;
        assert_eq!(
            (deleted.code, &deleted.json["kind"]),
            (200, &json!(kind)),
            "{path}"
        );
        if kind == "Pod" {
            assert_eq!(deleted.json["metadata"]["deletionGracePeriodSeconds"], 0);
            assert!(deleted.json["metadata"]["deletionTimestamp"].is_string());
        }
        assert_eq!(objects.get("/x").await.code, 404, "{path}");
    }
}

/// Checks that a deletion with a different UID or resource version as its precondition gets 409.
#[tokio::test]
async fn failed_preconditions_prevent_deletion() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let created = maps.create(&map("a", json!({}), json!({}))).await;
    let (uid, is) = (
        created["metadata"]["uid"].as_str().unwrap(),
        version(&created),
    );
    let refused = |why: String| format!("Operation cannot be fulfilled on ConfigMap \"a\": {why}");
    for (precondition, why) in [
        (
            json!({"uid": "x"}),
            format!("the UID in the precondition (x) does not match the UID in record ({uid})"),
        ),
        (
            json!({"resourceVersion": "1"}),
            format!(
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({is})"
            ),
        ),
    ] {
        let response = maps
            .delete("/a", &json!({"preconditions": precondition}))
            .await;
        let ResponseStatus(code, message) = status_of(&response);
        assert!(
            code == 409 && message.starts_with(&refused(why)),
            "{message}"
        );
        assert_eq!(response.json["reason"], "Conflict");
    }
    let right = json!({"preconditions": {"uid": uid, "resourceVersion": is}});
    assert_eq!(maps.delete("/a", &right).await.code, 200);
}

/// Checks that a deletion with invalid options gets an error and leaves the objects unchanged.
#[tokio::test]
async fn invalid_options_prevent_deletion() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({}), json!({}))).await;
    let invalid = |why: &str| format!("DeleteOptions.meta.k8s.io \"\" is invalid: {why}");
    let policy = "propagationPolicy: Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \
                  \"Orphan\", \"nil\"";
    let both = "propagationPolicy: Invalid value: \"Foreground\": orphanDependents and deletionPropagation cannot be both set";
    let dry = "dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\"";
    for rest in ["/a", ""] {
        for (query, body, code, message) in [
            ("?propagationPolicy=Foo", Value::Null, 422, invalid(policy)),
            (
                "",
                json!({"propagationPolicy": "Foo"}),
                422,
                invalid(policy),
            ),
            (
                "?propagationPolicy=Foreground&orphanDependents=true",
                Value::Null,
                422,
                invalid(both),
            ),
            (
                "",
                json!({"propagationPolicy": "Foreground", "orphanDependents": false}),
                422,
                invalid(both),
            ),
            ("?dryRun=Foo", Value::Null, 422, invalid(dry)),
            ("", json!({"dryRun": ["Foo"]}), 422, invalid(dry)),
            (
                "?gracePeriodSeconds=x",
                Value::Null,
                400,
                "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned(),
            ),
            (
                "",
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": 5}),
                400,
                "json: cannot unmarshal ".to_owned(),
            ),
        ] {
            let response = maps.delete(&format!("{rest}{query}"), &body).await;
            let ResponseStatus(found, shown) = status_of(&response);
            assert!(
                found == code && shown.starts_with(&message),
                "{rest} {query} {body}: {shown}"
            );
        }
        let other = maps
            .delete(rest, &json!({"kind": "ConfigMap", "apiVersion": "v1"}))
            .await;
        let ResponseStatus(code, message) = status_of(&other);
        assert!(code == 400 && message.contains("ConfigMap"), "{message}");
        let text = maps
            .send("DELETE", rest, &[("content-type", "text/plain")], "x")
            .await;
        assert_eq!(text.code, 415, "{}", text.text);
        let broken = maps.send("DELETE", rest, &[JSON], "{").await;
        assert_eq!(broken.code, 400, "{}", broken.text);
    }
    assert_eq!(maps.get("/a").await.code, 200);
}

/// Checks that the deletion of an object with finalizers sets its deletion timestamp and keeps the object. The object
/// is removed with its last finalizer. New finalizers are rejected.
#[tokio::test]
async fn objects_remain_until_their_last_finalizer_is_removed() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let mut object = map("a", json!({}), json!({}));
    object["metadata"]["finalizers"] = json!(["a.b/c", "d.e/f"]);
    maps.create(&object).await;
    let held = maps.delete("/a", &Value::Null).await.json;
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = maps.delete("/a", &Value::Null).await;
    assert_eq!(
        (again.code, &again.json),
        (200, &held),
        "a second deletion must change nothing"
    );
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let more = maps
        .merge("/a", &finalizers(json!(["a.b/c", "d.e/f", "g.h/i"])))
        .await;
    let why = "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
               being deleted, found new finalizers []string{\"g.h/i\"}";
    assert_eq!(status_of(&more), (422, why));
    // Other fields of the object can still be changed.
    let changed = maps.merge("/a", &json!({"data": {"k": "v"}})).await;
    assert_eq!(changed.json["data"], json!({"k": "v"}));
    assert_eq!(
        maps.merge("/a", &finalizers(json!(["d.e/f"]))).await.code,
        200
    );
    assert_eq!(maps.get("/a").await.code, 200);
    let last = maps.merge("/a", &finalizers(Value::Null)).await;
    assert_eq!(
        (last.code, &last.json["metadata"]["name"]),
        (200, &json!("a"))
    );
    assert_eq!(maps.get("/a").await.code, 404);
}

/// Checks that the policies Foreground and Orphan add a finalizer to the deleted object, and that the policy Background
/// adds none.
#[tokio::test]
async fn propagation_policies_become_finalizers() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let mut held = deployment("web");
    held["metadata"]["finalizers"] = json!(["a.b/c"]);
    deployments.create(&held).await;
    for (policy, finalizers) in [
        ("Background", json!(["a.b/c"])),
        ("Foreground", json!(["a.b/c", "foregroundDeletion"])),
    ] {
        let options = json!({"propagationPolicy": policy, "dryRun": ["All"]});
        let dry_run = deployments.delete("/web", &options).await.json;
        assert_eq!(dry_run["metadata"]["finalizers"], finalizers);
        assert_eq!(dry_run["metadata"]["generation"], 2);
        assert!(dry_run["metadata"]["deletionTimestamp"].is_string());
    }
    let current = deployments.get("/web").await.json;
    assert_eq!(
        current["metadata"].get("deletionTimestamp"),
        None,
        "a dry run must not delete the object"
    );
    let options = json!({"propagationPolicy": "Orphan"});
    let marked = deployments.delete("/web", &options).await.json;
    assert_eq!(marked["metadata"]["finalizers"], json!(["a.b/c", "orphan"]));

    // The deletion of a Job without a propagation policy orphans its pods and returns a warning.
    let jobs = Objects::at(
        &server,
        format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
    );
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    jobs.create(&json!({"metadata": {"name": "j"}, "spec": spec}))
        .await;
    let response = jobs.delete("/j", &Value::Null).await;
    assert_eq!(
        response.json["metadata"]["finalizers"],
        json!(["orphan"]),
        "{}",
        response.text
    );
    let warning = response.headers["warning"].to_str().unwrap();
    assert!(
        warning.starts_with("299 - \"child pods are preserved by default"),
        "{warning}"
    );
    jobs.create(&json!({"metadata": {"name": "k"}, "spec": spec}))
        .await;
    let response = jobs
        .delete("/k", &json!({"propagationPolicy": "Background"}))
        .await;
    assert_eq!(
        (&response.json["kind"], response.headers.get("warning")),
        (&json!("Status"), None)
    );
}

/// Checks that the deletion of a collection deletes the objects that match the selectors, and returns these objects.
#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    for i in 0..4 {
        let label = json!({"g": (i % 2).to_string()});
        maps.create(&map(&format!("c{i}"), json!({}), label)).await;
    }
    let mut held = map("held", json!({}), json!({}));
    held["metadata"]["finalizers"] = json!(["a.b/c"]);
    let held = maps.create(&held).await;
    let with_label = maps.delete("?labelSelector=g%3D1", &Value::Null).await;
    assert_eq!(
        (with_label.code, &with_label.json["kind"]),
        (200, &json!("ConfigMapList"))
    );
    assert_eq!(names(&with_label), ["c1", "c3"]);
    assert_eq!(with_label.json["items"][0].get("kind"), None);
    assert_eq!(names(&maps.get("").await), ["c0", "c2", "held"]);
    let one = maps
        .delete("?fieldSelector=metadata.name%3Dc0", &Value::Null)
        .await;
    assert_eq!(names(&one), ["c0"]);
    assert_eq!(
        names(&maps.delete("?labelSelector=none", &Value::Null).await),
        [""; 0]
    );
    // The response contains the objects as they were before the deletion.
    let rest = maps.delete("", &Value::Null).await;
    assert_eq!(names(&rest), ["c2", "held"]);
    assert_eq!(rest.json["items"][1]["metadata"], held["metadata"]);
    let left = maps.get("").await;
    assert_eq!(names(&left), ["held"]);
    assert!(left.json["items"][0]["metadata"]["deletionTimestamp"].is_string());
    // The objects of all namespaces cannot be deleted with one request, and neither can all Namespaces.
    for path in [
        "/api/v1/configmaps",
        "/api/v1/namespaces",
        "/apis/apps/v1/deployments",
    ] {
        let response = Objects::at(&server, path).delete("", &Value::Null).await;
        assert_eq!(
            (response.code, &response.json["reason"]),
            (405, &json!("MethodNotAllowed")),
            "{path}"
        );
    }
}
