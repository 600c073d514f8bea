//! Tests of terminating namespaces: the refusal of new objects, the order in which the server deletes existing objects,
//! conditions and watch events.
//!
//! kube-apiserver leaves these deletions to kube-controller-manager, which does not run here. The tests of deletions
//! therefore need the embedded server.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::objects::{Objects, map};
use crate::harness::server;
use crate::harness::server::TestServer;

fn condition<'a>(namespace: &'a Value, kind: &str) -> &'a Value {
    let conditions = namespace["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|c| c["type"] == kind)
        .unwrap_or(&Value::Null)
}

/// Waits until the object at `rest`, a path below the collection, is deleted.
async fn wait_until_gone(objects: &Objects<'_>, rest: &str) {
    eventually("the object to be deleted", async || {
        match objects.get(rest).await {
            response if response.code == 404 => Ok(()),
            response => Err(response.text),
        }
    })
    .await;
}

/// Waits for the ConfigMap that each namespace contains.
async fn wait_for_initial_objects(server: &TestServer, namespace: &str) {
    let maps = Objects::maps(server, namespace);
    eventually("the certificate of the authority", async || {
        match maps.get("/kube-root-ca.crt").await {
            response if response.code == 200 => Ok(()),
            response => Err(response.text),
        }
    })
    .await;
}

fn pod(finalizers: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "finalizers": finalizers},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Returns a ConfigMap with a finalizer.
fn held_map() -> Value {
    let mut held = map("held", json!({}), json!({}));
    held["metadata"]["finalizers"] = json!(["a.b/c"]);
    held
}

async fn create_namespace(server: &TestServer) -> (String, Objects<'_>) {
    let name = server.namespace().await;
    let path = format!("/api/v1/namespaces/{name}");
    (name, Objects::at(server, path))
}

/// Checks that the server deletes other objects of a namespace only after its pods. The conditions of the namespace
/// report the remaining objects and finalizers.
#[needs(embedded)]
#[tokio::test]
async fn pods_are_deleted_first_and_conditions_report_remaining_objects() {
    let server = server().await;
    let (name, namespace) = create_namespace(&server).await;
    wait_for_initial_objects(&server, &name).await;
    let pods = Objects::at(&server, format!("/api/v1/namespaces/{name}/pods"));
    let maps = Objects::maps(&server, &name);
    pods.create(&pod(&json!(["example.com/hold"]))).await;
    let mut held = map("held", Value::Null, Value::Null);
    held["metadata"]["finalizers"] = json!(["example.com/keep"]);
    maps.create(&held).await;
    maps.create(&map("plain", Value::Null, Value::Null)).await;
    let deleted = namespace.delete("", &Value::Null).await;
    assert_eq!(deleted.json["status"]["phase"], "Terminating");
    // A read directly after the deletion returns the new phase, too.
    assert_eq!(
        namespace.get("").await.json["status"]["phase"],
        "Terminating"
    );

    let reported = eventually("conditions", async || {
        let found = namespace.get("").await.json;
        if condition(&found, "NamespaceContentRemaining")["status"] == "True" {
            Ok(found)
        } else {
            Err(found.to_string())
        }
    })
    .await;
    let remaining = &condition(&reported, "NamespaceContentRemaining")["message"];
    let list = remaining.as_str().unwrap();
    assert!(list.contains("pods. has 1 resource instances"), "{list}");
    assert!(
        list.contains("configmaps. has 3 resource instances"),
        "{list}"
    );
    let finalizers = &condition(&reported, "NamespaceFinalizersRemaining")["message"];
    assert_eq!(
        finalizers,
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances, \
         example.com/keep in 1 resource instances"
    );
    for (kind, reason) in [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
        ),
        ("NamespaceDeletionContentFailure", "ContentDeleted"),
    ] {
        let found = condition(&reported, kind);
        assert_eq!(
            (&found["status"], &found["reason"]),
            (&json!("False"), &json!(reason))
        );
    }
    // Other objects are deleted only after all pods are gone.
    assert!(pods.get("/held").await.json["metadata"]["deletionTimestamp"].is_string());
    for name in ["held", "plain"] {
        let found = maps.get(&format!("/{name}")).await.json;
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{found}");
    }

    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(pods.merge("/held", &release).await.code, 200);
    eventually("the pods to disappear from the condition", async || {
        let found = namespace.get("").await.json;
        let message = condition(&found, "NamespaceContentRemaining")["message"].clone();
        let expected = "Some resources are remaining: configmaps. has 1 resource instances";
        if message == expected {
            Ok(())
        } else {
            Err(message.to_string())
        }
    })
    .await;
    assert_eq!(maps.get("/plain").await.code, 404);
    assert_eq!(maps.merge("/held", &release).await.code, 200);
    wait_until_gone(&namespace, "").await;
}

/// Checks that a watch reports the changes of a condition of a terminating namespace, and then the deletion of the
/// namespace.
#[needs(embedded)]
#[tokio::test]
async fn watches_show_namespace_conditions_until_deletion() {
    let server = server().await;
    let (name, namespace) = create_namespace(&server).await;
    wait_for_initial_objects(&server, &name).await;
    let maps = Objects::maps(&server, &name);
    let mut held = map("held", Value::Null, Value::Null);
    held["metadata"]["finalizers"] = json!(["example.com/keep"]);
    maps.create(&held).await;
    let from = namespace.get("").await.json["metadata"]["resourceVersion"].clone();
    assert_eq!(namespace.delete("", &Value::Null).await.code, 200);
    eventually("the condition to report the finalizer", async || {
        let found = namespace.get("").await.json;
        let state = condition(&found, "NamespaceFinalizersRemaining")["status"].clone();
        if state == "True" {
            Ok(())
        } else {
            Err(found.to_string())
        }
    })
    .await;
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(maps.merge("/held", &release).await.code, 200);
    wait_until_gone(&namespace, "").await;
    let from = from.as_str().unwrap();
    let watch = format!(
        "/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion={from}&fieldSelector=metadata.name%3D{name}"
    );
    let text = server.raw("GET", &watch, &[], "").await.text;
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = |event: &Value| {
        let object = &event["object"];
        let state = condition(object, "NamespaceFinalizersRemaining")["status"].clone();
        (
            event["type"].as_str().unwrap().to_owned(),
            object["status"]["phase"].as_str().unwrap().to_owned(),
            state.as_str().unwrap_or("none").to_owned(),
        )
    };
    let mut seen: Vec<_> = events.iter().map(summary).collect();
    seen.dedup();
    let expected = [
        ("MODIFIED", "none"),
        ("MODIFIED", "True"),
        ("MODIFIED", "False"),
        ("DELETED", "False"),
    ];
    let expected = expected
        .map(|(event, state)| (event.to_owned(), "Terminating".to_owned(), state.to_owned()));
    assert_eq!(seen, expected, "{events:?}");
}

/// Checks that a namespace that is being deleted rejects new objects. The namespaces `default`, `kube-system` and
/// `kube-public` cannot be deleted.
#[tokio::test]
async fn a_terminating_namespace_refuses_objects() {
    let server = server().await;
    let name = server.namespace().await;
    let namespaces = Objects::at(&server, "/api/v1/namespaces");
    let maps = Objects::maps(&server, &name);
    // This object keeps the namespace in the phase Terminating.
    maps.create(&held_map()).await;
    let active = namespaces.get(&format!("/{name}")).await.json;
    assert_eq!(
        (&active["spec"]["finalizers"], &active["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    assert_eq!(
        active["metadata"]["labels"]["kubernetes.io/metadata.name"],
        name.as_str()
    );
    let dry_run = namespaces
        .delete(&format!("/{name}?dryRun=All"), &Value::Null)
        .await
        .json;
    assert_eq!(dry_run["status"]["phase"], "Terminating");
    let marked = namespaces
        .delete(&format!("/{name}"), &Value::Null)
        .await
        .json;
    assert_eq!(
        (&marked["kind"], &marked["status"]["phase"]),
        (&json!("Namespace"), &json!("Terminating"))
    );
    let refused = maps.post("", &map("late", json!({}), json!({}))).await;
    let why = format!(
        "configmaps \"late\" is forbidden: unable to create new content in namespace {name} because it is being terminated"
    );
    assert_eq!((refused.code, &refused.json["message"]), (403, &json!(why)));
    assert_eq!(
        refused.json["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    for protected in ["default", "kube-system", "kube-public"] {
        let response = namespaces
            .delete(&format!("/{protected}"), &Value::Null)
            .await;
        let why =
            format!("namespaces \"{protected}\" is forbidden: this namespace may not be deleted");
        assert_eq!(
            (response.code, &response.json["message"]),
            (403, &json!(why))
        );
    }
}

/// Checks that the server removes a namespace that is being deleted after its objects.
#[needs(embedded)]
#[tokio::test]
async fn a_terminating_namespace_is_emptied() {
    let server = server().await;
    let name = server.namespace().await;
    let namespaces = Objects::at(&server, "/api/v1/namespaces");
    let maps = Objects::maps(&server, &name);
    maps.create(&held_map()).await;
    maps.create(&map("free", json!({}), json!({}))).await;
    let deleted = namespaces.delete(&format!("/{name}"), &Value::Null).await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    wait_until_gone(&maps, "/free").await;
    assert_eq!(
        namespaces.get(&format!("/{name}")).await.code,
        200,
        "the namespace must remain while one of its objects has a finalizer"
    );
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(maps.merge("/held", &release).await.code, 200);
    wait_until_gone(&namespaces, &format!("/{name}")).await;
    assert_eq!(maps.get("/held").await.code, 404);
}
