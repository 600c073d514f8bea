//! What members report comes back to the binding and the template.

use berth_api::binding::ResourceHealth;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{deployment, divided, policy};

/// Reports from both members that so many replicas are ready, until the template says so and is up to date.
async fn reported(fleet: &Fleet, web: &Value, replicas: [i64; 2]) {
    let total: i64 = replicas.iter().sum();
    berth_e2e::eventually(&format!("{total} replicas"), async || {
        for (member, replicas) in fleet.members.iter().zip(replicas) {
            let generation = member.has(web).await["metadata"]["generation"].clone();
            let status = json!({ "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas,
                "observedGeneration": generation });
            member.report(web, status).await;
        }
        let template = fleet.until(web, "there", |_| true).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_shows_the_sum_of_its_copies() {
    let fleet = Fleet::start(2).await;
    let web = deployment("web", 3);
    fleet.apply(web.clone()).await;
    fleet.apply(divided(&web, &[("m1", 2), ("m2", 1)])).await;
    reported(&fleet, &web, [2, 1]).await;
    let binding = fleet
        .until_typed(&fleet.bindings(), "web-deployment", "healthy", |binding| {
            let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
            let healthy = Some(ResourceHealth::Healthy);
            items.filter(|item| item.health == healthy).count() == 2
        })
        .await;
    let items = binding.status.unwrap().aggregated_status;
    let ready = |index: usize| items[index].status.as_ref().unwrap()["readyReplicas"].clone();
    assert_eq!((ready(0), ready(1)), (json!(2), json!(1)));

    // Another template, and reports of it.
    fleet.edit(&web, json!({ "spec": { "replicas": 6 } })).await;
    for (member, replicas) in fleet.members.iter().zip([4, 2]) {
        member
            .until(&web, "scaled", |web| web["spec"]["replicas"] == replicas)
            .await;
    }
    reported(&fleet, &web, [4, 2]).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_are_joined_and_jobs_end_when_all_have_ended() {
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
        member.has(&service).await;
        member
            .report(
                &service,
                json!({ "loadBalancer": { "ingress": [{ "ip": ip }] } }),
            )
            .await;
        let there = member.has(&job).await;
        assert_eq!(there["spec"]["parallelism"], 1, "{}", member.name);
        assert_eq!(there["spec"]["completions"], 2, "{}", member.name);
        let done = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z" });
        member
            .report(
                &job,
                json!({ "succeeded": 2, "startTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T00:01:00Z",
                "conditions": [done("SuccessCriteriaMet"), done("Complete")] }),
            )
            .await;
    }
    fleet
        .until(&service, "both addresses", |service| {
            service["status"]["loadBalancer"]["ingress"]
                == json!([{ "ip": "10.0.0.1", "ipMode": "VIP" }, { "ip": "10.0.0.2", "ipMode": "VIP" }])
                || service["status"]["loadBalancer"]["ingress"]
                    == json!([{ "ip": "10.0.0.1" }, { "ip": "10.0.0.2" }])
        })
        .await;
    fleet
        .until(&job, "completion", |job| {
            let conditions = job["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            job["status"]["succeeded"] == 4 && conditions.any(|c| c["type"] == "Complete")
        })
        .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_is_told_as_an_event() {
    let fleet = Fleet::start(1).await;
    let web = deployment("web", 1);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    fleet.members[0].has(&web).await;
    fleet.members[0]
        .report(&web, json!({ "replicas": 1, "readyReplicas": 1 }))
        .await;
    let told = async |namespace: &str, kind: &str, reasons: &[&str]| {
        let events: Api<Event> = Api::namespaced(fleet.client.clone(), namespace);
        berth_e2e::eventually(&format!("events of {kind}"), async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let about = all
                .iter()
                .filter(|e| e.involved_object.kind.as_deref() == Some(kind));
            let told: Vec<&str> = about.filter_map(|e| e.reason.as_deref()).collect();
            if reasons.iter().all(|reason| told.contains(reason)) {
                Ok(())
            } else {
                Err(format!("{told:?}"))
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
    told(NAMESPACE, "Deployment", &template).await;
    told(
        NAMESPACE,
        "ResourceBinding",
        &["SyncWorkSucceed", "AggregateStatusSucceed"],
    )
    .await;
    let work = [
        "WorkDispatching",
        "SyncSucceed",
        "ReflectStatusSucceed",
        "InterpretHealthSucceed",
    ];
    told("karmada-es-m1", "Work", &work).await;
    fleet.stop().await;
}
