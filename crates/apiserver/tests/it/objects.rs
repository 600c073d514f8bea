//! Reading and writing objects.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::harness::Harness;

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(
        json!({"metadata": {"name": name, "labels": {"v": value}}, "data": {"k": value}}),
    )
    .unwrap()
}

fn code(error: kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn versions_guard_writes_and_unchanged_writes_do_not_count() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let created = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let exists = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err();
    assert_eq!(code(exists), (409, "AlreadyExists".into()));
    let mut next = created.clone();
    next.data = config_map("a", "2").data;
    let updated = api
        .replace("a", &PostParams::default(), &next)
        .await
        .unwrap();
    assert_ne!(
        updated.metadata.resource_version,
        created.metadata.resource_version
    );
    let stale = api
        .replace("a", &PostParams::default(), &next)
        .await
        .unwrap_err();
    assert_eq!(code(stale), (409, "Conflict".into()));
    let same = api
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"k": "2"}})),
        )
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version,
        updated.metadata.resource_version
    );
    let missing = api.get("nope").await.unwrap_err();
    assert_eq!(code(missing), (404, "NotFound".into()));
}

#[tokio::test]
async fn a_dry_run_leaves_no_trace() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&dry, &config_map("a", "1")).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn lists_are_paged_and_selected() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    for i in 0..5 {
        api.create(
            &PostParams::default(),
            &config_map(&format!("c{i}"), &(i % 2).to_string()),
        )
        .await
        .unwrap();
    }
    let page = api.list(&ListParams::default().limit(2)).await.unwrap();
    let token = page.metadata.continue_.clone().unwrap();
    // The second page is of the same moment as the first.
    api.delete("c4", &DeleteParams::default()).await.unwrap();
    let rest = api
        .list(&ListParams::default().limit(10).continue_token(&token))
        .await
        .unwrap();
    let names: Vec<_> = page
        .items
        .iter()
        .chain(&rest.items)
        .filter_map(|c| c.metadata.name.clone())
        .collect();
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4"]);
    assert_eq!(
        page.metadata.resource_version,
        rest.metadata.resource_version
    );
    assert_eq!(
        api.list(&ListParams::default().labels("v in (1)"))
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    assert_eq!(
        api.list(&ListParams::default().fields("metadata.name=c0"))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

#[tokio::test]
async fn generation_follows_the_spec_and_status_has_its_own_door() {
    let h = Harness::start().await;
    let api: Api<Deployment> = Api::default_namespaced(h.client.clone());
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"}, "status": {"replicas": 9},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    }))
    .unwrap();
    let created = api
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    assert_eq!(created.status.as_ref().and_then(|s| s.replicas), None);
    assert_eq!(created.spec.as_ref().and_then(|s| s.replicas), Some(1));
    let status = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let patched = api
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    assert_eq!(patched.status.and_then(|s| s.replicas), Some(3));
    assert_eq!(patched.spec.and_then(|s| s.replicas), Some(1));
    assert_eq!(patched.metadata.generation, Some(1));
    let scale = json!({"spec": {"replicas": 4}});
    api.patch_scale("web", &PatchParams::default(), &Patch::Merge(scale))
        .await
        .unwrap();
    let after = api.get("web").await.unwrap();
    assert_eq!(
        (
            after.spec.and_then(|s| s.replicas),
            after.metadata.generation
        ),
        (Some(4), Some(2))
    );
    let selector = json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}});
    let refused = api
        .patch("web", &PatchParams::default(), &Patch::Merge(selector))
        .await
        .unwrap_err();
    assert_eq!(code(refused).0, 422);
}

#[tokio::test]
async fn deletes_honour_preconditions_and_finalizers() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let mut held = config_map("a", "1");
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    let wrong = Preconditions {
        uid: Some("other".into()),
        ..Preconditions::default()
    };
    let refused = api
        .delete("a", &DeleteParams::default().preconditions(wrong))
        .await
        .unwrap_err();
    assert_eq!(code(refused), (409, "Conflict".into()));
    let answer = api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(answer.left().unwrap().metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &PatchParams::default(), &release)
        .await
        .unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn names_and_namespaces_are_checked() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let bad = api
        .create(&PostParams::default(), &config_map("Not_Good", "1"))
        .await
        .unwrap_err();
    assert_eq!(code(bad), (422, "Invalid".into()));
    let nowhere: Api<ConfigMap> = Api::namespaced(h.client.clone(), "nowhere");
    let missing = nowhere
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err();
    assert_eq!(code(missing), (404, "NotFound".into()));
    let namespaces: Api<Namespace> = Api::all(h.client.clone());
    assert_eq!(
        namespaces
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        4
    );
}

#[tokio::test]
async fn appliers_conflict_and_force() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let config =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": value}});
    api.patch("a", &PatchParams::apply("one"), &Patch::Apply(config("1")))
        .await
        .unwrap();
    let refused = api
        .patch("a", &PatchParams::apply("two"), &Patch::Apply(config("2")))
        .await
        .unwrap_err();
    match refused {
        kube::Error::Api(status) => {
            assert_eq!(
                status.message,
                "Apply failed with 1 conflict: conflict with \"one\": .data.k"
            );
        }
        other => panic!("{other}"),
    }
    let forced = api
        .patch(
            "a",
            &PatchParams::apply("two").force(),
            &Patch::Apply(config("2")),
        )
        .await
        .unwrap();
    assert_eq!(forced.metadata.managed_fields.map(|m| m.len()), Some(1));
}
