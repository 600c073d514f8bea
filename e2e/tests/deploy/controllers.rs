//! The rights of the ServiceAccount of `berth controllers`: the controllers need each granted right, and no other
//! right.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::component;
use crate::control_plane::ControlPlane;
use crate::rights;

const ACCOUNT: &str = "berth-controllers";

/// Returns a Deployment, a Role and a ClusterRole, with policies that select them.
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

fn exists(plane: &ControlPlane, what: &[&str]) -> bool {
    let mut arguments = vec!["get", "--ignore-not-found", "-o", "name"];
    arguments.extend(what);
    !plane.kubectl(&arguments).is_empty()
}

/// Waits until `condition` returns true.
async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    eventually(what, async || condition().then_some(()).ok_or("not yet")).await;
}

/// Waits until the server forbids a request for this resource with a message that contains `reason`.
async fn wait_until_forbidden(plane: &ControlPlane, resource: &str, reason: &str) {
    wait_until(
        &format!("a rejected request for {resource}: {reason}"),
        || {
            plane.audit.requests().iter().any(|request| {
                request.is_forbidden()
                    && request.resource == resource
                    && request.message.contains(reason)
            })
        },
    )
    .await;
}

/// Checks that the controllers propagate templates with the rights of their account, and use each right. The server
/// checks some rights only as a condition of other requests: without these rights, it forbids the other requests.
#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_have_exactly_the_rights_that_they_need() {
    let enforced = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let plane = ControlPlane::start(&[enforced]).await;
    plane.apply("deploy/controllers/rbac.yaml");
    plane.apply("deploy/controllers/controllers.yaml");
    let roles: Api<ClusterRole> = Api::all(plane.client.clone());
    let all = rights::granted_to(&plane.client, ACCOUNT).await;

    // No request uses the rights `escalate`, `bind` and `*/finalizers` directly. Remove these rights first, and check
    // that the server then forbids other requests.
    let mut fewer = roles.get(ACCOUNT).await.unwrap().rules.unwrap();
    fewer.retain(|rule| !has(&rule.verbs, "escalate") && !has(&rule.verbs, "update"));
    assert_eq!(fewer.len(), 6);
    let fewer = json!({ "rules": fewer });
    roles
        .patch(ACCOUNT, &PatchParams::default(), &Patch::Merge(fewer))
        .await
        .unwrap();
    let kubeconfig = plane.kubeconfig_of(ACCOUNT);
    let _detector = component::start(&plane, "berth-controllers", &kubeconfig, &[]).await;
    let file = plane.folder().join("manifests.json");
    std::fs::write(&file, manifests().to_string()).unwrap();
    plane.kubectl(&["apply", "-f", &file.display().to_string()]);
    wait_until_forbidden(&plane, "resourcebindings", "blockOwnerDeletion").await;
    wait_until_forbidden(&plane, "roles", "not currently held").await;
    wait_until_forbidden(&plane, "clusterroles", "not currently held").await;

    // Grant all rights again. Once the bindings exist, the server must forbid no further request.
    plane.apply("deploy/controllers/rbac.yaml");
    for binding in [
        &["resourcebinding", "web-deployment"],
        &["resourcebinding", "web-role"],
        &["clusterresourcebinding", "web-clusterrole"],
    ] {
        wait_until(&format!("{binding:?}"), || exists(&plane, binding)).await;
    }
    let earlier_requests = plane.audit.requests().len();
    plane.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
    wait_until("the new replicas of the binding", || {
        let replicas = ["-o", "jsonpath={.spec.replicas}"];
        plane.kubectl(&[&["get", "resourcebinding", "web-deployment"][..], &replicas].concat())
            == "3"
    })
    .await;
    // Place the binding on a cluster without an endpoint. The controllers create the Work of the binding, and delete it
    // with the binding.
    let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "m1" }, "spec": { "syncMode": "Push" } });
    let file = plane.folder().join("cluster.json");
    std::fs::write(&file, cluster.to_string()).unwrap();
    plane.kubectl(&["apply", "-f", &file.display().to_string()]);
    let chosen = json!({ "spec": { "clusters": [{ "name": "m1", "replicas": 3 }] } });
    let patch = ["--type=merge", "-p", &chosen.to_string()];
    plane.kubectl(&[&["patch", "resourcebinding", "web-deployment"][..], &patch].concat());
    let works = ["work", "-n", "karmada-es-m1"];
    wait_until("the work", || exists(&plane, &works)).await;
    // Create a WorkloadRebalancer that the controllers delete as soon as it has finished.
    let rebalancer = json!({ "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": { "name": "web" }, "spec": { "ttlSecondsAfterFinished": 0, "workloads": [
            { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web" }] } });
    let file = plane.folder().join("rebalancer.json");
    std::fs::write(&file, rebalancer.to_string()).unwrap();
    plane.kubectl(&["create", "-f", &file.display().to_string()]);
    wait_until("deletion of the rebalancer", || {
        !exists(&plane, &["workloadrebalancer", "web"])
    })
    .await;
    for policy in ["propagationpolicy/web", "clusterpropagationpolicy/web"] {
        plane.kubectl(&["delete", policy, "--timeout=60s"]);
    }
    for (template, binding) in [
        ("deployment/web", "resourcebinding/web-deployment"),
        ("clusterrole/web", "clusterresourcebinding/web-clusterrole"),
    ] {
        plane.kubectl(&["delete", template]);
        // Delete the binding explicitly, because no garbage collector runs beside kube-apiserver.
        plane.kubectl(&["delete", binding, "--timeout=60s"]);
    }
    wait_until("deletion of the work", || !exists(&plane, &works)).await;
    // Do not wait for the deletion of the cluster: no namespace controller runs, so the execution namespace stays in
    // phase `Terminating`, and the cluster stays with it.
    plane.kubectl(&["delete", "cluster", "m1", "--wait=false"]);

    let requests = plane.audit.requests();
    let visible: Vec<_> = all
        .iter()
        .filter(|right| {
            right.resource != "*/finalizers" && !["escalate", "bind"].contains(&right.verb.as_str())
        })
        .collect();
    assert_eq!(visible.len(), 14);
    eventually("every right to be used", async || {
        rights::all_are_used(visible.iter().copied(), &plane.audit.requests())
    })
    .await;
    rights::assert_none_is_forbidden(&requests[earlier_requests..]);
    rights::assert_all_name_their_component(&requests, "berth-controllers");
}

fn has(verbs: &[String], verb: &str) -> bool {
    verbs.iter().any(|each| each == verb)
}
