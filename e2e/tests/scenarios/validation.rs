//! Scenarios with invalid objects. The API server refuses most of these objects, and names the invalid field. Invalid
//! objects that Karmada accepts are stored, and affect no other object.

use berth_api::{Cluster, PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use berth_test_requirements::needs;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::assertions::{
    events_about, message, resource_version, wait_for_event, wait_for_failure,
    wait_for_pending_work, wait_until_placed,
};
use crate::manifests::{
    by_available_replicas, cluster_policy, deployment, deployment_with_cpu, merged,
    on_all_clusters, on_clusters, policy, policy_with_selectors,
};

/// Returns invalid placements, each with the field that the error message names.
fn refused_placements() -> Vec<(Value, &'static str)> {
    let spread = |constraints: Value| json!({ "spreadConstraints": constraints });
    let terms = |terms: Value| json!({ "clusterAffinities": terms });
    let toleration = json!([{ "key": "a", "operator": "Gt", "value": "1" }]);
    let overflow = json!([{ "affinityName": "rented", "clusterNames": ["member2"] }]);
    vec![
        (
            json!({ "clusterAffinity": {}, "clusterAffinities": [{ "affinityName": "a" }] }),
            "spec.placement",
        ),
        (
            terms(json!([{ "affinityName": "a" }, { "affinityName": "a" }])),
            "spec.placement.clusterAffinities",
        ),
        (
            terms(json!([{ "affinityName": "not a key" }])),
            "spec.placement.clusterAffinities[0].affinityName",
        ),
        (
            terms(
                json!([{ "affinityName": "own", "clusterNames": ["member1"], "overflowAffinities": overflow }]),
            ),
            "overflowAffinities",
        ),
        (
            json!({ "clusterAffinity": { "fieldSelector": { "matchExpressions": [
                { "key": "planet", "operator": "In", "values": ["earth"] }] } } }),
            "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].key",
        ),
        (
            json!({ "clusterAffinity": { "fieldSelector": { "matchExpressions": [
                { "key": "region", "operator": "Exists" }] } } }),
            "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].operator",
        ),
        (
            json!({ "clusterTolerations": toleration }),
            "spec.placement.clusterTolerations[0].operator",
        ),
        (
            spread(json!([{ "spreadByField": "cluster", "minGroups": 3, "maxGroups": 2 }])),
            "spec.placement.spreadConstraints[0]",
        ),
        (
            spread(json!([{ "spreadByField": "cluster", "spreadByLabel": "a" }])),
            "spec.placement.spreadConstraints[0]",
        ),
        (
            spread(json!([{ "spreadByField": "region", "maxGroups": 1 }])),
            "spec.placement.spreadConstraints",
        ),
        (
            spread(json!([{ "spreadByField": "planet" }])),
            "spec.placement.spreadConstraints[0].spreadByField",
        ),
        (
            json!({ "replicaScheduling": { "replicaSchedulingType": "Scattered" } }),
            "spec.placement.replicaScheduling.replicaSchedulingType",
        ),
        (
            json!({ "replicaScheduling": { "weightPreference": { "staticWeightList": [
                { "targetCluster": {}, "weight": 0 }] } } }),
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight",
        ),
    ]
}

/// Returns invalid specs of a policy, each with the field that the error message names.
fn refused_changes() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "resourceSelectors": [] }), "spec.resourceSelectors"),
        (
            json!({ "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "elsewhere" }] }),
            "spec.resourceSelectors[0].namespace",
        ),
        (
            json!({ "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }], "preemption": "Always" }),
            "spec.resourceSelectors",
        ),
        (json!({ "preemption": "Sometimes" }), "spec.preemption"),
        (
            json!({ "suspension": { "dispatching": true, "dispatchingOnClusters": { "clusterNames": ["member1"] } } }),
            "spec.suspension",
        ),
        (
            json!({ "failover": { "application": { "decisionConditions": {}, "purgeMode": "Never", "gracePeriodSeconds": 5 } } }),
            "spec.failover.application.gracePeriodSeconds",
        ),
    ]
}

/// Without an admission webhook, an event on the policy names the field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_policies_are_refused_with_the_field_named() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let valid = policy("bad", &[&nginx], on_clusters(&["member1"]));
    let placements = refused_placements().into_iter().map(|(placement, field)| {
        let mut bad = valid.clone();
        bad["spec"]["placement"] = placement;
        (bad, field)
    });
    let changes = refused_changes()
        .into_iter()
        .map(|(change, field)| (merged(valid.clone(), json!({ "spec": change })), field));
    for (bad, field) in placements.chain(changes) {
        match plane.create(bad.clone()).await {
            Err(refusal) => {
                let refusal = refusal.to_string();
                assert!(refusal.contains(field), "{field}: {refusal}");
            }
            Ok(_) if plane.admits_as_karmada() => panic!("accepted: {bad}"),
            // Without an admission webhook, the detector records an event that names the field.
            Ok(_) => {
                wait_for_event(&plane, "PropagationPolicy", "bad", "InvalidPolicy", field).await;
                let policies = plane.api::<PropagationPolicy>();
                policies
                    .delete("bad", &DeleteParams::default())
                    .await
                    .unwrap();
                plane.until_gone(&policies, "bad").await;
            }
        }
    }
    // The same rules apply to a ClusterPropagationPolicy, except that its selectors may name any namespace.
    let name = plane.unique("bad");
    let mut bad = cluster_policy(&name, &[&nginx], json!({}));
    bad["spec"]["placement"] = refused_placements().swap_remove(0).0;
    if plane.admits_as_karmada() {
        let refusal = plane.create(bad).await.unwrap_err().to_string();
        assert!(refusal.contains("spec.placement"), "{refusal}");
    }
    plane.stop().await;
}

/// A refused edit does not change the stored policy.
#[needs(kubectl)]
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_prints_the_invalid_field() {
    let plane = Plane::start().await;
    for (placement, field) in refused_placements() {
        let output = plane.kubectl_apply(&policy("bad", &[&deployment("nginx", 1)], placement));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains(field),
            "{field}: {text}"
        );
    }
    // A refused edit does not change the stored policy.
    let valid = policy(
        "good",
        &[&deployment("nginx", 1)],
        on_clusters(&["member1"]),
    );
    assert!(plane.kubectl_apply(&valid).status.success());
    let mut edited = valid.clone();
    edited["spec"]["placement"] = refused_placements().swap_remove(6).0;
    assert!(!plane.kubectl_apply(&edited).status.success());
    let policies = plane.api::<PropagationPolicy>();
    let stored = policies.get("good").await.unwrap();
    assert_eq!(
        stored
            .spec
            .placement
            .cluster_affinity
            .unwrap()
            .cluster_names,
        ["member1"]
    );
    plane.stop().await;
}

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_clusters_are_refused_with_the_field_named() {
    let plane = Plane::start().await;
    let cases = [
        (json!({ "syncMode": "Shove" }), "spec.syncMode"),
        (
            json!({ "taints": [{ "key": "a", "effect": "PreferNoSchedule" }] }),
            "spec.taints[0].effect",
        ),
        (json!({ "region": "no spaces please" }), "spec.region"),
        (json!({ "zone": "a", "zones": ["b"] }), "spec.zone"),
        (json!({ "proxyURL": "ftp://proxy" }), "spec.proxyURL"),
    ];
    for (change, field) in cases {
        let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "bad" }, "spec": merged(json!({ "syncMode": "Push" }), change) });
        let refusal = plane.create(cluster).await.unwrap_err().to_string();
        assert!(refusal.contains(field), "{field}: {refusal}");
    }
    plane.stop().await;
}

/// Returns a label selector with an unknown operator. Karmada stores such a selector, which matches nothing.
fn unknown_operator() -> Value {
    json!({ "matchExpressions": [{ "key": "site", "operator": "Near", "values": ["hall"] }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_affinity_with_an_unknown_operator_matches_nothing_and_is_reported() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let placement = json!({ "clusterAffinity": { "labelSelector": unknown_operator() } });
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    let binding = wait_for_failure(&plane, "nginx-deployment", "NoClusterFit").await;
    let text = "0/3 clusters are available: 3 cluster(s) did not match the placement cluster affinity constraint.";
    assert_eq!(message(&binding), text);
    wait_for_event(&plane, "Deployment", "nginx", "ScheduleBindingFailed", text).await;
    // Karmada's message does not name the faulty field. An event on the policy names it.
    let field = "spec.placement.clusterAffinity.labelSelector";
    let event = wait_for_event(
        &plane,
        "PropagationPolicy",
        "p",
        "InvalidClusterAffinity",
        field,
    )
    .await;
    assert!(event.message.unwrap().contains("Near"));

    // A change of a member causes no further write to the binding.
    let label = json!({ "metadata": { "labels": { "site": "hall" } } });
    plane.edit(&plane.all::<Cluster>(), "member1", label).await;
    wait_for_pending_work(&plane).await;
    let bindings = plane.api::<ResourceBinding>();
    let now = bindings.get("nginx-deployment").await.unwrap();
    assert_eq!(resource_version(&now), resource_version(&binding));
    let events = events_about(&plane, "ResourceBinding", "nginx-deployment").await;
    assert_eq!(events.len(), 1, "{events:?}");
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_selector_with_an_unknown_operator_selects_nothing_and_is_reported() {
    let plane = Plane::start().await;
    let selectors = json!([
        { "apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": unknown_operator() },
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "settings" },
    ]);
    plane
        .create_all([
            policy_with_selectors("p", selectors, on_all_clusters()),
            merged(
                deployment("nginx", 1),
                json!({ "metadata": { "labels": { "site": "hall" } } }),
            ),
            crate::manifests::config_map("settings"),
        ])
        .await;
    wait_for_event(
        &plane,
        "PropagationPolicy",
        "p",
        "InvalidResourceSelector",
        "Near",
    )
    .await;
    // The valid selector of the policy takes effect.
    let all = [("member1", 0), ("member2", 0), ("member3", 0)];
    wait_until_placed(&plane, "settings-configmap", &all).await;
    wait_for_pending_work(&plane).await;
    let bindings = plane.api::<ResourceBinding>();
    assert!(
        bindings
            .get_opt("nginx-deployment")
            .await
            .unwrap()
            .is_none()
    );
    let events = events_about(&plane, "PropagationPolicy", "p").await;
    assert_eq!(events.len(), 1, "{events:?}");
    plane.stop().await;
}

/// The malformed quantity is in the requirements of a binding, or in the status of a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_quantity_does_not_affect_other_bindings() {
    let plane = Plane::start().await;
    // This text matches the pattern of the schema, but is not a valid quantity.
    let malformed = "1e1.5";
    let handwritten = json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": { "name": "handwritten", "labels": { "binding.karmada.io/managed-by": "test" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "handwritten",
                "namespace": plane.namespace },
            "replicas": 2,
            "replicaRequirements": { "resourceRequest": { "cpu": malformed } },
            "placement": { "clusterAffinity": {},
                "replicaScheduling": { "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": { "dynamicWeight": "AvailableReplicas" } } },
        },
    });
    match plane.create(handwritten).await {
        Ok(_) => {
            let binding = wait_for_failure(&plane, "handwritten", "SchedulerError").await;
            assert!(
                message(&binding).contains(malformed),
                "{}",
                message(&binding)
            );
        }
        Err(refusal) => assert!(refusal.to_string().contains("cpu"), "{refusal}"),
    }
    // With the malformed quantity, member3 has no capacity. The other members are unaffected.
    let status = Patch::Merge(
        json!({ "status": { "resourceSummary": { "allocatable": { "cpu": malformed } } } }),
    );
    let member = plane
        .all::<Cluster>()
        .patch_status("member3", &PatchParams::default(), &status)
        .await;
    let mut members = vec!["member1", "member2"];
    match member {
        Ok(_) => members.push("member3"),
        Err(refusal) => assert!(refusal.to_string().contains("cpu"), "{refusal}"),
    }
    let other = deployment_with_cpu("other", 3, "1");
    let placement = merged(by_available_replicas(), on_clusters(&members));
    plane
        .create_all([policy("other", &[&other], placement), other])
        .await;
    wait_until_placed(
        &plane,
        "other-deployment",
        &[("member1", 1), ("member2", 2)],
    )
    .await;
    wait_for_pending_work(&plane).await;
    plane.stop().await;
}
