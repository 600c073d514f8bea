//! Tests of override policies, which change objects for some members. [`crate::overriders`] tests further kinds of
//! overriders.

use berth_e2e::Objects as _;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{config_map, deployment, policy};

fn override_policy(kind: &str, name: &str, selectors: Value, rules: Value) -> Value {
    json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": { "name": name },
        "spec": { "resourceSelectors": selectors, "overrideRules": rules } })
}

/// m2 gets the image of the namespaced policy. After the deletion of this policy, m2 gets the image of the
/// cluster-scoped policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creating_editing_and_deleting_an_override_policy_updates_members() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let web = deployment("web", 1);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1", "m2"])).await;
    m1.wait_until_exists(&web).await;
    m2.wait_until_exists(&web).await;

    let this = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }]);
    let image = |value: &str| {
        json!([{ "targetCluster": { "clusterNames": ["m2"] }, "overriders": { "imageOverrider": [
            { "component": "Registry", "operator": "replace", "value": value },
            { "component": "Tag", "operator": "replace", "value": "2" }] } }])
    };
    let image_of = |web: &Value| web["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let eu = override_policy("OverridePolicy", "eu", this.clone(), image("registry.eu"));
    fleet.apply(eu.clone()).await;
    m2.wait_for(&web, "the image", |web| {
        image_of(web) == "registry.eu/nginx:2"
    })
    .await;
    assert_eq!(image_of(&m1.get(&web).await.unwrap()), "nginx:1");
    let work = fleet
        .works("m2")
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    let applied = &work.metadata.annotations.unwrap()["policy.karmada.io/applied-overrides"];
    assert!(applied.contains("\"policyName\":\"eu\""), "{applied}");

    // This cluster-scoped policy selects all clusters and objects. Its overriders run before those of the namespaced
    // policy.
    let label = json!([{ "overriders": {
        "labelsOverrider": [{ "operator": "add", "value": { "fleet": "yes" } }],
        "imageOverrider": [{ "component": "Registry", "operator": "replace", "value": "cop.io" }] } }]);
    fleet
        .apply(override_policy(
            "ClusterOverridePolicy",
            "all",
            json!([]),
            label,
        ))
        .await;
    m1.wait_for(&web, "the label", |web| {
        web["metadata"]["labels"]["fleet"] == "yes"
    })
    .await;
    m2.wait_for(&web, "the label", |web| {
        web["metadata"]["labels"]["fleet"] == "yes"
    })
    .await;
    assert_eq!(image_of(&m1.get(&web).await.unwrap()), "cop.io/nginx:1");
    assert_eq!(
        image_of(&m2.get(&web).await.unwrap()),
        "registry.eu/nginx:2"
    );

    fleet
        .apply(override_policy(
            "OverridePolicy",
            "eu",
            this,
            image("eu.io"),
        ))
        .await;
    m2.wait_for(&web, "the new image", |web| {
        image_of(web) == "eu.io/nginx:2"
    })
    .await;
    fleet.delete(&eu).await;
    m2.wait_for(&web, "the image of the cluster-scoped policy", |web| {
        image_of(web) == "cop.io/nginx:1"
    })
    .await;
    fleet.stop().await;
}

/// A field overrider changes YAML in a ConfigMap. For a wrong path, an event reports the error, and the member gets no
/// object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn field_overriders_patch_text_and_report_failures() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let mut map = config_map("settings");
    map["data"] = json!({ "db.yaml": "host: old\nport: 1\n" });
    let this = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "settings" }]);
    let patch = |path: &str| {
        json!([{ "overriders": { "fieldOverrider": [{ "fieldPath": path,
            "yaml": [{ "subPath": "/host", "operator": "replace", "value": "new" }] }] } }])
    };
    let wrong = override_policy("OverridePolicy", "db", this.clone(), patch("/data/none"));
    fleet.apply(wrong).await;
    fleet.apply(map.clone()).await;
    fleet.apply(policy(&map, &["m1"])).await;
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(fleet.client.clone(), "default");
    berth_e2e::eventually("the reason", async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let mut failed = all
            .iter()
            .filter(|e| e.reason.as_deref() == Some("SyncWorkFailed"));
        let reported = failed.any(|e| e.message.as_deref().unwrap_or_default().contains("\"db\""));
        reported.then_some(()).ok_or("no such event")
    })
    .await;
    assert_eq!(m1.get(&map).await, None);
    fleet
        .apply(override_policy(
            "OverridePolicy",
            "db",
            this,
            patch("/data/db.yaml"),
        ))
        .await;
    let object = m1.wait_until_exists(&map).await;
    assert_eq!(object["data"]["db.yaml"], "host: new\nport: 1\n");
    fleet.stop().await;
}

/// Admission refuses overrides of an object's identity, and overrides of RBAC rules by a namespaced policy. An override
/// whose effect admission cannot know fails with an event when it is applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_keep_the_identity_and_the_rights_of_objects() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let replace = |path: &str, value: &str| {
        json!([{ "overriders": { "plaintext": [
            { "path": path, "operator": "replace", "value": value }] } }])
    };
    let rename = replace("/metadata/name", "other");
    let rename = override_policy("OverridePolicy", "rename", json!([]), rename);
    let refused = fleet.refusal(rename).await;
    assert!(refused.contains("identifies the object"), "{refused}");

    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }] });
    let roles = json!([{ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role" }]);
    let widen = replace("/rules/0/verbs/0", "*");
    let namespaced = override_policy("OverridePolicy", "widen", roles.clone(), widen.clone());
    let refused = fleet.refusal(namespaced).await;
    assert!(refused.contains("grants rights"), "{refused}");
    let cluster_wide = override_policy("ClusterOverridePolicy", "widen", roles, widen);
    fleet.apply(cluster_wide).await;
    fleet.apply(role.clone()).await;
    fleet.apply(policy(&role, &["m1"])).await;
    let widened = m1.wait_until_exists(&role).await;
    assert_eq!(widened["rules"][0]["verbs"], json!(["*"]));

    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token",
        "annotations": { "kubernetes.io/service-account.name": "admin" } }, "type": "Opaque" });
    let fill = replace("/type", "kubernetes.io/service-account-token");
    let secrets = json!([{ "apiVersion": "v1", "kind": "Secret" }]);
    let fill = override_policy("OverridePolicy", "fill", secrets, fill);
    fleet.apply(fill.clone()).await;
    fleet.apply(secret.clone()).await;
    fleet.apply(policy(&secret, &["m1"])).await;
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(fleet.client.clone(), "default");
    berth_e2e::eventually("the reason", async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let mut failed = all
            .iter()
            .filter(|e| e.reason.as_deref() == Some("ApplyOverridePolicyFailed"));
        let is_reported = failed.any(|e| {
            let message = e.message.as_deref().unwrap_or_default();
            message.contains("override policy(default/fill)") && message.contains("grants rights")
        });
        is_reported.then_some(()).ok_or("no such event")
    })
    .await;
    assert_eq!(m1.get(&secret).await, None);
    fleet.delete(&fill).await;
    m1.wait_until_exists(&secret).await;
    fleet.wait_for_fully_applied("token-secret", "True").await;
    // The object that the member has stays, and the condition reports that it is outdated.
    fleet.apply(fill).await;
    let binding = fleet.wait_for_fully_applied("token-secret", "False").await;
    let mut conditions = binding.status.unwrap().conditions.into_iter();
    let condition = conditions.find(|c| c.type_ == "FullyApplied").unwrap();
    assert!(
        condition.message.contains("\"fill\" cannot be applied"),
        "{condition:?}"
    );
    assert_eq!(m1.get(&secret).await.unwrap()["type"], "Opaque");
    fleet.stop().await;
}
