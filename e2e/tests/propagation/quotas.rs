//! Tests of FederatedResourceQuotas: ResourceQuotas in members, and the refusal of workloads beyond a limit.

use berth_api::{FederatedResourceQuota, ResourceBinding};
use berth_e2e::objects::{NAMESPACE, wait_for};
use berth_e2e::{Objects as _, eventually};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{deployment, policy};

/// Returns a quota of one cpu, of which a part is assigned to clusters.
fn quota(clusters: &[(&str, &str)]) -> Value {
    let assignments = clusters.iter();
    let assignments: Vec<Value> = assignments
        .map(|(cluster, cpu)| json!({ "clusterName": cluster, "hard": { "cpu": cpu } }))
        .collect();
    json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": { "name": "team" },
        "spec": { "overall": { "cpu": "1" }, "staticAssignments": assignments } })
}

/// Returns a Deployment whose replica requests cpu.
fn requesting(name: &str, cpu: &str) -> Value {
    let mut deployment = deployment(name, 1);
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({ "requests": { "cpu": cpu } });
    deployment
}

async fn wait_for_used(fleet: &Fleet, cpu: Option<&str>) {
    let quotas: Api<FederatedResourceQuota> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    let what = format!("the usage {cpu:?}");
    wait_for(&quotas, "team", &what, |quota| {
        let status = quota.status.as_ref();
        let limited = status.is_some_and(|status| status.overall.contains_key("cpu"));
        let used = status.and_then(|status| status.overall_used.get("cpu"));
        limited && used.map(|used| used.0.as_str()) == cpu
    })
    .await;
}

/// Waits until the scheduler has reported this reason for a binding.
async fn wait_for_scheduled(fleet: &Fleet, binding: &str, reason: &str) -> ResourceBinding {
    wait_for(&fleet.bindings(), binding, reason, |binding| {
        let conditions = binding.status.iter().flat_map(|status| &status.conditions);
        let mut scheduled = conditions.filter(|condition| condition.type_ == "Scheduled");
        scheduled.any(|condition| condition.reason == reason)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assigned_members_get_a_resource_quota() {
    let fleet = Fleet::with_quotas(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let limits = quota(&[("m1", "600m"), ("m2", "400m")]);
    let in_member = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "team" } });
    fleet.apply(limits.clone()).await;
    for (member, cpu) in [(m1, "600m"), (m2, "400m")] {
        member
            .wait_for(&in_member, cpu, |quota| quota["spec"]["hard"]["cpu"] == cpu)
            .await;
    }
    let aggregated = json!([
        { "clusterName": "m1", "hard": { "cpu": "600m" }, "used": { "cpu": "0" } },
        { "clusterName": "m2", "hard": { "cpu": "400m" }, "used": { "cpu": "0" } },
    ]);
    fleet
        .wait_for(&limits, "the status of both members", |quota| {
            quota["status"]["aggregatedStatus"] == aggregated
        })
        .await;

    fleet.apply(quota(&[("m2", "300m")])).await;
    m2.wait_for(&in_member, "the lower limit", |quota| {
        quota["spec"]["hard"]["cpu"] == "300m"
    })
    .await;
    m1.wait_until_gone(&in_member).await;
    fleet.delete(&limits).await;
    m2.wait_until_gone(&in_member).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads_beyond_the_quota_wait_until_others_are_deleted() {
    let fleet = Fleet::with_quotas(1).await;
    let (web, api) = (requesting("web", "600m"), requesting("api", "700m"));
    fleet.apply(quota(&[])).await;
    wait_for_used(&fleet, None).await;
    for object in [&web, &policy(&web, &["m1"])] {
        fleet.apply(object.clone()).await;
    }
    wait_for_used(&fleet, Some("600m")).await;

    for object in [&api, &policy(&api, &["m1"])] {
        fleet.apply(object.clone()).await;
    }
    let refused = wait_for_scheduled(&fleet, "api-deployment", "QuotaExceeded").await;
    assert!(refused.spec.clusters.is_empty());
    let conditions = &refused.status.unwrap().conditions;
    let scheduled = conditions.iter().find(|known| known.type_ == "Scheduled");
    let expected = "admission webhook \"resourcebinding.karmada.io\" denied the request: \
                    FederatedResourceQuota(default/team) exceeded for resource cpu: \
                    requested sum 1300m, limit 1.";
    assert!(
        scheduled.unwrap().message.contains(expected),
        "{scheduled:?}"
    );

    // Larger requests of a running workload are refused, too. The binding keeps its requests.
    let larger = requesting("web", "1100m");
    fleet.apply(larger).await;
    let events: Api<Event> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    eventually("the event ApplyPolicyFailed", async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        let mut failed = events.items.iter().filter(|event| {
            event.reason.as_deref() == Some("ApplyPolicyFailed")
                && event.involved_object.name.as_deref() == Some("web")
        });
        let found = failed.any(|event| {
            let message = event.message.as_deref().unwrap_or_default();
            message.contains("requested sum 1100m, limit 1.")
        });
        found.then_some(()).ok_or("no such event")
    })
    .await;
    let kept = fleet.bindings().get("web-deployment").await.unwrap();
    let requirements = kept.spec.replica_requirements.unwrap();
    assert_eq!(requirements.resource_request["cpu"].0, "600m");
    wait_for_used(&fleet, Some("600m")).await;

    fleet.delete(&web).await;
    wait_for_scheduled(&fleet, "api-deployment", "Success").await;
    wait_for_used(&fleet, Some("700m")).await;
    fleet.members[0].wait_until_exists(&api).await;
    fleet.stop().await;
}
