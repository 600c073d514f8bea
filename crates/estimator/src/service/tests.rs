use berth_estimator_protocol::wire::service::estimator_client::EstimatorClient;
use berth_estimator_protocol::wire::service::estimator_server::EstimatorServer;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;
use tonic::Code;

use super::*;

fn state() -> ClusterState {
    let mut state = ClusterState::default();
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "7"}},
    }))
    .unwrap();
    state.nodes.apply_node(&node);
    let spec = json!({"selector": {}, "template": {"spec": {"containers": []}}});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "d"}, "spec": spec,
    }))
    .unwrap();
    state.workloads.apply_deployment(&deployment);
    let owner = |kind: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": uid, "controller": true}]);
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web-1", "uid": "r", "ownerReferences": owner("Deployment", "d")},
        "spec": spec,
    }))
    .unwrap();
    state.workloads.apply_replica_set(&set);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "p", "ownerReferences": owner("ReplicaSet", "r")},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }))
    .unwrap();
    state.workloads.apply_pod(&pod);
    state
}

fn client() -> EstimatorClient<EstimatorServer<EstimatorService>> {
    let service = EstimatorService {
        members: [("m1".to_owned(), Member::listed(state()))].into(),
        rules: Rules::default(),
        metrics: RequestMetrics::default(),
    };
    EstimatorClient::new(EstimatorServer::new(service))
}

fn unschedulable(cluster: &str, kind: &str, name: &str) -> pb::UnschedulableReplicasRequest {
    pb::UnschedulableReplicasRequest {
        cluster: cluster.to_owned(),
        resource: Some(pb::ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }),
        unschedulable_threshold: 60_000_000_000,
    }
}

#[tokio::test]
async fn each_method_answers() {
    let mut client = client();
    let replicas = client.max_available_replicas(pb::MaxAvailableReplicasRequest {
        cluster: "m1".to_owned(),
        ..Default::default()
    });
    assert_eq!(replicas.await.unwrap().into_inner().max_replicas, 7);
    let component = pb::Component {
        replicas: 3,
        ..Default::default()
    };
    let sets = client.max_available_component_sets(pb::MaxAvailableComponentSetsRequest {
        cluster: "m1".to_owned(),
        components: vec![component],
        ..Default::default()
    });
    assert_eq!(sets.await.unwrap().into_inner().max_sets, 2);
    let count = client.get_unschedulable_replicas(unschedulable("m1", "Deployment", "web"));
    assert_eq!(count.await.unwrap().into_inner().unschedulable_replicas, 1);
}

#[tokio::test]
async fn errors_have_the_texts_of_karmada() {
    let mut client = client();
    let without_resource = pb::UnschedulableReplicasRequest {
        resource: None,
        ..unschedulable("m1", "", "")
    };
    for (request, expected) in [
        (
            unschedulable("m2", "Deployment", "web"),
            "cluster name does not match, got: m2, desire: m1",
        ),
        (without_resource, "resource is nil"),
        (
            unschedulable("m1", "Job", "web"),
            "kind(Job) of workload(shop/web) is not supported",
        ),
        (
            unschedulable("m1", "Deployment", "api"),
            "deployments.apps \"shop/api\" not found",
        ),
    ] {
        let error = client
            .get_unschedulable_replicas(request)
            .await
            .unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unknown, expected));
    }
    let replicas = client.max_available_replicas(pb::MaxAvailableReplicasRequest::default());
    let error = replicas.await.unwrap_err();
    assert_eq!(
        error.message(),
        "cluster name does not match, got: , desire: m1"
    );
    let malformed = pb::ReplicaRequirements {
        resource_request_bytes: [("cpu".to_owned(), b"\x0a\x01x".to_vec())].into(),
        ..Default::default()
    };
    let replicas = client.max_available_replicas(pb::MaxAvailableReplicasRequest {
        cluster: "m1".to_owned(),
        replica_requirements: Some(malformed),
        ..Default::default()
    });
    let message = replicas.await.unwrap_err().message().to_owned();
    assert!(
        message.starts_with("failed to estimate replicas: malformed quantity"),
        "{message}"
    );
}

#[tokio::test]
async fn each_request_is_answered_from_the_state_of_its_cluster() {
    let members = [("m1", state()), ("m2", ClusterState::default())];
    let members = members.map(|(name, state)| (name.to_owned(), Member::listed(state)));
    let service = EstimatorService {
        members: members.into(),
        rules: Rules::default(),
        metrics: RequestMetrics::default(),
    };
    let mut client = EstimatorClient::new(EstimatorServer::new(service));
    for (cluster, expected) in [
        ("m1", Ok(7)),
        ("m2", Ok(0)),
        (
            "m3",
            Err("cluster name does not match, got: m3, desire: m1, m2"),
        ),
    ] {
        let request = pb::MaxAvailableReplicasRequest {
            cluster: cluster.to_owned(),
            ..Default::default()
        };
        let answer = client.max_available_replicas(request).await;
        let answer = answer.map(|it| it.into_inner().max_replicas);
        let answer = answer.as_ref().map_err(tonic::Status::message).copied();
        assert_eq!(answer, expected, "{cluster}");
    }
}
