//! A test of a compromised member, which reports statuses with any size, name and value. The objects of the control
//! plane stay bounded and readable, and the other member is not affected.

use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use berth_e2e::proxy::{Fault, Proxy};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::api::Api;
use serde::Serialize;
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{config_map, deployment, policy};

/// Size of a forged message in bytes. It exceeds [`LARGEST_OBJECT`].
const HUGE: usize = 2 * 1024 * 1024;
/// etcd's limit for the size of an object, in bytes.
const LARGEST_OBJECT: usize = 1536 * 1024;

/// Changes the status or the name in a member's response that contains an object of the test.
fn forge(object: &mut Value) {
    let huge = || json!([{ "type": "Forged", "status": "True", "message": "x".repeat(HUGE) }]);
    let status = match object.pointer("/metadata/name").and_then(Value::as_str) {
        Some("web") => {
            json!({ "replicas": i64::MAX, "readyReplicas": -7, "updatedReplicas": "many",
            "availableReplicas": 1e300, "observedGeneration": i64::MAX, "conditions": huge() })
        }
        Some("sums") => {
            json!({ "succeeded": i64::MAX, "active": -1, "startTime": "9999-12-31T23:59:59Z",
            "completionTime": "tomorrow", "conditions": huge() })
        }
        Some("door") => json!({ "loadBalancer": { "ingress":
            [5, { "ip": 7 }, { "ip": "nowhere" }, { "hostname": ["a"] }, { "ip": "10.0.0.2" }] } }),
        Some("settings") => {
            object["metadata"]["name"] = json!("admin");
            object["metadata"]["namespace"] = json!("kube-system");
            object["metadata"]["uid"] = json!("forged");
            return;
        }
        _ => return,
    };
    object["status"] = status;
}

fn assert_fits(object: &impl Serialize) {
    let size = serde_json::to_string(object).unwrap().len();
    assert!(size < LARGEST_OBJECT, "{size} bytes");
}

/// Member m1 forges its reports about four objects. A later object still reaches both members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_statuses_stay_bounded_and_affect_nothing_else() {
    let mut fleet = Fleet::without_clusters(2).await;
    let (ca, token) = fleet.members[0].credentials();
    fleet.apply_secret("m1", &token, &ca).await;
    let proxy = Proxy::start(fleet.members[0].client.clone());
    proxy.rule(|request| {
        let placed = ["deployments", "jobs", "ingresses", "configmaps"];
        if placed.iter().any(|plural| request.path.contains(plural)) {
            Fault::Forge(forge)
        } else {
            Fault::None
        }
    });
    fleet.register("m1", Some(&proxy.url())).await;
    fleet.join(1).await;
    fleet.start_controllers();

    let web = deployment("web", 1);
    let sums = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "sums" },
        "spec": { "template": { "spec": { "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "busybox:1" }] } } } });
    let door = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "door" },
        "spec": { "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } } });
    let settings = config_map("settings");
    for object in [&web, &sums, &door, &settings] {
        fleet.apply(object.clone()).await;
        fleet.apply(policy(object, &["m1", "m2"])).await;
    }
    let m2 = &fleet.members[1];
    for object in [&web, &sums, &door, &settings] {
        m2.wait_until_exists(object).await;
    }
    m2.report_status(&web, json!({ "replicas": 1, "readyReplicas": 1 }))
        .await;
    m2.report_status(
        &sums,
        json!({ "active": 1, "startTime": "2026-01-01T00:00:00Z" }),
    )
    .await;
    let address = json!({ "loadBalancer": { "ingress": [{ "ip": "10.0.0.1" }] } });
    m2.report_status(&door, address).await;

    // The template shows the sum of the forged numbers, clamped to valid values, and the numbers of the other member.
    fleet
        .wait_for(&web, "the sums", |web| {
            let status = &web["status"];
            status["replicas"] == i32::MAX && status["readyReplicas"] == 1
        })
        .await;
    fleet
        .wait_for(&sums, "the other member's pods", |sums| {
            sums["status"]["active"] == 1
        })
        .await;
    fleet
        .wait_for(&door, "the addresses", |door| {
            door["status"]["loadBalancer"]["ingress"]
                == json!([{ "ip": "10.0.0.1" }, { "ip": "10.0.0.2" }])
        })
        .await;
    let deployments: Api<Deployment> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    deployments.get("web").await.unwrap();
    let jobs: Api<Job> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    jobs.get("sums").await.unwrap();

    for (object, kind) in [
        (&web, "Deployment"),
        (&sums, "Job"),
        (&door, "Ingress"),
        (&settings, "ConfigMap"),
    ] {
        let name = object["metadata"]["name"].as_str().unwrap();
        let binding = format!("{name}-{}", kind.to_lowercase());
        assert_fits(&fleet.wait_for_fully_applied(&binding, "True").await);
        let work = berth_api::names::work_name(kind, name, NAMESPACE);
        let work = wait_for(&fleet.works("m1"), &work, "a report", |work| {
            let status = work.status.as_ref();
            status.is_some_and(|status| !status.manifest_statuses.is_empty())
        })
        .await;
        assert_fits(&work);
        for reported in work.status.unwrap().manifest_statuses {
            let of = reported.identifier;
            assert_eq!(
                (&*of.kind, &*of.namespace, &*of.name),
                (kind, NAMESPACE, name)
            );
        }
    }
    let mut foreign = config_map("admin");
    foreign["metadata"]["namespace"] = json!("kube-system");
    for member in &fleet.members {
        assert_eq!(member.get(&foreign).await, None, "{}", member.name);
    }

    // Later objects reach both members.
    let late = config_map("late");
    fleet.apply(late.clone()).await;
    fleet.apply(policy(&late, &["m1", "m2"])).await;
    for member in &fleet.members {
        member.wait_until_exists(&late).await;
    }
    fleet.stop().await;
}
