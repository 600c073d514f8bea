//! Tests of interpreter rules with all controllers: the scripts of a ResourceInterpreterCustomization, and the built-in
//! rules for a kind of another project. The rules determine the replicas and requirements in the binding, and the
//! divided replicas, retained fields and dependencies in the members. They also determine the health and the aggregated
//! status.

use berth_api::Cluster;
use berth_api::binding::ResourceHealth;
use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Member};
use crate::manifests::{config_map, divided};

/// A kind that the control plane and the members serve.
#[derive(Clone, Copy, Debug)]
pub struct CustomKind {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
}

pub const ROLLOUT: CustomKind = CustomKind {
    group: "example.com",
    version: "v1",
    plural: "rollouts",
    kind: "Rollout",
};
const CLONE_SET: CustomKind = CustomKind {
    group: "apps.kruise.io",
    version: "v1alpha1",
    plural: "clonesets",
    kind: "CloneSet",
};

fn definition(of: CustomKind) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", of.plural, of.group) },
        "spec": { "group": of.group, "scope": "Namespaced",
            "names": { "plural": of.plural, "kind": of.kind },
            "versions": [{ "name": of.version, "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

fn customization() -> Value {
    let rule = |script: &str| json!({ "luaScript": script });
    json!({ "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": { "name": "rollouts" },
        "spec": { "target": { "apiVersion": "example.com/v1", "kind": "Rollout" }, "customizations": {
            "replicaResource": rule("
                local kube = require('kube')
                function GetReplicas(rollout)
                    return rollout.spec.size, kube.accuratePodRequirements(rollout.spec.template)
                end"),
            "replicaRevision": rule("
                function ReviseReplica(rollout, size)
                    rollout.spec.size = size
                    return rollout
                end"),
            "retention": rule("
                function Retain(desired, observed)
                    desired.spec.revision = observed.spec.revision
                    return desired
                end"),
            "statusReflection": rule("
                function ReflectStatus(rollout)
                    if rollout.status == nil then return {} end
                    return { ready = rollout.status.ready }
                end"),
            "healthInterpretation": rule("
                function InterpretHealth(rollout)
                    return rollout.status ~= nil and rollout.status.ready == rollout.spec.size
                end"),
            "statusAggregation": rule("
                function AggregateStatus(rollout, items)
                    rollout.status = { ready = 0 }
                    for _, item in ipairs(items) do
                        if item.status ~= nil and item.status.ready ~= nil then
                            rollout.status.ready = rollout.status.ready + item.status.ready
                        end
                    end
                    return rollout
                end"),
            "dependencyInterpretation": rule("
                local kube = require('kube')
                function GetDependencies(rollout)
                    return kube.getPodDependencies(rollout.spec.template, rollout.metadata.namespace)
                end"),
        } } })
}

fn rollout() -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Rollout", "metadata": { "name": "web" },
        "spec": { "size": 3, "hosts": [], "options": {}, "template": { "spec": {
            "containers": [{ "name": "main", "resources": { "requests": { "cpu": "100m" } } }],
            "volumes": [{ "name": "v", "configMap": { "name": "settings" } }] } } } })
}

/// Starts a fleet, and defines a kind in its control plane and members. Waits until all of them serve the kind.
pub async fn fleet_with(kind: CustomKind, members: usize) -> Fleet {
    let fleet = Fleet::start(members).await;
    fleet.apply(definition(kind)).await;
    let clusters: Api<Cluster> = Api::all(fleet.client.clone());
    let served = json!({ "status": { "apiEnablements": [
        { "groupVersion": "v1", "resources": [{ "name": "configmaps", "kind": "ConfigMap" }] },
        { "groupVersion": format!("{}/{}", kind.group, kind.version),
            "resources": [{ "name": kind.plural, "kind": kind.kind }] }] } });
    for member in &fleet.members {
        member.apply(definition(kind)).await;
        clusters
            .patch_status(
                &member.name,
                &PatchParams::default(),
                &Patch::Merge(&served),
            )
            .await
            .unwrap();
    }
    let is_established = |definition: &Value| {
        let conditions = definition["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    };
    fleet
        .wait_for(&definition(kind), "established", is_established)
        .await;
    for member in &fleet.members {
        member
            .wait_for(&definition(kind), "established", is_established)
            .await;
    }
    fleet
}

/// All scripts of a customization take effect, from the replicas in the binding to the aggregated status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_custom_workload_is_divided_and_its_status_returns() {
    let fleet = fleet_with(ROLLOUT, 2).await;
    fleet.apply(customization()).await;
    fleet.apply(config_map("settings")).await;
    fleet.apply(rollout()).await;
    let mut policy = divided(&rollout(), &[("m1", 2), ("m2", 1)]);
    policy["spec"]["propagateDeps"] = json!(true);
    fleet.apply(policy).await;
    let (first, second) = (&fleet.members[0], &fleet.members[1]);
    for (member, size) in [(first, 2), (second, 1)] {
        let applied = member
            .wait_for(&rollout(), "its size", |found| {
                found["spec"]["size"] == size
            })
            .await;
        assert_eq!(applied["spec"]["hosts"], json!([]));
        assert_eq!(applied["spec"]["options"], json!({}));
        member.wait_until_exists(&config_map("settings")).await;
    }
    let binding = wait_for(&fleet.bindings(), "web-rollout", "replicas", |binding| {
        binding.spec.replicas == 3
    })
    .await;
    let requirements = binding.spec.replica_requirements.unwrap();
    assert_eq!(requirements.resource_request["cpu"].0, "100m");

    // A field that a user sets in the member is retained when the template changes.
    first
        .edit(&rollout(), json!({ "spec": { "revision": "r1" } }))
        .await;
    fleet
        .edit(&rollout(), json!({ "spec": { "image": "new" } }))
        .await;
    first
        .wait_for(&rollout(), "the image", |found| {
            found["spec"]["image"] == "new"
        })
        .await;
    let kept = first.get(&rollout()).await.unwrap();
    assert_eq!(kept["spec"]["revision"], "r1");

    for (member, ready) in [(first, 2), (second, 0)] {
        report(member, ready).await;
    }
    let healths = |binding: &berth_api::ResourceBinding| -> Vec<Option<ResourceHealth>> {
        let status = binding.status.clone().unwrap_or_default();
        let items = status.aggregated_status.into_iter();
        items.map(|item| item.health).collect()
    };
    wait_for(
        &fleet.bindings(),
        "web-rollout",
        "one unhealthy member",
        |binding| {
            healths(binding)
                == [
                    Some(ResourceHealth::Healthy),
                    Some(ResourceHealth::Unhealthy),
                ]
        },
    )
    .await;
    report(second, 1).await;
    fleet
        .wait_for(&rollout(), "the sum", |found| {
            found["status"] == json!({ "ready": 3 })
        })
        .await;
    fleet.stop().await;
}

async fn report(member: &Member, ready: i64) {
    member
        .report_status(&rollout(), json!({ "ready": ready, "noise": "x" }))
        .await;
}

/// A new customization changes the binding of an existing object. A failing script makes the health of its kind
/// unknown, and does not affect a ConfigMap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customization_applies_to_existing_objects_and_a_failing_script_affects_only_its_kind() {
    let fleet = fleet_with(ROLLOUT, 1).await;
    fleet.apply(rollout()).await;
    fleet.apply(divided(&rollout(), &[("m1", 1)])).await;
    fleet.members[0].wait_until_exists(&rollout()).await;
    fleet.apply(customization()).await;
    wait_for(&fleet.bindings(), "web-rollout", "replicas", |binding| {
        binding.spec.replicas == 3
    })
    .await;
    let script = "function InterpretHealth(rollout) return rollout.absent.field end";
    let failing = json!({ "spec": { "customizations": {
        "healthInterpretation": { "luaScript": script } } } });
    fleet.edit(&customization(), failing).await;
    let other = config_map("other");
    fleet.apply(other.clone()).await;
    fleet.apply(crate::manifests::policy(&other, &["m1"])).await;
    fleet.members[0].wait_until_exists(&other).await;
    let reports = std::cell::Cell::new(0);
    berth_e2e::eventually("an unknown health", async || {
        // The script runs only when the object changes.
        reports.set(reports.get() + 1);
        report(&fleet.members[0], reports.get()).await;
        let binding = fleet
            .bindings()
            .get("web-rollout")
            .await
            .map_err(|e| e.to_string())?;
        let items = binding.status.unwrap_or_default().aggregated_status;
        let is_unknown = items
            .iter()
            .any(|item| item.health == Some(ResourceHealth::Unknown));
        if is_unknown {
            Ok(())
        } else {
            Err(format!("{items:?}"))
        }
    })
    .await;
    fleet.stop().await;
}

/// Built-in rules divide a CloneSet of OpenKruise, and aggregate its status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_of_another_project_needs_no_customization() {
    let fleet = fleet_with(CLONE_SET, 2).await;
    let set = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": { "name": "web" },
        "spec": { "replicas": 3, "template": { "spec": {
            "containers": [{ "name": "main", "resources": { "requests": { "cpu": "100m" } } }],
            "volumes": [{ "name": "v", "configMap": { "name": "settings" } }] } } } });
    fleet.apply(config_map("settings")).await;
    fleet.apply(set.clone()).await;
    let mut policy = divided(&set, &[("m1", 2), ("m2", 1)]);
    policy["spec"]["propagateDeps"] = json!(true);
    fleet.apply(policy).await;
    for (member, replicas) in fleet.members.iter().zip([2, 1]) {
        let applied = member
            .wait_for(&set, "its replicas", |found| {
                found["spec"]["replicas"] == replicas
            })
            .await;
        member.wait_until_exists(&config_map("settings")).await;
        let generation = &applied["metadata"]["generation"];
        let counters = [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ];
        let mut status = json!({ "observedGeneration": generation, "noise": "x" });
        for counter in counters {
            status[counter] = json!(replicas);
        }
        member.report_status(&set, status).await;
    }
    fleet
        .wait_for(&set, "the sums", |found| {
            found["status"]["availableReplicas"] == 3 && found["status"]["noise"].is_null()
        })
        .await;
    let binding = wait_for(
        &fleet.bindings(),
        "web-cloneset",
        "healthy members",
        |binding| {
            let status = binding.status.clone().unwrap_or_default();
            let items = status.aggregated_status;
            items.len() == 2
                && items
                    .iter()
                    .all(|item| item.health == Some(ResourceHealth::Healthy))
        },
    )
    .await;
    assert_eq!(binding.spec.replicas, 3);
    fleet.stop().await;
}
