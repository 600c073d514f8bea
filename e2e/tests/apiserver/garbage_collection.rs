//! Tests of garbage collection: the deletion of dependents with their owner.
//!
//! kube-apiserver leaves these deletions to kube-controller-manager, which does not run here. The tests of dependents
//! therefore need the embedded server.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::objects::{Objects, map};
use crate::harness::server;

fn owned(name: &str, owner: &Value) -> Value {
    let mut object = map(name, json!({}), json!({}));
    let meta = &owner["metadata"];
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"],
        "uid": meta["uid"], "blockOwnerDeletion": true}]);
    object
}

async fn wait_until_gone(maps: &Objects<'_>, name: &str) {
    eventually("the object to be deleted", async || {
        let response = maps.get(&format!("/{name}")).await;
        if response.code == 404 {
            Ok(())
        } else {
            Err(response.text)
        }
    })
    .await;
}

/// Creates `owner`, its dependent `child`, and `grandchild`, which is a dependent of `child`.
async fn create_family(maps: &Objects<'_>) -> [Value; 3] {
    let owner = maps.create(&map("owner", json!({}), json!({}))).await;
    let child = maps.create(&owned("child", &owner)).await;
    let grandchild = maps.create(&owned("grandchild", &child)).await;
    [owner, child, grandchild]
}

/// Checks that the policy Background deletes the owner at once.
#[tokio::test]
async fn background_deletion_removes_the_owner_at_once() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    create_family(&maps).await;
    let policy = json!({"propagationPolicy": "Background"});
    let response = maps.delete("/owner", &policy).await;
    assert_eq!(
        (response.code, &response.json["kind"]),
        (200, &json!("Status"))
    );
    assert_eq!(maps.get("/owner").await.code, 404);
}

/// Checks that the policies Foreground and Orphan mark the owner with a finalizer.
#[tokio::test]
async fn foreground_and_orphan_deletion_mark_the_owner() {
    let server = server().await;
    for (name, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let namespace = server.namespace().await;
        let maps = Objects::maps(&server, &namespace);
        let [_, mut child, _] = create_family(&maps).await;
        // The finalizer of its dependent delays the deletion of the owner.
        child["metadata"]["finalizers"] = json!(["a.b/c"]);
        assert_eq!(maps.put("/child", &child).await.code, 200);
        let policy = json!({"propagationPolicy": name});
        let marked = maps.delete("/owner", &policy).await.json;
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
    }
}

/// Checks that the policy Background deletes the direct and indirect dependents of the owner.
#[needs(embedded)]
#[tokio::test]
async fn background_deletion_collects_dependents() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    create_family(&maps).await;
    let policy = json!({"propagationPolicy": "Background"});
    assert_eq!(maps.delete("/owner", &policy).await.code, 200);
    wait_until_gone(&maps, "child").await;
    wait_until_gone(&maps, "grandchild").await;
    assert_eq!(
        maps.create(&map("owner", json!({}), json!({}))).await["kind"],
        "ConfigMap"
    );
}

/// Checks that the policy Foreground deletes the owner only after its dependents. A finalizer of a dependent delays the
/// deletion of the owner.
#[needs(embedded)]
#[tokio::test]
async fn foreground_deletion_waits_for_dependents() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let [_, mut child, _] = create_family(&maps).await;
    child["metadata"]["finalizers"] = json!(["a.b/c"]);
    assert_eq!(maps.put("/child", &child).await.code, 200);
    let policy = json!({"propagationPolicy": "Foreground"});
    maps.delete("/owner", &policy).await;
    assert_eq!(maps.get("/owner").await.code, 200);
    wait_until_gone(&maps, "grandchild").await;
    for name in ["child", "owner"] {
        let found = maps.get(&format!("/{name}")).await;
        assert!(
            found.json["metadata"]["deletionTimestamp"].is_string(),
            "{}",
            found.text
        );
    }
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(maps.merge("/child", &release).await.code, 200);
    wait_until_gone(&maps, "child").await;
    wait_until_gone(&maps, "owner").await;
}

/// Checks that the policy Orphan deletes the owner and removes the owner reference from its dependents.
#[needs(embedded)]
#[tokio::test]
async fn orphaned_dependents_remain() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    create_family(&maps).await;
    let policy = json!({"propagationPolicy": "Orphan"});
    maps.delete("/owner", &policy).await;
    wait_until_gone(&maps, "owner").await;
    let child = maps.get("/child").await.json;
    assert_eq!(child["metadata"].get("ownerReferences"), None, "{child}");
    assert_eq!(maps.get("/grandchild").await.code, 200);
}

/// Checks that an object with a missing owner and an existing owner remains until the existing owner is deleted.
#[needs(embedded)]
#[tokio::test]
async fn only_objects_whose_owners_are_all_missing_are_collected() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let ghost =
        json!({"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}});
    let owner = maps.create(&map("owner", json!({}), json!({}))).await;
    let mut both = owned("both", &ghost);
    let reference = owned("x", &owner)["metadata"]["ownerReferences"][0].clone();
    let references = both["metadata"]["ownerReferences"].as_array_mut();
    references.unwrap().push(reference);
    maps.create(&both).await;
    maps.create(&owned("child", &ghost)).await;
    wait_until_gone(&maps, "child").await;
    assert_eq!(maps.get("/both").await.code, 200);
    assert_eq!(maps.delete("/owner", &Value::Null).await.code, 200);
    wait_until_gone(&maps, "both").await;
}
