//! Tests of the reports about propagated objects: statuses in bindings and templates, and events.

use berth_api::binding::ResourceHealth;
use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{deployment, divided, policy};

/// Repeatedly sets the status in both members, until the status of the template contains their sum for the template's
/// current generation.
async fn wait_for_reported(fleet: &Fleet, web: &Value, replicas: [i64; 2]) {
    let total: i64 = replicas.iter().sum();
    berth_e2e::eventually(&format!("{total} replicas"), async || {
        for (member, replicas) in fleet.members.iter().zip(replicas) {
            let generation = member.wait_until_exists(web).await["metadata"]["generation"].clone();
            let status = json!({ "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas,
                "observedGeneration": generation });
            member.report_status(web, status).await;
        }
        let template = fleet.wait_for(web, "existence", |_| true).await;
        let (status, meta) = (&template["status"], &template["metadata"]);
        let sums = status["replicas"] == total && status["readyReplicas"] == total;
        if sums && status["observedGeneration"] == meta["generation"] {
            Ok(())
        } else {
            Err(format!("it is {template}"))
        }
    })
    .await;
}

/// The binding contains the status of each member. The sum follows an edit of the template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_status_is_the_sum_of_its_members() {
    let fleet = Fleet::start(2).await;
    let web = deployment("web", 3);
    fleet.apply(web.clone()).await;
    fleet.apply(divided(&web, &[("m1", 2), ("m2", 1)])).await;
    wait_for_reported(&fleet, &web, [2, 1]).await;
    let binding = wait_for(&fleet.bindings(), "web-deployment", "healthy", |binding| {
        let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
        let healthy = Some(ResourceHealth::Healthy);
        items.filter(|item| item.health == healthy).count() == 2
    })
    .await;
    let items = binding.status.unwrap().aggregated_status;
    let ready = |index: usize| items[index].status.as_ref().unwrap()["readyReplicas"].clone();
    assert_eq!((ready(0), ready(1)), (json!(2), json!(1)));

    // After an edit, the members report statuses of the new generation.
    fleet.edit(&web, json!({ "spec": { "replicas": 6 } })).await;
    for (member, replicas) in fleet.members.iter().zip([4, 2]) {
        member
            .wait_for(&web, "scaled", |web| web["spec"]["replicas"] == replicas)
            .await;
    }
    wait_for_reported(&fleet, &web, [4, 2]).await;
    fleet.stop().await;
}

/// The status of a Service contains the addresses of both members. A Job is complete once it is complete in both
/// members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_addresses_are_merged_and_jobs_complete_in_all_members() {
    let fleet = Fleet::start(2).await;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "type": "LoadBalancer", "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" },
        "spec": { "parallelism": 2, "completions": 4, "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }] } } } });
    fleet.apply(service.clone()).await;
    fleet.apply(policy(&service, &["m1", "m2"])).await;
    fleet.apply(job.clone()).await;
    fleet.apply(divided(&job, &[("m1", 1), ("m2", 1)])).await;
    for (index, member) in fleet.members.iter().enumerate() {
        let ip = format!("10.0.0.{}", 2 - index);
        member.wait_until_exists(&service).await;
        member
            .report_status(
                &service,
                json!({ "loadBalancer": { "ingress": [{ "ip": ip }] } }),
            )
            .await;
        let object = member.wait_until_exists(&job).await;
        assert_eq!(object["spec"]["parallelism"], 1, "{}", member.name);
        assert_eq!(object["spec"]["completions"], 2, "{}", member.name);
        let done = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z" });
        member
            .report_status(
                &job,
                json!({ "succeeded": 2, "startTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T00:01:00Z",
                "conditions": [done("SuccessCriteriaMet"), done("Complete")] }),
            )
            .await;
    }
    fleet
        .wait_for(&service, "both addresses", |service| {
            service["status"]["loadBalancer"]["ingress"]
                == json!([{ "ip": "10.0.0.1", "ipMode": "VIP" }, { "ip": "10.0.0.2", "ipMode": "VIP" }])
                || service["status"]["loadBalancer"]["ingress"]
                    == json!([{ "ip": "10.0.0.1" }, { "ip": "10.0.0.2" }])
        })
        .await;
    fleet
        .wait_for(&job, "completion", |job| {
            let conditions = job["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            job["status"]["succeeded"] == 4 && conditions.any(|c| c["type"] == "Complete")
        })
        .await;
    fleet.stop().await;
}

/// With routine events, the template, the binding and the Work have an event for each step of the propagation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_is_recorded_as_an_event() {
    let mut fleet = Fleet::without_clusters(1).await;
    fleet.join(0).await;
    fleet.record_routine_events();
    fleet.start_controllers();
    let web = deployment("web", 1);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    fleet.members[0].wait_until_exists(&web).await;
    fleet.members[0]
        .report_status(&web, json!({ "replicas": 1, "readyReplicas": 1 }))
        .await;
    let wait_for_reasons = async |namespace: &str, kind: &str, reasons: &[&str]| {
        let events: Api<Event> = Api::namespaced(fleet.client.clone(), namespace);
        berth_e2e::eventually(&format!("events of {kind}"), async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let about = all
                .iter()
                .filter(|e| e.involved_object.kind.as_deref() == Some(kind));
            let found: Vec<&str> = about.filter_map(|e| e.reason.as_deref()).collect();
            if reasons.iter().all(|reason| found.contains(reason)) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    };
    let template = [
        "ApplyPolicySucceed",
        "GetReplicasSucceed",
        "ScheduleBindingSucceed",
        "SyncWorkSucceed",
        "AggregateStatusSucceed",
    ];
    wait_for_reasons(NAMESPACE, "Deployment", &template).await;
    wait_for_reasons(
        NAMESPACE,
        "ResourceBinding",
        &[
            "ScheduleBindingSucceed",
            "SyncWorkSucceed",
            "AggregateStatusSucceed",
        ],
    )
    .await;
    let work = [
        "WorkDispatching",
        "SyncSucceed",
        "ReflectStatusSucceed",
        "InterpretHealthSucceed",
    ];
    wait_for_reasons("karmada-es-m1", "Work", &work).await;
    fleet.stop().await;
}
