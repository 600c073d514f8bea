//! Tests of members that reject requests, fail, or no longer serve a kind: the controllers report the errors and
//! recover.

use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::Cluster;
use berth_e2e::Objects as _;
use berth_e2e::events::{self, Wanted};
use berth_e2e::eventually;
use berth_e2e::objects::wait_for;
use berth_e2e::proxy::{Fault, Proxy, RecordedRequest};
use http::{Method, StatusCode};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{config_map, deployment, policy};

/// Starts a fleet with one member, which the controllers reach through a proxy that injects faults.
async fn fleet_behind_proxy() -> (Fleet, Proxy) {
    let mut fleet = Fleet::without_clusters(1).await;
    let (ca, token) = fleet.members[0].credentials();
    fleet.apply_secret("m1", &token, &ca).await;
    let proxy = Proxy::start(fleet.members[0].client.clone());
    fleet.register("m1", Some(&proxy.url())).await;
    fleet.start_controllers();
    (fleet, proxy)
}

/// Waits until the status of a binding reports this reason why its only manifest could not be applied.
async fn wait_for_apply_failure(fleet: &Fleet, binding: &str, reason: &str) {
    let wanted = format!("Failed to apply all manifests (0/1): {reason}");
    wait_for(&fleet.bindings(), binding, "the reason", |binding| {
        let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
        let mut messages = items.filter_map(|item| item.applied_message.as_deref());
        messages.any(|message| message == wanted)
    })
    .await;
}

/// Waits for an event with this reason and message about a Deployment.
async fn wait_for_event(fleet: &Fleet, reason: &str, message: &str) {
    let wanted = Wanted {
        kind: "Deployment",
        reason,
        message,
        ..Wanted::default()
    };
    events::wait_for(&fleet.client, NAMESPACE, wanted).await;
}

/// The binding and an event contain the member's message. Once the cause is removed, an event reports the success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_a_member_are_reported_unchanged() {
    let fleet = Fleet::start(1).await;
    let web = deployment("web", 1);
    let invalid = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "name": "invalid" }, "spec": { "overrideRules": [{ "overriders": {
            "plaintext": [{ "path": "/spec/replicas", "operator": "replace", "value": -1 }] } }] } });
    fleet.apply(invalid.clone()).await;
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    let reason = "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: \
        must be greater than or equal to 0";
    wait_for_apply_failure(&fleet, "web-deployment", reason).await;
    let message =
        format!("Failed to create or update resource(default/web) in member cluster(m1): {reason}");
    wait_for_event(&fleet, "SyncFailed", &message).await;

    fleet.delete(&invalid).await;
    fleet.members[0].wait_until_exists(&web).await;
    let message = "Successfully applied resource(default/web) to cluster m1";
    wait_for_event(&fleet, "SyncSucceed", message).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn propagation_converges_despite_random_faults() {
    let (fleet, proxy) = fleet_behind_proxy().await;
    let maps: Vec<Value> = (0..12)
        .map(|index| config_map(&format!("map{index}")))
        .collect();
    let count = AtomicUsize::new(0);
    proxy.rule(move |request| {
        let turn = count.fetch_add(1, Ordering::Relaxed);
        if request.is_watch() {
            return if turn.is_multiple_of(2) {
                Fault::Expired
            } else {
                Fault::None
            };
        }
        if request.method == Method::GET {
            return if turn.is_multiple_of(3) {
                Fault::CutInLine(0)
            } else {
                Fault::None
            };
        }
        match turn % 6 {
            0 => Fault::Respond(StatusCode::TOO_MANY_REQUESTS, Some(1)),
            1 => Fault::Respond(StatusCode::INTERNAL_SERVER_ERROR, None),
            2 => Fault::Respond(StatusCode::CONFLICT, None),
            3 => Fault::LoseResponse,
            _ => Fault::None,
        }
    });
    for map in &maps {
        fleet.apply(map.clone()).await;
        fleet.apply(policy(map, &["m1"])).await;
    }
    for map in &maps {
        fleet.members[0].wait_until_exists(map).await;
    }
    // Edit and delete while requests fail.
    for (index, map) in maps.iter().enumerate() {
        if index % 2 == 0 {
            fleet.delete(map).await;
        } else {
            fleet.edit(map, json!({ "data": { "a": "2" } })).await;
        }
    }
    for (index, map) in maps.iter().enumerate() {
        if index % 2 == 0 {
            fleet.members[0].wait_until_gone(map).await;
        } else {
            fleet.members[0]
                .wait_for(map, "the edit", |map| map["data"]["a"] == "2")
                .await;
        }
    }
    proxy.heal();
    for index in (1..maps.len()).step_by(2) {
        let binding = format!("map{index}-configmap");
        fleet.wait_for_fully_applied(&binding, "True").await;
    }
    // After the faults, an object that a user deletes in the member is created again.
    fleet.members[0].delete(&maps[1]).await;
    fleet.members[0].wait_until_exists(&maps[1]).await;
    fleet.stop().await;
}

/// The response to the creation of the object in the member is lost, and no watch event reports the object. The
/// controllers still delete the object after its template is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_whose_creation_response_was_lost_is_removed() {
    let (fleet, proxy) = fleet_behind_proxy().await;
    let silent = |request: &RecordedRequest| request.is_watch().then_some(Fault::Silence);
    proxy.rule(move |request| silent(request).unwrap_or(Fault::None));
    let (first, second) = (config_map("first"), config_map("second"));
    fleet.apply(first.clone()).await;
    fleet.apply(policy(&first, &["m1"])).await;
    eventually(
        "the ConfigMaps to be listed and watched",
        async || match proxy
            .count(|request| request.is_watch() && request.path.ends_with("/configmaps"))
        {
            0 => Err("no watch yet"),
            _ => Ok(()),
        },
    )
    .await;
    proxy.rule(move |request| match request.method {
        Method::POST => Fault::LoseResponse,
        _ => silent(request).unwrap_or(Fault::None),
    });
    fleet.apply(second.clone()).await;
    fleet.apply(policy(&second, &["m1"])).await;
    fleet.members[0].wait_until_exists(&second).await;
    fleet.delete(&second).await;
    fleet.members[0].wait_until_gone(&second).await;
    fleet.stop().await;
}

/// Returns a CustomResourceDefinition of the kind Widget with this plural name.
fn definition(plural: &str) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": { "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

/// A Widget that is propagated to the fleet's only member. The control plane and the member define the kind.
struct Widgets<'a> {
    fleet: &'a Fleet,
    kind: GroupVersionKind,
}

impl<'a> Widgets<'a> {
    async fn propagate(fleet: &'a Fleet) -> Self {
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
        widgets.wait_in_member("widgets").await;
        widgets
    }

    /// Returns the API of the member's Widgets with this plural name.
    fn api(&self, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk_with_plural(&self.kind, plural);
        Api::namespaced_with(self.fleet.members[0].client.clone(), NAMESPACE, &resource)
    }

    /// Waits until the Widget exists in the member, and returns its UID.
    async fn wait_in_member(&self, plural: &str) -> Option<String> {
        eventually("the widget", async || {
            match self.api(plural).get_opt("w").await {
                Ok(Some(widget)) => Ok(widget.metadata.uid),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Waits until the binding reports that the member does not serve the kind.
    async fn wait_until_unserved(&self) {
        let reason = "the server could not find the requested resource: \
            it does not serve Widget in example.com/v1";
        wait_for_apply_failure(self.fleet, "w-widget", reason).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_removed_from_a_member_is_reported_and_rediscovered() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let widgets = Widgets::propagate(&fleet).await;
    m1.delete(&definition("widgets")).await;
    widgets.wait_until_unserved().await;

    // The member defines the kind again, with another plural name.
    m1.wait_until_gone(&definition("widgets")).await;
    m1.apply(definition("widgetry")).await;
    let first = widgets.wait_in_member("widgetry").await;
    fleet.wait_for_fully_applied("w-widget", "True").await;
    widgets
        .api("widgetry")
        .delete("w", &DeleteParams::default())
        .await
        .unwrap();
    eventually("a new widget", async || {
        let uid = widgets.wait_in_member("widgetry").await;
        if uid == first {
            Err("it is still the first one")
        } else {
            Ok(())
        }
    })
    .await;
    fleet.stop().await;
}

/// Every list of Widgets in the member fails until the kind is removed, so the controllers never watch the kind. The
/// binding still reports that the member does not serve it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_removed_before_its_first_watch_is_reported() {
    let (fleet, proxy) = fleet_behind_proxy().await;
    proxy.rule(|request| {
        if request.method == Method::GET && request.path.ends_with("/widgets") {
            Fault::Respond(StatusCode::INTERNAL_SERVER_ERROR, None)
        } else {
            Fault::None
        }
    });
    let widgets = Widgets::propagate(&fleet).await;
    fleet.wait_for_fully_applied("w-widget", "True").await;
    fleet.members[0].delete(&definition("widgets")).await;
    fleet.members[0]
        .wait_until_gone(&definition("widgets"))
        .await;
    proxy.heal();
    widgets.wait_until_unserved().await;
    fleet.stop().await;
}
