//! Tests of the lifecycle of policies and templates: how the detector handles changes and deletions, preemption between
//! policies, and templates that wait for other objects.

use berth_api::feature_gates::FeatureGates;
use berth_e2e::Objects as _;
use serde_json::{Value, json};

use crate::fixture::{Fixture, claimed_by, deployment, policy};

/// Returns the part of a policy spec that places a template on one cluster.
fn clusters(name: &str) -> Value {
    json!({ "placement": { "clusterAffinity": { "clusterNames": [name] } } })
}

/// Returns a condition: the placement of a binding names exactly this cluster.
fn placed_on(name: &str) -> impl Fn(&Value) -> bool {
    move |binding| binding["spec"]["placement"]["clusterAffinity"]["clusterNames"] == json!([name])
}

/// Checks that changes of a template and its policy update the binding, and that the fields of the scheduler and of
/// users stay.
#[tokio::test]
async fn a_binding_follows_its_template_and_policy_and_keeps_foreign_fields() {
    let fixture = Fixture::start().await;
    let (web, p) = (deployment("web"), policy("p", "web", clusters("m1")));
    fixture.create(web.clone()).await;
    fixture.create(p.clone()).await;
    let binding = fixture
        .until_binding(&web, "the binding", placed_on("m1"))
        .await;
    assert_eq!(binding["spec"]["replicas"], 2);
    fixture.until_event("web", "ApplyPolicySucceed").await;

    // Write fields as the scheduler and a user do. The detector must keep them.
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web-deployment"}});
    let others = json!({"spec": {"clusters": [{"name": "m1", "replicas": 2}], "suspension": {"scheduling": true}}});
    fixture.edit(&rb, others).await;

    fixture.edit(&web, json!({"spec": {"replicas": 5}})).await;
    let scaled = fixture
        .until_binding(&web, "five replicas", |binding| {
            binding["spec"]["replicas"] == 5
        })
        .await;
    assert_eq!(
        scaled["spec"]["clusters"],
        json!([{"name": "m1", "replicas": 2}])
    );
    assert_eq!(scaled["spec"]["suspension"], json!({"scheduling": true}));

    let mut change = clusters("m2");
    change["suspension"] = json!({"dispatching": true});
    fixture.edit(&p, json!({ "spec": change })).await;
    let moved = fixture
        .until_binding(&web, "the new placement", placed_on("m2"))
        .await;
    assert_eq!(
        moved["spec"]["suspension"],
        json!({"dispatching": true, "scheduling": true})
    );
    assert_eq!(
        moved["spec"]["clusters"],
        json!([{"name": "m1", "replicas": 2}])
    );
    fixture.stop().await;
}

#[tokio::test]
async fn a_deleted_policy_releases_its_template_and_the_next_one_claims_it() {
    let fixture = Fixture::start().await;
    let web = deployment("web");
    fixture.create(policy("a", "web", clusters("m1"))).await;
    fixture.create(web.clone()).await;
    fixture
        .until_binding(&web, "the binding", placed_on("m1"))
        .await;
    let a = policy("a", "web", json!({}));
    fixture.delete(&a).await;
    fixture
        .until(&a, "the end of the policy", Value::is_null)
        .await;
    let released = fixture
        .until(&web, "the release", |web| claimed_by(web).is_none())
        .await;
    assert_eq!(released["metadata"]["labels"], json!({"app": "web"}));
    let binding = fixture.binding(&web).await;
    assert!(
        !binding.is_null(),
        "the binding of the released template must stay"
    );
    assert_eq!(claimed_by(&binding), None);

    fixture.create(policy("b", "web", clusters("m2"))).await;
    let claimed = fixture
        .until_binding(&web, "the next policy", placed_on("m2"))
        .await;
    assert_eq!(claimed_by(&claimed), Some("b"));
    fixture.stop().await;
}

/// Checks that the annotation `scheduling.berth/preemptible` of a policy is set on its bindings, and removed from them
/// when the policy loses it.
#[tokio::test]
async fn the_preemptible_annotation_follows_the_policy() {
    let key = "scheduling.berth/preemptible";
    let fixture = Fixture::start().await;
    let (web, p) = (deployment("web"), policy("p", "web", clusters("m1")));
    let mut annotated = p.clone();
    annotated["metadata"]["annotations"] = json!({ key: "false" });
    fixture.create(web.clone()).await;
    fixture.create(annotated).await;
    let has_value = |value: Option<&'static str>| {
        move |binding: &Value| binding["metadata"]["annotations"][key].as_str() == value
    };
    fixture
        .until_binding(&web, "the annotation", has_value(Some("false")))
        .await;
    let annotate = |value: Value| json!({ "metadata": { "annotations": { key: value } } });
    fixture.edit(&p, annotate(Value::Null)).await;
    let unannotated = fixture
        .until_binding(&web, "no annotation", has_value(None))
        .await;
    // The detector keeps an annotation that another client wrote.
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web-deployment"}});
    assert!(
        !unannotated.to_string().contains("preemptible"),
        "{unannotated}"
    );
    fixture.edit(&rb, annotate(json!("false"))).await;
    fixture.edit(&web, json!({"spec": {"replicas": 5}})).await;
    let updated = fixture
        .until_binding(&web, "five replicas", |binding| {
            binding["spec"]["replicas"] == 5
        })
        .await;
    assert!(has_value(Some("false"))(&updated), "{updated}");
    // The annotation of the policy overwrites this annotation, and is removed when the policy is deleted.
    fixture.edit(&p, annotate(json!("true"))).await;
    fixture
        .until_binding(
            &web,
            "the annotation of the policy",
            has_value(Some("true")),
        )
        .await;
    fixture.delete(&p).await;
    fixture
        .until_binding(&web, "the release", has_value(None))
        .await;
    fixture.stop().await;
}

/// Checks that a template is released when its policy no longer selects it.
#[tokio::test]
async fn a_policy_with_new_selectors_releases_its_template() {
    let fixture = Fixture::start().await;
    let (web, api) = (deployment("web"), deployment("api"));
    let p = policy("p", "web", json!({}));
    for object in [&web, &api, &p] {
        fixture.create(object.clone()).await;
    }
    fixture
        .until_binding(&web, "the first binding", |b| !b.is_null())
        .await;
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}]);
    fixture
        .edit(&p, json!({"spec": {"resourceSelectors": selectors}}))
        .await;
    fixture
        .until_binding(&api, "the second binding", |b| !b.is_null())
        .await;
    fixture
        .until(&web, "the release", |web| claimed_by(web).is_none())
        .await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_recreated_template_gets_a_new_binding() {
    let fixture = Fixture::start().await;
    let web = deployment("web");
    fixture.create(policy("p", "web", json!({}))).await;
    fixture.create(web.clone()).await;
    let first = fixture
        .until_binding(&web, "the binding", |b| !b.is_null())
        .await;
    fixture.delete(&web).await;
    fixture
        .until(&web, "the end of the template", Value::is_null)
        .await;
    fixture.create(web.clone()).await;
    // Remove the finalizer of the old binding, because no binding controller runs.
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web-deployment"}});
    fixture
        .edit(&rb, json!({"metadata": {"finalizers": null}}))
        .await;
    let owner = first["metadata"]["ownerReferences"][0]["uid"].clone();
    let second = fixture
        .until_binding(&web, "the binding of the new template", |b| {
            !b.is_null() && b["metadata"]["ownerReferences"][0]["uid"] != owner
        })
        .await;
    assert_eq!(
        second["spec"]["resource"]["uid"],
        second["metadata"]["ownerReferences"][0]["uid"]
    );
    fixture.stop().await;
}

/// Checks that a policy with `activationPreference: Lazy` places a template only at the next change of the template. A
/// later change of the policy has no effect on the binding until the policy is no longer lazy.
#[tokio::test]
async fn a_lazy_policy_takes_effect_with_the_next_template_change() {
    let fixture = Fixture::start().await;
    let web = deployment("web");
    let mut spec = clusters("m1");
    spec["activationPreference"] = json!("Lazy");
    let lazy = policy("lazy", "web", spec);
    fixture.create(web.clone()).await;
    fixture.wait_for_marker("seen").await;
    fixture.create(lazy.clone()).await;
    fixture
        .until(&web, "the claim", |web| claimed_by(web) == Some("lazy"))
        .await;
    fixture.wait_for_marker("still").await;
    assert!(fixture.binding(&web).await.is_null());

    fixture
        .edit(&web, json!({"metadata": {"annotations": {"edited": "1"}}}))
        .await;
    fixture
        .until_binding(&web, "the binding after an edit", placed_on("m1"))
        .await;
    fixture.edit(&lazy, json!({ "spec": clusters("m2") })).await;
    fixture.wait_for_marker("lazily").await;
    assert!(placed_on("m1")(&fixture.binding(&web).await));
    fixture
        .edit(&lazy, json!({"spec": {"activationPreference": null}}))
        .await;
    fixture
        .until_binding(&web, "the change at once", placed_on("m2"))
        .await;
    fixture.stop().await;
}

/// Checks that a template whose policy names a missing PriorityClass gets an event, and gets a binding once the class
/// exists.
#[tokio::test]
async fn a_missing_priority_class_is_reported_and_awaited() {
    let fixture = Fixture::start().await;
    let web = deployment("web");
    let priority = json!({"schedulePriority": {
        "priorityClassSource": "KubePriorityClass", "priorityClassName": "urgent"}});
    fixture.create(policy("p", "web", priority)).await;
    fixture.create(web.clone()).await;
    let message = fixture.until_event("web", "ApplyPolicyFailed").await;
    assert!(message.contains("urgent"), "{message}");
    assert!(fixture.binding(&web).await.is_null());
    fixture
        .create(
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "urgent"}, "value": 7}),
        )
        .await;
    fixture
        .until_binding(&web, "the priority", |b| {
            b["spec"]["schedulePriority"]["priority"] == 7
        })
        .await;
    fixture.stop().await;
}

/// Checks that a policy that may preempt claims the template of a policy with a lower priority. The template moves
/// again when the priorities change.
#[tokio::test]
async fn a_template_moves_between_policies_by_preemption_priority() {
    let mut gates = FeatureGates::default();
    gates.controllers.policy_preemption = true;
    let fixture = Fixture::with_gates(gates).await;
    let web = deployment("web");
    let contender = |name: &str, cluster: &str, priority: i32| {
        let mut spec = clusters(cluster);
        spec["priority"] = json!(priority);
        spec["preemption"] = json!("Always");
        policy(name, "web", spec)
    };
    let high = contender("high", "m2", 10);
    fixture.create(contender("low", "m1", 1)).await;
    fixture.create(web.clone()).await;
    fixture
        .until_binding(&web, "the first policy", placed_on("m1"))
        .await;
    fixture.create(high.clone()).await;
    fixture
        .until_binding(&web, "the preemption", placed_on("m2"))
        .await;
    fixture.until_event("web", "PreemptPolicySucceed").await;
    fixture.create(contender("middle", "m3", 5)).await;
    fixture.wait_for_marker("unmoved").await;
    assert!(placed_on("m2")(&fixture.binding(&web).await));
    fixture.edit(&high, json!({"spec": {"priority": 4}})).await;
    fixture
        .until_binding(&web, "the claim of the middle policy", placed_on("m3"))
        .await;
    fixture.delete(&contender("middle", "", 0)).await;
    fixture
        .until_binding(&web, "the claim of the high policy", placed_on("m2"))
        .await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_custom_resource_is_propagated_once_its_kind_is_served() {
    let fixture = Fixture::start().await;
    fixture
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.io"},
            "spec": {
                "group": "example.io", "scope": "Namespaced",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }))
        .await;
    let gadget = json!({"apiVersion": "example.io/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "default"}});
    let mut p = policy("p", "g", json!({}));
    p["spec"]["resourceSelectors"] = json!([{"apiVersion": "example.io/v1", "kind": "Gadget"}]);
    fixture.create(p).await;
    fixture
        .until(
            &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.io"}}),
            "the kind to be served",
            |crd| {
                crd["status"]["conditions"]
                    .to_string()
                    .contains("Established")
            },
        )
        .await;
    fixture.create(gadget.clone()).await;
    let binding = fixture
        .until_binding(&gadget, "the binding", |b| !b.is_null())
        .await;
    assert_eq!(binding["spec"].get("replicas"), None);
    fixture.stop().await;
}

#[tokio::test]
async fn a_selector_for_an_api_that_is_not_served_is_reported_once() {
    let fixture = Fixture::start().await;
    let selecting = |name: &str, api_version: &str, kind: &str| {
        let mut p = policy(name, "g", json!({}));
        p["spec"]["resourceSelectors"] = json!([{"apiVersion": api_version, "kind": kind}]);
        p
    };
    let typo = selecting("typo", "apps/v1", "Deploymnt");
    fixture
        .create(policy("early", "not-there-yet", json!({})))
        .await;
    fixture.create(typo.clone()).await;
    fixture
        .create(selecting("gadgets", "example.io/v1", "Gadget"))
        .await;
    let message = fixture.until_event("typo", "APINotServed").await;
    assert_eq!(
        message,
        "spec.resourceSelectors[0] matches nothing: the control plane does not serve Deploymnt in apps/v1; did you mean \
         Deployment?"
    );
    fixture.until_event("gadgets", "APINotServed").await;
    // The detector checks selectors again after a change of their policy, and after the creation of another policy.
    // Trigger both checks.
    fixture
        .edit(
            &typo,
            json!({ "spec": { "conflictResolution": "Overwrite" } }),
        )
        .await;
    fixture.create(selecting("typo2", "v1", "Deployment")).await;
    fixture.until_event("typo2", "APINotServed").await;
    assert_eq!(fixture.warnings("typo").await, ["APINotServed x1"]);
    assert_eq!(fixture.warnings("gadgets").await, ["APINotServed x1"]);
    assert_eq!(fixture.warnings("early").await, [""; 0]);
    fixture.stop().await;
}

/// Checks that a template gets no binding until the OverridePolicies that its policy depends on exist.
#[tokio::test]
async fn a_template_waits_for_the_overrides_of_its_policy() {
    let fixture = Fixture::start().await;
    let web = deployment("web");
    let p = policy("p", "web", json!({"dependentOverrides": ["op"]}));
    fixture.create(p).await;
    fixture.create(web.clone()).await;
    fixture.wait_for_marker("seen").await;
    assert_eq!(claimed_by(&fixture.get(&web).await), None);
    fixture
        .create(
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": "op", "namespace": "default"}, "spec": {}}),
        )
        .await;
    fixture
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    fixture.stop().await;
}

/// Checks that a detector that starts with existing bindings changes no template, policy or binding.
#[tokio::test]
async fn a_restarted_detector_writes_nothing() {
    let mut fixture = Fixture::start().await;
    let web = deployment("web");
    let p = policy("p", "web", clusters("m1"));
    fixture.create(p.clone()).await;
    fixture.create(web.clone()).await;
    fixture
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    let before = (
        fixture.get(&web).await,
        fixture.get(&p).await,
        fixture.binding(&web).await,
    );
    fixture.restart_detector().await;
    fixture.wait_for_marker("seen").await;
    let after = (
        fixture.get(&web).await,
        fixture.get(&p).await,
        fixture.binding(&web).await,
    );
    assert_eq!(before, after);
    fixture.stop().await;
}

#[tokio::test]
async fn a_deleted_binding_is_recreated() {
    let fixture = Fixture::start().await;
    let web = deployment("web");
    fixture.create(policy("p", "web", clusters("m1"))).await;
    fixture.create(web.clone()).await;
    let first = fixture
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment"}});
    fixture
        .edit(&rb, json!({"metadata": {"finalizers": null}}))
        .await;
    fixture.delete(&rb).await;
    fixture
        .until_binding(&web, "another binding", |binding| {
            !binding.is_null() && binding["metadata"]["uid"] != first["metadata"]["uid"]
        })
        .await;
    fixture.stop().await;
}

/// Checks that a template gets its binding within ten seconds.
#[tokio::test]
async fn a_binding_is_created_promptly() {
    let fixture = Fixture::start().await;
    fixture.create(policy("p", "web", clusters("m1"))).await;
    fixture.wait_for_marker("warm").await;
    let web = deployment("web");
    let start = std::time::Instant::now();
    fixture.create(web.clone()).await;
    fixture
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    // The detector needs milliseconds on an idle machine. The limit is long because other tests run at the same time.
    let taken = start.elapsed();
    assert!(taken < std::time::Duration::from_secs(10), "{taken:?}");
    eprintln!("binding after {taken:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn an_invalid_selector_matches_nothing_and_is_reported() {
    let fixture = Fixture::start().await;
    let web = deployment("web");
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}]);
    fixture.create(web.clone()).await;
    fixture
        .create(policy(
            "p",
            "web",
            json!({ "resourceSelectors": selectors }),
        ))
        .await;
    let message = fixture.until_event("p", "InvalidResourceSelector").await;
    assert!(message.contains("Near"), "{message}");
    fixture.wait_for_marker("marker").await;
    assert!(fixture.binding(&web).await.is_null());
    fixture.stop().await;
}
