//! Tests of FederatedResourceQuotas: ResourceQuotas in members, and the refusal of workloads beyond a limit.

use berth_api::{FederatedResourceQuota, ResourceBinding};
use berth_e2e::objects::{NAMESPACE, wait_for};
use berth_e2e::{Objects as _, eventually};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, PostParams};
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
    // The cluster controller, which creates the execution namespaces, does not run in a fleet.
    for namespace in ["karmada-es-m1", "karmada-es-m2"] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": namespace } });
        fleet.apply(namespace).await;
    }
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

/// Returns a binding whose replica requests 100m of cpu in each of some clusters.
fn binding(name: &str, clusters: usize) -> ResourceBinding {
    let clusters: Vec<Value> = (0..clusters)
        .map(|index| json!({ "name": format!("m{index}"), "replicas": 1 }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "replicaRequirements": { "resourceRequest": { "cpu": "100m" } },
            "clusters": clusters,
        },
    }))
    .unwrap()
}

async fn used(fleet: &Fleet) -> Value {
    let quota = fleet.get(&quota(&[])).await.unwrap();
    quota["status"]["overallUsed"]["cpu"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_bindings_never_exceed_the_quota_together() {
    let fleet = Fleet::enforcing_quotas(0).await;
    fleet.apply(quota(&[])).await;
    let bindings = fleet.bindings();
    let created = (0..15).map(|index| {
        let bindings = bindings.clone();
        tokio::spawn(async move {
            let new = binding(&format!("b{index}"), 1);
            bindings.create(&PostParams::default(), &new).await
        })
    });
    let mut refused = 0;
    for created in created.collect::<Vec<_>>() {
        match created.await.unwrap() {
            Ok(_) => {}
            Err(kube::Error::Api(status)) => {
                assert_eq!((status.code, &*status.reason), (403, "QuotaExceeded"));
                let expected = "admission webhook \"resourcebinding.karmada.io\" denied the request: \
                                FederatedResourceQuota(default/team) exceeded for resource cpu: \
                                requested sum 1100m, limit 1.";
                assert_eq!(status.message, expected);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(refused, 5);
    assert_eq!(used(&fleet).await, "1");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_not_stored_is_not_charged() {
    let fleet = Fleet::enforcing_quotas(0).await;
    fleet.apply(quota(&[])).await;
    let bindings = fleet.bindings();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    bindings.create(&dry_run, &binding("a", 2)).await.unwrap();
    let exceeding = bindings.create(&dry_run, &binding("a", 11)).await;
    assert!(
        exceeding
            .unwrap_err()
            .to_string()
            .contains("requested sum 1100m")
    );
    assert_eq!(used(&fleet).await, Value::Null);

    let parameters = PostParams::default();
    let first = bindings
        .create(&parameters, &binding("a", 2))
        .await
        .unwrap();
    bindings
        .create(&parameters, &binding("a", 3))
        .await
        .unwrap_err();
    assert_eq!(used(&fleet).await, "200m");
    let mut grown = first.clone();
    grown.spec.clusters = binding("a", 4).spec.clusters;
    bindings.replace("a", &parameters, &grown).await.unwrap();
    assert_eq!(used(&fleet).await, "400m");
    let mut stale = first;
    stale.spec.clusters = binding("a", 9).spec.clusters;
    bindings
        .replace("a", &parameters, &stale)
        .await
        .unwrap_err();
    assert_eq!(used(&fleet).await, "400m");
    fleet.stop().await;
}
