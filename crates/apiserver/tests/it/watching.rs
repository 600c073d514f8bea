//! Watches: order, resumption, selectors, streaming lists.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher;
use serde_json::json;

use crate::harness::{Harness, PATIENCE};

fn config_map(name: &str, label: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"l": label}}})).unwrap()
}

async fn take(api: &Api<ConfigMap>, params: &WatchParams, from: &str, count: usize) -> Vec<String> {
    let stream = api.watch(params, from).await.unwrap();
    let events = stream.take(count).try_collect::<Vec<_>>();
    tokio::time::timeout(PATIENCE, events)
        .await
        .unwrap()
        .unwrap()
        .into_iter()
        .map(|e| match e {
            WatchEvent::Added(o) => format!("+{}", o.metadata.name.unwrap_or_default()),
            WatchEvent::Modified(o) => format!("~{}", o.metadata.name.unwrap_or_default()),
            WatchEvent::Deleted(o) => format!("-{}", o.metadata.name.unwrap_or_default()),
            WatchEvent::Bookmark(_) => "bookmark".to_owned(),
            WatchEvent::Error(e) => format!("error {}", e.code),
        })
        .collect()
}

#[tokio::test]
async fn a_watch_resumes_from_any_kept_version() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let first = api
        .create(&PostParams::default(), &config_map("a", "x"))
        .await
        .unwrap();
    let from = first.metadata.resource_version.unwrap();
    api.create(&PostParams::default(), &config_map("b", "x"))
        .await
        .unwrap();
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"l": "y"}}}));
    api.patch("b", &PatchParams::default(), &relabel)
        .await
        .unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        take(&api, &WatchParams::default(), &from, 3).await,
        ["+b", "~b", "-a"]
    );
    // An object that stops matching is deleted, as far as the selector goes; one that starts is added.
    assert_eq!(
        take(&api, &WatchParams::default().labels("l=x"), &from, 3).await,
        ["+b", "-b", "-a"]
    );
    assert_eq!(
        take(&api, &WatchParams::default().labels("l=y"), &from, 1).await,
        ["+b"]
    );
}

#[tokio::test]
async fn a_streaming_list_ends_with_its_bookmark() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    api.create(&PostParams::default(), &config_map("a", "x"))
        .await
        .unwrap();
    let mut stream = watcher(api, watcher::Config::default().streaming_lists()).boxed();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = tokio::time::timeout(PATIENCE, stream.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        seen.push(match event {
            watcher::Event::Init => "init",
            watcher::Event::InitApply(_) => "apply",
            watcher::Event::InitDone => "done",
            _ => "other",
        });
    }
    assert_eq!(seen, ["init", "apply", "done"]);
}

#[tokio::test]
async fn a_watch_from_too_long_ago_is_told() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::namespaced(h.server.client(), "default");
    let first = api
        .create(&PostParams::default(), &config_map("a", "x"))
        .await
        .unwrap();
    let from = first.metadata.resource_version.unwrap();
    let large = "x".repeat(60_000);
    for i in 0..600 {
        let patch = Patch::Merge(json!({"data": {"k": format!("{i}{large}")}}));
        api.patch("a", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    assert_eq!(
        take(&api, &WatchParams::default(), &from, 1).await,
        ["error 410"]
    );
}

#[tokio::test]
async fn both_event_apis_show_one_store() {
    let h = Harness::start().await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R", "action": "A", "type": "Normal", "note": "hi",
        "reportingController": "c", "reportingInstance": "i", "regarding": {"kind": "Pod", "name": "p"}});
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, body) = h
        .raw(
            "POST",
            path,
            "application/json",
            event.to_string().into_bytes(),
        )
        .await;
    assert_eq!((code, &body["note"]), (201, &json!("hi")));
    let events: Api<CoreEvent> = Api::default_namespaced(h.client.clone());
    let seen = events.get("e").await.unwrap();
    assert_eq!(
        (
            seen.message.as_deref(),
            seen.involved_object.name.as_deref()
        ),
        (Some("hi"), Some("p"))
    );
}
