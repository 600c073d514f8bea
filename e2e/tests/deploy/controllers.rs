//! `berth controllers`.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::component::Component;
use crate::place::Place;
use crate::rights;

const ACCOUNT: &str = "berth-controllers";

fn manifests() -> Value {
    let selects = |kind: &str, name: &str, api: &str| json!([{ "apiVersion": api, "kind": kind, "name": name }]);
    let policy = |kind: &str, name: &str, selectors: Value| {
        json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind,
                "metadata": { "name": name }, "spec": { "resourceSelectors": selectors } })
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["delete"] }]);
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "nginx" }] } } } },
        { "apiVersion": rbac, "kind": "Role", "metadata": { "name": "web" }, "rules": rules },
        { "apiVersion": rbac, "kind": "ClusterRole", "metadata": { "name": "web" }, "rules": rules },
        policy("PropagationPolicy", "web", selects("Deployment", "web", "apps/v1")),
        policy("PropagationPolicy", "role", selects("Role", "web", rbac)),
        policy("ClusterPropagationPolicy", "web", selects("ClusterRole", "web", rbac)),
    ]})
}

fn exists(place: &Place, what: &[&str]) -> bool {
    let mut arguments = vec!["get", "--ignore-not-found", "-o", "name"];
    arguments.extend(what);
    !place.kubectl(&arguments).is_empty()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    eventually(what, async || holds().then_some(()).ok_or("not yet")).await;
}

async fn until_forbidden(place: &Place, resource: &str, reason: &str) {
    until(&format!("{resource} to be refused: {reason}"), || {
        place.audit.requests().iter().any(|asked| {
            asked.is_forbidden() && asked.resource == resource && asked.message.contains(reason)
        })
    })
    .await;
}

#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_have_the_rights_that_they_need_and_no_other() {
    let enforced = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let place = Place::start(&[enforced]).await;
    place.apply("deploy/controllers");
    let roles: Api<ClusterRole> = Api::all(place.client.clone());
    let all = rights::given_to(&place.client, ACCOUNT).await;

    // Some rights are no requests of their own. Without them, what they are for is refused.
    let mut fewer = roles.get(ACCOUNT).await.unwrap().rules.unwrap();
    fewer.retain(|rule| !has(&rule.verbs, "escalate") && !has(&rule.verbs, "update"));
    assert_eq!(fewer.len(), 6);
    let fewer = json!({ "rules": fewer });
    roles
        .patch(ACCOUNT, &PatchParams::default(), &Patch::Merge(fewer))
        .await
        .unwrap();
    let kubeconfig = place.kubeconfig_of(ACCOUNT);
    let _detector = Component::start(&place, "berth-controllers", &kubeconfig, &[]).await;
    let file = place.folder().join("manifests.json");
    std::fs::write(&file, manifests().to_string()).unwrap();
    place.kubectl(&["apply", "-f", &file.display().to_string()]);
    until_forbidden(&place, "resourcebindings", "blockOwnerDeletion").await;
    until_forbidden(&place, "roles", "not currently held").await;
    until_forbidden(&place, "clusterroles", "not currently held").await;

    // With all of them it works, and nothing is refused any more.
    place.apply("deploy/controllers/rbac.yaml");
    for binding in [
        &["resourcebinding", "web-deployment"],
        &["resourcebinding", "web-role"],
        &["clusterresourcebinding", "web-clusterrole"],
    ] {
        until(&format!("{binding:?}"), || exists(&place, binding)).await;
    }
    let refused_before = place.audit.requests().len();
    place.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
    until("the binding to follow", || {
        let replicas = ["-o", "jsonpath={.spec.replicas}"];
        place.kubectl(&[&["get", "resourcebinding", "web-deployment"][..], &replicas].concat())
            == "3"
    })
    .await;
    // A cluster without an address: its Work is made, and let go when it is not wanted any more.
    let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "m1" }, "spec": { "syncMode": "Push" } });
    let file = place.folder().join("cluster.json");
    std::fs::write(&file, cluster.to_string()).unwrap();
    place.kubectl(&["apply", "-f", &file.display().to_string()]);
    let chosen = json!({ "spec": { "clusters": [{ "name": "m1", "replicas": 3 }] } });
    let patch = ["--type=merge", "-p", &chosen.to_string()];
    place.kubectl(&[&["patch", "resourcebinding", "web-deployment"][..], &patch].concat());
    let works = ["work", "-n", "karmada-es-m1"];
    until("the work", || exists(&place, &works)).await;
    // One that goes as soon as it has asked.
    let rebalancer = json!({ "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": { "name": "web" }, "spec": { "ttlSecondsAfterFinished": 0, "workloads": [
            { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web" }] } });
    let file = place.folder().join("rebalancer.json");
    std::fs::write(&file, rebalancer.to_string()).unwrap();
    place.kubectl(&["create", "-f", &file.display().to_string()]);
    until("the rebalancer to go", || {
        !exists(&place, &["workloadrebalancer", "web"])
    })
    .await;
    for policy in ["propagationpolicy/web", "clusterpropagationpolicy/web"] {
        place.kubectl(&["delete", policy, "--timeout=60s"]);
    }
    for (template, binding) in [
        ("deployment/web", "resourcebinding/web-deployment"),
        ("clusterrole/web", "clusterresourcebinding/web-clusterrole"),
    ] {
        place.kubectl(&["delete", template]);
        // No garbage collector runs beside a lone kube-apiserver.
        place.kubectl(&["delete", binding, "--timeout=60s"]);
    }
    until("the work to go", || !exists(&place, &works)).await;
    // No namespace controller runs, either: the execution namespace is asked to go, and stays.
    place.kubectl(&["delete", "cluster", "m1", "--wait=false"]);

    let asked = place.audit.requests();
    let requests: Vec<_> = all
        .iter()
        .filter(|right| {
            right.resource != "*/finalizers" && !["escalate", "bind"].contains(&right.verb.as_str())
        })
        .collect();
    assert_eq!(requests.len(), 14);
    eventually("every right to be used", async || {
        rights::all_are_used(requests.iter().copied(), &place.audit.requests())
    })
    .await;
    rights::none_is_forbidden(&asked[refused_before..]);
}

fn has(verbs: &[String], verb: &str) -> bool {
    verbs.iter().any(|each| each == verb)
}
