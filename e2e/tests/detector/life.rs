//! The life of policies and templates: changes, deletions, who wins, who waits.

use berth_controllers::detector::Gates;
use serde_json::{Value, json};

use crate::plane::{Plane, claimed_by, deployment, policy};

fn clusters(name: &str) -> Value {
    json!({ "placement": { "clusterAffinity": { "clusterNames": [name] } } })
}

fn placed_on(name: &str) -> impl Fn(&Value) -> bool {
    move |binding| binding["spec"]["placement"]["clusterAffinity"]["clusterNames"] == json!([name])
}

#[tokio::test]
async fn a_binding_follows_its_template_and_its_policy_and_keeps_what_others_wrote() {
    let plane = Plane::start().await;
    let (web, p) = (deployment("web"), policy("p", "web", clusters("m1")));
    plane.create(web.clone()).await;
    plane.create(p.clone()).await;
    let binding = plane
        .until_binding(&web, "the binding", placed_on("m1"))
        .await;
    assert_eq!(binding["spec"]["replicas"], 2);
    plane.until_event("web", "ApplyPolicySucceed").await;
    plane.until_event("web", "GetReplicasSucceed").await;

    // What the scheduler and a user write stays.
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web-deployment"}});
    let others = json!({"spec": {"clusters": [{"name": "m1", "replicas": 2}], "suspension": {"scheduling": true}}});
    plane.change(&rb, others).await;

    plane.change(&web, json!({"spec": {"replicas": 5}})).await;
    let scaled = plane
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
    plane.change(&p, json!({ "spec": change })).await;
    let moved = plane
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
    plane.stop().await;
}

#[tokio::test]
async fn a_deleted_policy_lets_go_and_the_next_one_takes_over() {
    let plane = Plane::start().await;
    let web = deployment("web");
    plane.create(policy("a", "web", clusters("m1"))).await;
    plane.create(web.clone()).await;
    plane
        .until_binding(&web, "the binding", placed_on("m1"))
        .await;
    let a = policy("a", "web", json!({}));
    plane.delete(&a).await;
    plane
        .until(&a, "the end of the policy", Value::is_null)
        .await;
    let free = plane
        .until(&web, "the release", |web| claimed_by(web).is_none())
        .await;
    assert_eq!(free["metadata"]["labels"], json!({"app": "web"}));
    let binding = plane.binding(&web).await;
    assert!(!binding.is_null(), "the binding stays");
    assert_eq!(claimed_by(&binding), None);

    plane.create(policy("b", "web", clusters("m2"))).await;
    let taken = plane
        .until_binding(&web, "the next policy", placed_on("m2"))
        .await;
    assert_eq!(claimed_by(&taken), Some("b"));
    plane.stop().await;
}

#[tokio::test]
async fn what_spares_a_binding_goes_with_what_its_policy_says() {
    let spares = "scheduling.berth/preemptible";
    let plane = Plane::start().await;
    let (web, p) = (deployment("web"), policy("p", "web", clusters("m1")));
    let mut sparing = p.clone();
    sparing["metadata"]["annotations"] = json!({ spares: "false" });
    plane.create(web.clone()).await;
    plane.create(sparing).await;
    let says = |value: Option<&'static str>| {
        move |binding: &Value| binding["metadata"]["annotations"][spares].as_str() == value
    };
    plane
        .until_binding(&web, "the annotation", says(Some("false")))
        .await;
    let annotate = |value: Value| json!({ "metadata": { "annotations": { spares: value } } });
    plane.change(&p, annotate(Value::Null)).await;
    let plain = plane.until_binding(&web, "no annotation", says(None)).await;
    // What somebody else says of the binding is not the policy's.
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web-deployment"}});
    assert!(!plain.to_string().contains("preemptible"), "{plain}");
    plane.change(&rb, annotate(json!("false"))).await;
    plane.change(&web, json!({"spec": {"replicas": 5}})).await;
    let own = plane
        .until_binding(&web, "five replicas", |binding| {
            binding["spec"]["replicas"] == 5
        })
        .await;
    assert!(says(Some("false"))(&own), "{own}");
    // A policy that says so takes over, and what it said goes with it.
    plane.change(&p, annotate(json!("true"))).await;
    plane
        .until_binding(&web, "the word of the policy", says(Some("true")))
        .await;
    plane.delete(&p).await;
    plane.until_binding(&web, "the release", says(None)).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_policy_that_selects_something_else_lets_go_of_what_it_held() {
    let plane = Plane::start().await;
    let (web, api) = (deployment("web"), deployment("api"));
    let p = policy("p", "web", json!({}));
    for object in [&web, &api, &p] {
        plane.create(object.clone()).await;
    }
    plane
        .until_binding(&web, "the first binding", |b| !b.is_null())
        .await;
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}]);
    plane
        .change(&p, json!({"spec": {"resourceSelectors": selectors}}))
        .await;
    plane
        .until_binding(&api, "the second binding", |b| !b.is_null())
        .await;
    plane
        .until(&web, "the release", |web| claimed_by(web).is_none())
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_deleted_template_takes_its_binding_along_and_a_new_one_gets_its_own() {
    let plane = Plane::start().await;
    let web = deployment("web");
    plane.create(policy("p", "web", json!({}))).await;
    plane.create(web.clone()).await;
    let first = plane
        .until_binding(&web, "the binding", |b| !b.is_null())
        .await;
    plane.delete(&web).await;
    plane
        .until(&web, "the end of the template", Value::is_null)
        .await;
    plane.create(web.clone()).await;
    // Nobody runs the binding controller here, whose finalizer would hold the old binding.
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web-deployment"}});
    plane
        .change(&rb, json!({"metadata": {"finalizers": null}}))
        .await;
    let owner = first["metadata"]["ownerReferences"][0]["uid"].clone();
    let second = plane
        .until_binding(&web, "the binding of the new template", |b| {
            !b.is_null() && b["metadata"]["ownerReferences"][0]["uid"] != owner
        })
        .await;
    assert_eq!(
        second["spec"]["resource"]["uid"],
        second["metadata"]["ownerReferences"][0]["uid"]
    );
    plane.stop().await;
}

#[tokio::test]
async fn a_lazy_policy_reaches_the_binding_with_the_next_change_of_the_template() {
    let plane = Plane::start().await;
    let web = deployment("web");
    let mut spec = clusters("m1");
    spec["activationPreference"] = json!("Lazy");
    let lazy = policy("lazy", "web", spec);
    plane.create(web.clone()).await;
    plane.settle("seen").await;
    plane.create(lazy.clone()).await;
    plane
        .until(&web, "the claim", |web| claimed_by(web) == Some("lazy"))
        .await;
    plane.settle("still").await;
    assert!(plane.binding(&web).await.is_null());

    plane
        .change(&web, json!({"metadata": {"annotations": {"edited": "1"}}}))
        .await;
    plane
        .until_binding(&web, "the binding after an edit", placed_on("m1"))
        .await;
    plane.change(&lazy, json!({ "spec": clusters("m2") })).await;
    plane.settle("lazily").await;
    assert!(placed_on("m1")(&plane.binding(&web).await));
    plane
        .change(&lazy, json!({"spec": {"activationPreference": null}}))
        .await;
    plane
        .until_binding(&web, "the change at once", placed_on("m2"))
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_priority_class_that_is_missing_is_told_and_waited_for() {
    let plane = Plane::start().await;
    let web = deployment("web");
    let priority = json!({"schedulePriority": {
        "priorityClassSource": "KubePriorityClass", "priorityClassName": "urgent"}});
    plane.create(policy("p", "web", priority)).await;
    plane.create(web.clone()).await;
    let message = plane.until_event("web", "ApplyPolicyFailed").await;
    assert!(message.contains("urgent"), "{message}");
    assert!(plane.binding(&web).await.is_null());
    plane
        .create(
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "urgent"}, "value": 7}),
        )
        .await;
    plane
        .until_binding(&web, "the priority", |b| {
            b["spec"]["schedulePriority"]["priority"] == 7
        })
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn preemption_takes_and_gives_back() {
    let plane = Plane::with_gates(Gates {
        policy_preemption: true,
        ..Gates::default()
    })
    .await;
    let web = deployment("web");
    let contender = |name: &str, cluster: &str, priority: i32| {
        let mut spec = clusters(cluster);
        spec["priority"] = json!(priority);
        spec["preemption"] = json!("Always");
        policy(name, "web", spec)
    };
    let high = contender("high", "m2", 10);
    plane.create(contender("low", "m1", 1)).await;
    plane.create(web.clone()).await;
    plane
        .until_binding(&web, "the first policy", placed_on("m1"))
        .await;
    plane.create(high.clone()).await;
    plane
        .until_binding(&web, "the preemption", placed_on("m2"))
        .await;
    plane.until_event("web", "PreemptPolicySucceed").await;
    plane.create(contender("middle", "m3", 5)).await;
    plane.settle("unmoved").await;
    assert!(placed_on("m2")(&plane.binding(&web).await));
    plane.change(&high, json!({"spec": {"priority": 4}})).await;
    plane
        .until_binding(&web, "the turn of the middle one", placed_on("m3"))
        .await;
    plane.delete(&contender("middle", "", 0)).await;
    plane
        .until_binding(&web, "the return", placed_on("m2"))
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_custom_resource_is_propagated_as_soon_as_its_kind_is_served() {
    let plane = Plane::start().await;
    plane
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
    plane.create(p).await;
    plane
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
    plane.create(gadget.clone()).await;
    let binding = plane
        .until_binding(&gadget, "the binding", |b| !b.is_null())
        .await;
    assert_eq!(binding["spec"].get("replicas"), None);
    plane.stop().await;
}

#[tokio::test]
async fn a_selector_for_an_api_that_is_not_served_is_reported_once() {
    let plane = Plane::start().await;
    let selecting = |name: &str, api_version: &str, kind: &str| {
        let mut p = policy(name, "g", json!({}));
        p["spec"]["resourceSelectors"] = json!([{"apiVersion": api_version, "kind": kind}]);
        p
    };
    let typo = selecting("typo", "apps/v1", "Deploymnt");
    plane
        .create(policy("early", "not-there-yet", json!({})))
        .await;
    plane.create(typo.clone()).await;
    plane
        .create(selecting("gadgets", "example.io/v1", "Gadget"))
        .await;
    let message = plane.until_event("typo", "APINotServed").await;
    assert_eq!(
        message,
        "spec.resourceSelectors[0] matches nothing: the control plane does not serve Deploymnt in apps/v1; did you mean \
         Deployment?"
    );
    plane.until_event("gadgets", "APINotServed").await;
    // Checked again: with another policy, and after the typo was left in a changed one.
    plane.change(&typo, json!({ "spec": clusters("m2") })).await;
    plane.create(selecting("typo2", "v1", "Deployment")).await;
    plane.until_event("typo2", "APINotServed").await;
    assert_eq!(plane.warnings("typo").await, ["APINotServed x1"]);
    assert_eq!(plane.warnings("gadgets").await, ["APINotServed x1"]);
    assert_eq!(plane.warnings("early").await, [""; 0]);
    plane.stop().await;
}

#[tokio::test]
async fn a_template_waits_for_the_overrides_of_its_policy() {
    let plane = Plane::start().await;
    let web = deployment("web");
    let p = policy("p", "web", json!({"dependentOverrides": ["op"]}));
    plane.create(p).await;
    plane.create(web.clone()).await;
    plane.settle("seen").await;
    assert_eq!(claimed_by(&plane.get(&web).await), None);
    plane
        .create(
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": "op", "namespace": "default"}, "spec": {}}),
        )
        .await;
    plane
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_detector_that_starts_again_writes_nothing() {
    let mut plane = Plane::start().await;
    let web = deployment("web");
    let p = policy("p", "web", clusters("m1"));
    plane.create(p.clone()).await;
    plane.create(web.clone()).await;
    plane
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    let before = (
        plane.get(&web).await,
        plane.get(&p).await,
        plane.binding(&web).await,
    );
    plane.restart_detector().await;
    plane.settle("seen").await;
    let after = (
        plane.get(&web).await,
        plane.get(&p).await,
        plane.binding(&web).await,
    );
    assert_eq!(before, after);
    plane.stop().await;
}

#[tokio::test]
async fn a_binding_that_is_deleted_under_its_template_comes_back() {
    let plane = Plane::start().await;
    let web = deployment("web");
    plane.create(policy("p", "web", clusters("m1"))).await;
    plane.create(web.clone()).await;
    let first = plane
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    let rb = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment"}});
    plane
        .change(&rb, json!({"metadata": {"finalizers": null}}))
        .await;
    plane.delete(&rb).await;
    plane
        .until_binding(&web, "another binding", |binding| {
            !binding.is_null() && binding["metadata"]["uid"] != first["metadata"]["uid"]
        })
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_binding_comes_within_moments() {
    let plane = Plane::start().await;
    plane.create(policy("p", "web", clusters("m1"))).await;
    plane.settle("warm").await;
    let web = deployment("web");
    let start = std::time::Instant::now();
    plane.create(web.clone()).await;
    plane
        .until_binding(&web, "the binding", |binding| !binding.is_null())
        .await;
    // Milliseconds on a quiet machine; the bound leaves room for one that is busy with other tests.
    let taken = start.elapsed();
    assert!(taken < std::time::Duration::from_secs(10), "{taken:?}");
    eprintln!("binding after {taken:?}");
    plane.stop().await;
}
