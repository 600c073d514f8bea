//! The answers to requests about drawn clusters equal those of karmada-scheduler-estimator, which are recorded in
//! `tests/data/karmada.jsonl.gz`. [`Exception`] lists the intended differences.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod exceptions;
mod requests;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};

use berth_estimator::{ClusterState, Rules, Unmeasured};
use flate2::read::GzDecoder;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota};
use serde::Deserialize;

use exceptions::Exception;
use requests::Request;

/// A drawn cluster with requests, and Karmada's answers to them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scenario {
    id: u32,
    gates: Gates,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    deployments: Vec<Deployment>,
    replica_sets: Vec<ReplicaSet>,
    quotas: Vec<ResourceQuota>,
    requests: Vec<Request>,
    answers: Vec<Answer>,
}

/// The feature gates of the estimator.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Gates {
    quotas: bool,
    assumed: bool,
}

/// An answer: a number, or an error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Answer(i32),
    Error(String),
}

impl Scenario {
    fn rules(&self) -> Rules {
        Rules {
            quotas: self.gates.quotas,
            assumed_workloads: self.gates.assumed,
            preemptible_pods: false,
        }
    }

    fn state(&self) -> ClusterState {
        let mut state = ClusterState::default();
        for node in &self.nodes {
            state.nodes.apply_node(node);
        }
        for pod in &self.pods {
            state.nodes.apply_pod(pod);
            state.workloads.apply_pod(pod);
        }
        for deployment in &self.deployments {
            state.workloads.apply_deployment(deployment);
        }
        for set in &self.replica_sets {
            state.workloads.apply_replica_set(set);
        }
        for quota in &self.quotas {
            state.quotas.apply(quota);
        }
        state
    }

    fn answer(&self, state: &ClusterState, request: &Request) -> Answer {
        let answered = match request {
            Request::Replicas(request) => {
                let estimate =
                    state.max_replicas(&request.message(), self.rules(), &mut Unmeasured);
                estimate.map_err(|error| error.to_string())
            }
            Request::Components(request) => {
                let estimate =
                    state.max_component_sets(&request.message(), self.rules(), &mut Unmeasured);
                estimate.map_err(|error| error.to_string())
            }
            Request::Unschedulable(request) => {
                let threshold = SignedDuration::from_secs(request.threshold_seconds);
                let (kind, namespace, name) = (&request.kind, &request.namespace, &request.name);
                let now = Timestamp::now();
                let workloads = &state.workloads;
                let count = workloads.unschedulable_replicas(kind, namespace, name, threshold, now);
                count.map_err(|error| error.to_string())
            }
        };
        answered.map_or_else(Answer::Error, Answer::Answer)
    }
}

/// Returns the version of Karmada that recorded the answers, and the scenarios.
fn recording() -> (String, impl Iterator<Item = Scenario>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/karmada.jsonl.gz");
    let file = std::fs::File::open(path).unwrap();
    let mut lines = BufReader::new(GzDecoder::new(file)).lines();
    let header: BTreeMap<String, String> =
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let scenarios = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    (header["karmada"].clone(), scenarios)
}

#[test]
fn answers_equal_those_of_karmada() {
    let (version, scenarios) = recording();
    let (mut equal, mut differing) = (0, BTreeMap::<Exception, usize>::new());
    let mut unintended = Vec::new();
    let mut clusters = 0;
    for scenario in scenarios {
        clusters += 1;
        let state = scenario.state();
        for (request, expected) in scenario.requests.iter().zip(&scenario.answers) {
            let answer = scenario.answer(&state, request);
            if answer == *expected {
                equal += 1;
            } else if let Some(exception) = Exception::of(&scenario, request, expected) {
                *differing.entry(exception).or_default() += 1;
            } else {
                let id = scenario.id;
                unintended.push(format!("{id}: {answer:?}, not {expected:?}: {request:?}"));
            }
        }
    }
    println!("{version}: {equal} answers of {clusters} clusters are equal; {differing:?}");
    let number = unintended.len();
    unintended.truncate(5);
    assert!(number == 0, "{number}: {}", unintended.join("\n"));
    assert!(
        clusters == 500 && equal > 5000,
        "{equal} of {clusters} clusters"
    );
    // An exception without a difference has become untrue.
    for exception in Exception::ALL {
        assert!(differing.contains_key(&exception), "{exception:?}");
    }
}
