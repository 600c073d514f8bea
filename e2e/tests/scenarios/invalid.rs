//! What is refused, with the field named; and what Karmada accepts although it cannot work.

use berth_api::{Cluster, PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use berth_test_requirements::needs;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::manifests::{
    but, by_free_room, cluster_policy, deployment, deployment_of, everywhere, on, policy, selecting,
};
use crate::watching::{after_all_else, events_about, message, not_placed, placed, told, version};

/// Placements that are refused, each with the field that is named.
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

/// Changes of a good policy that are refused, each with the field that is named.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_policies_are_refused_with_the_field_named() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let good = policy("bad", &[&nginx], on(&["member1"]));
    let placements = refused_placements().into_iter().map(|(placement, field)| {
        let mut bad = good.clone();
        bad["spec"]["placement"] = placement;
        (bad, field)
    });
    let changes = refused_changes()
        .into_iter()
        .map(|(change, field)| (but(good.clone(), json!({ "spec": change })), field));
    for (bad, field) in placements.chain(changes) {
        match plane.create(bad.clone()).await {
            Err(refusal) => {
                let refusal = refusal.to_string();
                assert!(refusal.contains(field), "{field}: {refusal}");
            }
            Ok(_) if plane.admits_as_karmada() => panic!("accepted: {bad}"),
            // Without a hook the refusal comes late, as an event.
            Ok(_) => {
                told(&plane, "PropagationPolicy", "bad", "InvalidPolicy", field).await;
                let policies = plane.api::<PropagationPolicy>();
                policies
                    .delete("bad", &DeleteParams::default())
                    .await
                    .unwrap();
                plane.until_gone(&policies, "bad").await;
            }
        }
    }
    // The same rules hold for the cluster-wide kind, except that its selectors may name any namespace.
    let name = plane.unique("bad");
    let mut bad = cluster_policy(&name, &[&nginx], json!({}));
    bad["spec"]["placement"] = refused_placements().swap_remove(0).0;
    if plane.admits_as_karmada() {
        let refusal = plane.create(bad).await.unwrap_err().to_string();
        assert!(refusal.contains("spec.placement"), "{refusal}");
    }
    plane.stop().await;
}

#[needs(kubectl)]
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_says_which_field_is_wrong() {
    let plane = Plane::start().await;
    for (placement, field) in refused_placements() {
        let output = plane.kubectl_apply(&policy("bad", &[&deployment("nginx", 1)], placement));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains(field),
            "{field}: {text}"
        );
    }
    // A refused edit leaves the stored policy as it is.
    let good = policy("good", &[&deployment("nginx", 1)], on(&["member1"]));
    assert!(plane.kubectl_apply(&good).status.success());
    let mut edited = good.clone();
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
async fn invalid_members_are_refused_with_the_field_named() {
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
            "metadata": { "name": "bad" }, "spec": but(json!({ "syncMode": "Push" }), change) });
        let refusal = plane.create(cluster).await.unwrap_err().to_string();
        assert!(refusal.contains(field), "{field}: {refusal}");
    }
    plane.stop().await;
}

/// A label selector that Karmada stores and that matches nothing.
fn near() -> Value {
    json!({ "matchExpressions": [{ "key": "site", "operator": "Near", "values": ["hall"] }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_affinity_with_an_unknown_operator_matches_nothing_and_says_so() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let placement = json!({ "clusterAffinity": { "labelSelector": near() } });
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    let binding = not_placed(&plane, "nginx-deployment", "NoClusterFit").await;
    let text = "0/3 clusters are available: 3 cluster(s) did not match the placement cluster affinity constraint.";
    assert_eq!(message(&binding), text);
    told(&plane, "Deployment", "nginx", "ScheduleBindingFailed", text).await;
    // Karmada's words do not name the fault, so the policy does.
    let field = "spec.placement.clusterAffinity.labelSelector";
    let event = told(
        &plane,
        "PropagationPolicy",
        "p",
        "InvalidClusterAffinity",
        field,
    )
    .await;
    assert!(event.message.unwrap().contains("Near"));

    // Nothing goes round in circles: a member that changes is looked at, and nothing is written.
    let label = json!({ "metadata": { "labels": { "site": "hall" } } });
    plane.edit(&plane.all::<Cluster>(), "member1", label).await;
    after_all_else(&plane).await;
    let bindings = plane.api::<ResourceBinding>();
    let now = bindings.get("nginx-deployment").await.unwrap();
    assert_eq!(version(&now), version(&binding));
    let events = events_about(&plane, "ResourceBinding", "nginx-deployment").await;
    assert_eq!(events.len(), 1, "{events:?}");
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_selector_with_an_unknown_operator_selects_nothing_and_says_so() {
    let plane = Plane::start().await;
    let selectors = json!([
        { "apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": near() },
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "settings" },
    ]);
    plane
        .create_all([
            selecting("p", selectors, everywhere()),
            but(
                deployment("nginx", 1),
                json!({ "metadata": { "labels": { "site": "hall" } } }),
            ),
            crate::manifests::config_map("settings"),
        ])
        .await;
    told(
        &plane,
        "PropagationPolicy",
        "p",
        "InvalidResourceSelector",
        "Near",
    )
    .await;
    // Its other selectors work.
    let all = [("member1", 0), ("member2", 0), ("member3", 0)];
    placed(&plane, "settings-configmap", &all).await;
    after_all_else(&plane).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_quantity_stops_nobody_else() {
    let plane = Plane::start().await;
    // The pattern of the schema lets this pass, and it is no number.
    let odd = "1e1.5";
    let by_hand = json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": { "name": "by-hand", "labels": { "binding.karmada.io/managed-by": "test" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "by-hand",
                "namespace": plane.namespace },
            "replicas": 2,
            "replicaRequirements": { "resourceRequest": { "cpu": odd } },
            "placement": { "clusterAffinity": {},
                "replicaScheduling": { "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": { "dynamicWeight": "AvailableReplicas" } } },
        },
    });
    match plane.create(by_hand).await {
        Ok(_) => {
            let binding = not_placed(&plane, "by-hand", "SchedulerError").await;
            assert!(message(&binding).contains(odd), "{}", message(&binding));
        }
        Err(refusal) => assert!(refusal.to_string().contains("cpu"), "{refusal}"),
    }
    // The same in a member: it offers nothing, the others do.
    let status =
        Patch::Merge(json!({ "status": { "resourceSummary": { "allocatable": { "cpu": odd } } } }));
    let member = plane
        .all::<Cluster>()
        .patch_status("member3", &PatchParams::default(), &status)
        .await;
    if let Err(refusal) = &member {
        assert!(refusal.to_string().contains("cpu"), "{refusal}");
    }
    let other = deployment_of("other", 3, "1");
    let placement = but(by_free_room(), on(&["member1", "member2"]));
    plane
        .create_all([policy("other", &[&other], placement), other])
        .await;
    placed(
        &plane,
        "other-deployment",
        &[("member1", 1), ("member2", 2)],
    )
    .await;
    after_all_else(&plane).await;
    plane.stop().await;
}
