//! A test of a running scheduler with accurate estimators.

use berth_api::{Cluster, ResourceBinding};
use berth_scheduler::estimator::EstimatorOptions;
use berth_scheduler::{Options, run_with_client};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fake::{Behaviour, FakeEstimator};
use crate::fixture::{Fixture, member, soon};

/// Creates a member cluster whose status reports capacity for a hundred replicas.
async fn create_member(fixture: &Fixture, name: &str) {
    let clusters: Api<Cluster> = Api::all(fixture.server.client());
    clusters
        .create(&PostParams::default(), &member(name, "Push"))
        .await
        .unwrap();
    let status = json!({ "status": {
        "apiEnablements": [{ "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
        "resourceSummary": { "allocatable": { "cpu": "100", "pods": "1000" } },
    } });
    clusters
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn create_binding(fixture: &Fixture, name: &str) {
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "propagationpolicy.karmada.io/permanent-id": "id" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "default" },
            "replicas": 6,
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted", "weightPreference": { "dynamicWeight": "AvailableReplicas" } } },
        },
    }))
    .unwrap();
    let bindings: Api<ResourceBinding> = Api::namespaced(fixture.server.client(), "default");
    bindings
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
}

/// Returns the clusters of a binding, or the message of its condition.
async fn outcome(fixture: &Fixture, name: &str) -> String {
    let bindings: Api<ResourceBinding> = Api::namespaced(fixture.server.client(), "default");
    let decided = |binding: Option<&ResourceBinding>| {
        binding
            .and_then(|b: &ResourceBinding| b.status.as_ref())
            .is_some_and(|status| !status.conditions.is_empty())
    };
    let binding = soon(await_condition(bindings, name, decided))
        .await
        .unwrap()
        .unwrap();
    let condition = binding.status.unwrap().conditions.remove(0);
    if condition.status != "True" {
        return condition.message;
    }
    let mut clusters: Vec<String> = binding
        .spec
        .clusters
        .iter()
        .map(|target| format!("{}:{}", target.name, target.replicas))
        .collect();
    clusters.sort_unstable();
    clusters.join(" ")
}

#[tokio::test]
async fn decisions_use_accurate_estimates_and_stale_answers_of_failing_estimators() {
    let fixture = Fixture::start().await;
    for definition in berth_api::crds::all() {
        fixture.server.install_crd(definition).await.unwrap();
    }
    let m1 = FakeEstimator::start("m1", Behaviour::Answers(1)).await;
    let m2 = FakeEstimator::start("m2", Behaviour::Answers(5)).await;
    for (name, fake) in [("m1", &m1), ("m2", &m2)] {
        create_member(&fixture, name).await;
        let (host, port) = (fake.address.ip().to_string(), fake.address.port());
        let ports = json!([{ "port": 10352, "targetPort": port }]);
        fixture
            .service(
                name,
                json!({ "type": "ExternalName", "externalName": host, "ports": ports }),
            )
            .await;
    }
    let options = Options {
        estimator: Some(EstimatorOptions::default()),
        ..Options::embedded()
    };
    let cancel = CancellationToken::new();
    let service = tokio::spawn(run_with_client(
        options,
        fixture.server.client(),
        cancel.clone(),
    ));

    create_binding(&fixture, "as-estimated").await;
    assert_eq!(outcome(&fixture, "as-estimated").await, "m1:1 m2:5");
    assert_eq!(
        (m1.requests().len(), m2.requests().len()),
        (1, 1),
        "each estimator receives one request"
    );

    m1.behave(Behaviour::Answers(0));
    m2.behave(Behaviour::Answers(3));
    create_binding(&fixture, "too-little").await;
    let message = outcome(&fixture, "too-little").await;
    assert!(
        message.contains("Clusters available replicas 3 are not enough"),
        "{message}"
    );

    // The estimator of m1 fails, so the scheduler uses its last answer, 0. The estimator of m2 answers 6.
    m1.behave(Behaviour::Fails(tonic::Status::unavailable("gone")));
    m2.behave(Behaviour::Answers(6));
    create_binding(&fixture, "one-fails").await;
    assert_eq!(outcome(&fixture, "one-fails").await, "m2:6");

    cancel.cancel();
    soon(service).await.unwrap().unwrap();
}
