//! Tests of the requests that the estimator client sends. Estimators of every Karmada version must read the same values
//! from a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::binding::BindingSpec;
use berth_engine::estimate::Unit;
use berth_estimator_protocol::wire::service::estimator_server;
use berth_scheduler::estimator::{AssumedWork, EstimateRequest};
use prost::Message;
use serde_json::json;
use tonic::server::NamedService;

use crate::fake::{Behaviour, FakeEstimator, Received, Recorded};
use crate::fixture::{Fixture, deployment};

/// Kubernetes types as protobuf messages.
mod k8s {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Quantity {
        #[prost(string, tag = "1")]
        pub(super) text: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NodeSelector {
        #[prost(message, repeated, tag = "1")]
        pub(super) terms: Vec<Term>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Term {
        #[prost(message, repeated, tag = "1")]
        pub(super) expressions: Vec<Requirement>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Requirement {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(string, tag = "2")]
        pub(super) operator: String,
        #[prost(string, repeated, tag = "3")]
        pub(super) values: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Toleration {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(string, tag = "2")]
        pub(super) operator: String,
    }
}

/// The message of the requirements in estimators up to version 1.17.
#[derive(Clone, PartialEq, Message)]
struct OldRequirements {
    #[prost(message, optional, tag = "1")]
    node_claim: Option<OldNodeClaim>,
    #[prost(btree_map = "string, message", tag = "2")]
    resources: BTreeMap<String, k8s::Quantity>,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "4")]
    priority_class: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldNodeClaim {
    #[prost(message, optional, tag = "1")]
    node_affinity: Option<k8s::NodeSelector>,
    #[prost(btree_map = "string, string", tag = "2")]
    node_selector: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "3")]
    tolerations: Vec<k8s::Toleration>,
}

/// The message of the requirements in estimators from version 1.19.
#[derive(Clone, PartialEq, Message)]
struct NewRequirements {
    #[prost(message, optional, tag = "1")]
    node_claim: Option<NewNodeClaim>,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "4")]
    priority_class: String,
    #[prost(btree_map = "string, bytes", tag = "5")]
    resources: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct NewNodeClaim {
    #[prost(btree_map = "string, string", tag = "2")]
    node_selector: BTreeMap<String, String>,
    #[prost(bytes = "vec", tag = "4")]
    node_affinity: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    tolerations: Vec<Vec<u8>>,
}

fn demanding() -> BindingSpec {
    deployment(json!({
        "resourceRequest": { "memory": "1024Mi", "cpu": "0.5" }, "namespace": "shop", "priorityClassName": "high",
        "nodeClaim": {
            "nodeSelector": { "disk": "ssd" },
            "tolerations": [{ "key": "gpu", "operator": "Exists" }],
            "hardNodeAffinity": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }] },
        },
    }))
}

async fn sent(request: &EstimateRequest) -> Recorded {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(3)).await;
    fixture.join("m1", fake.address).await;
    let answers = fixture.estimate(request, &["m1"]).await;
    assert_eq!(answers.get("m1").unwrap().value(), Some(3));
    fake.requests().remove(0)
}

#[tokio::test]
async fn servers_of_every_version_read_the_same_requirements() {
    let request = EstimateRequest::new(&demanding(), Unit::Replicas).unwrap();
    let (Received::Replicas(request), _) = sent(&request).await else {
        panic!("another method was called");
    };
    let sent = request.replica_requirements.unwrap().encode_to_vec();

    let quantity = |text: &str| k8s::Quantity { text: text.into() };
    let affinity = k8s::NodeSelector {
        terms: vec![k8s::Term {
            expressions: vec![k8s::Requirement {
                key: "zone".into(),
                operator: "In".into(),
                values: vec!["a".into()],
            }],
        }],
    };
    let toleration = k8s::Toleration {
        key: "gpu".into(),
        operator: "Exists".into(),
    };
    let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);

    let old = OldRequirements::decode(&*sent).unwrap();
    let expected = OldRequirements {
        node_claim: Some(OldNodeClaim {
            node_affinity: Some(affinity.clone()),
            node_selector: labels.clone(),
            tolerations: vec![toleration.clone()],
        }),
        resources: [("cpu", "500m"), ("memory", "1Gi")]
            .map(|(resource, text)| (resource.to_owned(), quantity(text)))
            .into(),
        namespace: "shop".into(),
        priority_class: "high".into(),
    };
    assert_eq!(old, expected);

    let new = NewRequirements::decode(&*sent).unwrap();
    assert_eq!((&*new.namespace, &*new.priority_class), ("shop", "high"));
    let resources: Vec<_> = new
        .resources
        .iter()
        .map(|(resource, bytes)| (&**resource, k8s::Quantity::decode(&**bytes).unwrap().text))
        .collect();
    assert_eq!(
        resources,
        [("cpu", "500m".into()), ("memory", "1Gi".into())]
    );
    let claim = new.node_claim.unwrap();
    assert_eq!(claim.node_selector, labels);
    assert_eq!(
        k8s::NodeSelector::decode(&*claim.node_affinity).unwrap(),
        affinity
    );
    assert_eq!(claim.tolerations.len(), 1);
    assert_eq!(
        k8s::Toleration::decode(&*claim.tolerations[0]).unwrap(),
        toleration
    );
}

#[tokio::test]
async fn requests_are_encoded_byte_for_byte() {
    let spec = deployment(json!({ "resourceRequest": { "cpu": "1" } }));
    let request = EstimateRequest::new(&spec, Unit::Replicas).unwrap();
    let (Received::Replicas(request), metadata) = sent(&request).await else {
        panic!("another method was called");
    };
    let cpu = |field: u8| [&[field << 3 | 2, 10][..], b"\x0a\x03cpu\x12\x03\x0a\x011"].concat();
    let requirements = [cpu(2), cpu(5)].concat();
    let expected = [b"\x0a\x02m1\x12\x18", &*requirements].concat();
    assert_eq!(request.encode_to_vec(), expected);
    assert_eq!(
        metadata[0],
        ("object".into(), "kind=Deployment, name=shop/web".into())
    );
    let (_, timeout) = &metadata[1];
    assert!(!timeout.is_empty(), "the deadline is sent");
}

#[tokio::test]
async fn absent_requirements_are_not_sent() {
    let mut spec = deployment(json!({}));
    spec.replica_requirements = None;
    spec.resource.namespace = None;
    let request = EstimateRequest::new(&spec, Unit::Replicas).unwrap();
    let (Received::Replicas(request), metadata) = sent(&request).await else {
        panic!("another method was called");
    };
    assert_eq!(request.encode_to_vec(), b"\x0a\x02m1");
    assert_eq!(metadata[0].1, "kind=Deployment, name=/web");
}

#[tokio::test]
async fn component_sets_and_assumed_workloads_are_encoded() {
    let spec: BindingSpec = serde_json::from_value(json!({
        "resource": { "apiVersion": "batch/v1", "kind": "Job", "namespace": "lab", "name": "train" },
        "components": [
            { "name": "master", "replicas": 1, "replicaRequirements": {
                "resourceRequest": { "cpu": "1" }, "priorityClassName": "high" } },
            { "name": "worker", "replicas": 4 },
        ],
    }))
    .unwrap();
    let mut request = EstimateRequest::new(&spec, Unit::ComponentSets).unwrap();
    let other = deployment(json!({ "resourceRequest": { "cpu": "2" } }));
    request.assume("m1", Arc::new(AssumedWork::new(&other, 7).unwrap()));
    request.assume("m2", Arc::new(AssumedWork::new(&other, 9).unwrap()));
    request.assume("m1", Arc::new(AssumedWork::new(&spec, 0).unwrap()));
    let (Received::ComponentSets(request), _) = sent(&request).await else {
        panic!("another method was called");
    };
    assert_eq!(request.namespace, "lab");
    let names = |components: &[berth_estimator_protocol::wire::pb::Component]| -> Vec<_> {
        components
            .iter()
            .map(|component| (component.name.clone(), component.replicas))
            .collect()
    };
    let sets = [("master".to_owned(), 1), ("worker".to_owned(), 4)];
    assert_eq!(names(&request.components), sets);
    let master = request.components[0].replica_requirements.as_ref().unwrap();
    assert_eq!(master.priority_class_name, "high");
    assert_eq!(master.resource_request, master.resource_request_bytes);
    assert_eq!(request.components[1].replica_requirements, None);
    let assumed: Vec<_> = request
        .assumed_workloads
        .iter()
        .map(|work| (&*work.namespace, names(&work.components)))
        .collect();
    assert_eq!(
        assumed,
        [
            ("shop", vec![("web".to_owned(), 7)]),
            ("lab", sets.to_vec())
        ]
    );
}

#[test]
fn the_service_has_karmadas_name() {
    fn name<S: NamedService>() -> &'static str {
        S::NAME
    }
    assert_eq!(
        name::<estimator_server::EstimatorServer<()>>(),
        "github.com.karmada_io.karmada.pkg.estimator.service.Estimator"
    );
}

#[test]
fn invalid_quantities_are_reported_by_resource() {
    let spec = deployment(json!({ "resourceRequest": { "cpu": "12potatoes" } }));
    let error = EstimateRequest::new(&spec, Unit::Replicas)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("resource \"cpu\": \"12potatoes\""),
        "{error}"
    );
}
