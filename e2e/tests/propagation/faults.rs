//! Members that refuse, break and forget: what people are told of it, and that all is well in the end.

use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::Cluster;
use berth_e2e::eventually;
use berth_e2e::proxy::{Asked, Fault, Proxy};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{config_map, deployment, policy};

/// A fleet whose only member is reached through what breaks things.
async fn behind_proxy() -> (Fleet, Proxy) {
    let mut fleet = Fleet::bare(1).await;
    let (ca, token) = fleet.members[0].credentials();
    fleet.apply_secret("m1", &token, &ca).await;
    let proxy = Proxy::start(fleet.members[0].client.clone());
    fleet.register("m1", Some(&proxy.url())).await;
    fleet.start_controllers();
    (fleet, proxy)
}

/// Waits until a binding says that its only manifest is not applied, for this reason.
async fn not_applied(fleet: &Fleet, binding: &str, said: &str) {
    let wanted = format!("Failed to apply all manifests (0/1): {said}");
    fleet
        .until_typed(&fleet.bindings(), binding, "the reason", |binding| {
            let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
            let mut messages = items.filter_map(|item| item.applied_message.as_deref());
            messages.any(|message| message == wanted)
        })
        .await;
}

/// Waits until an event about a Deployment says this.
async fn told(fleet: &Fleet, reason: &str, message: &str) {
    let events: Api<Event> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    eventually(&format!("the event {message}"), async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let about = all
            .iter()
            .filter(|event| event.involved_object.kind.as_deref() == Some("Deployment"));
        let mut said = about.map(|event| (event.reason.as_deref(), event.message.as_deref()));
        if said.any(|event| event == (Some(reason), Some(message))) {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_refuses_is_told_in_its_own_words() {
    let fleet = Fleet::start(1).await;
    let web = deployment("web", 1);
    let spoiling = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "name": "spoiling" }, "spec": { "overrideRules": [{ "overriders": {
            "plaintext": [{ "path": "/spec/replicas", "operator": "replace", "value": -1 }] } }] } });
    fleet.apply(spoiling.clone()).await;
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    let said = "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: \
        must be greater than or equal to 0";
    not_applied(&fleet, "web-deployment", said).await;
    let message =
        format!("Failed to create or update resource(default/web) in member cluster(m1): {said}");
    told(&fleet, "SyncFailed", &message).await;

    fleet.delete(&spoiling).await;
    fleet.members[0].has(&web).await;
    let message = "Successfully applied resource(default/web) to cluster m1";
    told(&fleet, "SyncSucceed", message).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_breaks_on_the_way_all_is_well_in_the_end() {
    let (fleet, proxy) = behind_proxy().await;
    let maps: Vec<Value> = (0..12)
        .map(|index| config_map(&format!("map{index}")))
        .collect();
    let count = AtomicUsize::new(0);
    proxy.rule(move |asked| {
        let turn = count.fetch_add(1, Ordering::Relaxed);
        if asked.is_watch() {
            return if turn.is_multiple_of(2) {
                Fault::Expired
            } else {
                Fault::None
            };
        }
        if asked.method == Method::GET {
            return if turn.is_multiple_of(3) {
                Fault::CutInLine(0)
            } else {
                Fault::None
            };
        }
        match turn % 6 {
            0 => Fault::Answer(StatusCode::TOO_MANY_REQUESTS, Some(1)),
            1 => Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR, None),
            2 => Fault::Answer(StatusCode::CONFLICT, None),
            3 => Fault::LoseAnswer,
            _ => Fault::None,
        }
    });
    for map in &maps {
        fleet.apply(map.clone()).await;
        fleet.apply(policy(map, &["m1"])).await;
    }
    for map in &maps {
        fleet.members[0].has(map).await;
    }
    // What changes and goes while it breaks.
    for (index, map) in maps.iter().enumerate() {
        if index % 2 == 0 {
            fleet.delete(map).await;
        } else {
            fleet.edit(map, json!({ "data": { "a": "2" } })).await;
        }
    }
    for (index, map) in maps.iter().enumerate() {
        if index % 2 == 0 {
            fleet.members[0].lacks(map).await;
        } else {
            fleet.members[0]
                .until(map, "the edit", |map| map["data"]["a"] == "2")
                .await;
        }
    }
    proxy.heal();
    for index in (1..maps.len()).step_by(2) {
        let binding = format!("map{index}-configmap");
        fleet.until_fully_applied(&binding, "True").await;
    }
    // And what somebody changes there afterwards is seen.
    fleet.members[0].delete(&maps[1]).await;
    fleet.members[0].has(&maps[1]).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_made_without_an_answer_and_never_seen_is_removed() {
    let (fleet, proxy) = behind_proxy().await;
    let silent = |asked: &Asked| asked.is_watch().then_some(Fault::Silence);
    proxy.rule(move |asked| silent(asked).unwrap_or(Fault::None));
    let (first, second) = (config_map("first"), config_map("second"));
    fleet.apply(first.clone()).await;
    fleet.apply(policy(&first, &["m1"])).await;
    eventually(
        "the ConfigMaps to be listed and watched",
        async || match proxy.count(|asked| asked.is_watch() && asked.path.ends_with("/configmaps"))
        {
            0 => Err("no watch yet"),
            _ => Ok(()),
        },
    )
    .await;
    proxy.rule(move |asked| match asked.method {
        Method::POST => Fault::LoseAnswer,
        _ => silent(asked).unwrap_or(Fault::None),
    });
    fleet.apply(second.clone()).await;
    fleet.apply(policy(&second, &["m1"])).await;
    fleet.members[0].has(&second).await;
    fleet.delete(&second).await;
    fleet.members[0].lacks(&second).await;
    fleet.stop().await;
}

/// The definition of Widgets, with this plural.
fn definition(plural: &str) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": { "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

/// The definition of Widgets, made in the control plane and in the member, and a Widget that was placed there.
struct Widgets<'a> {
    fleet: &'a Fleet,
    kind: GroupVersionKind,
}

impl<'a> Widgets<'a> {
    async fn placed(fleet: &'a Fleet) -> Self {
        let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" } });
        fleet.apply(definition("widgets")).await;
        fleet.members[0].apply(definition("widgets")).await;
        let served = json!({ "status": { "apiEnablements": [
            { "groupVersion": "example.com/v1", "resources": [{ "name": "widgets", "kind": "Widget" }] }] } });
        let clusters: Api<Cluster> = Api::all(fleet.client.clone());
        clusters
            .patch_status("m1", &PatchParams::default(), &Patch::Merge(served))
            .await
            .unwrap();
        let templates: Api<DynamicObject> = Api::namespaced_with(
            fleet.client.clone(),
            NAMESPACE,
            &ApiResource::from_gvk(&kind),
        );
        eventually("the control plane to serve widgets", async || {
            let template = serde_json::from_value(widget.clone()).unwrap();
            templates.create(&PostParams::default(), &template).await
        })
        .await;
        fleet.apply(policy(&widget, &["m1"])).await;
        let widgets = Self { fleet, kind };
        widgets.in_member("widgets").await;
        widgets
    }

    /// Those of the member, when they are called this.
    fn api(&self, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk_with_plural(&self.kind, plural);
        Api::namespaced_with(self.fleet.members[0].client.clone(), NAMESPACE, &resource)
    }

    /// Waits until the Widget is in the member; its UID.
    async fn in_member(&self, plural: &str) -> Option<String> {
        eventually("the widget", async || {
            match self.api(plural).get_opt("w").await {
                Ok(Some(widget)) => Ok(widget.metadata.uid),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Waits until the binding says that the member does not know the kind.
    async fn until_told(&self) {
        let said = "the server could not find the requested resource: \
            it does not serve Widget in example.com/v1";
        not_applied(self.fleet, "w-widget", said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_vanishes_in_a_member_is_told_of_and_found_again() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let widgets = Widgets::placed(&fleet).await;
    m1.delete(&definition("widgets")).await;
    widgets.until_told().await;

    // It comes back, and is called otherwise.
    m1.lacks(&definition("widgets")).await;
    m1.apply(definition("widgetry")).await;
    let first = widgets.in_member("widgetry").await;
    fleet.until_fully_applied("w-widget", "True").await;
    widgets
        .api("widgetry")
        .delete("w", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the widget to be made anew", async || {
        let uid = widgets.in_member("widgetry").await;
        if uid == first {
            Err("it is the first one")
        } else {
            Ok(())
        }
    })
    .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_vanishes_before_it_was_watched_is_told_of() {
    let (fleet, proxy) = behind_proxy().await;
    proxy.rule(|asked| {
        if asked.method == Method::GET && asked.path.ends_with("/widgets") {
            Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR, None)
        } else {
            Fault::None
        }
    });
    let widgets = Widgets::placed(&fleet).await;
    fleet.until_fully_applied("w-widget", "True").await;
    fleet.members[0].delete(&definition("widgets")).await;
    fleet.members[0].lacks(&definition("widgets")).await;
    proxy.heal();
    widgets.until_told().await;
    fleet.stop().await;
}
