//! Tests of the search for victims with the real plugin and engine.

use berth_api::binding::GracefulEvictionTask;
use berth_api::well_known::PREEMPTIBLE;
use berth_api::{Cluster, ResourceBinding};
use berth_engine::{EngineOptions, Fleet};
use serde_json::{Value, json};

use super::*;
use crate::default_preemption::DefaultPreemption;
use crate::framework::DecisionFate;
use crate::framework::plugin_calls::Named;
use berth_api::well_known::PREEMPTED;

/// Returns a cluster with `cores` cores, of which `taken` cores are allocated.
fn cluster(name: &str, cores: i32, taken: i32) -> Cluster {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [{ "groupVersion": "apps/v1",
                "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2024-01-01T00:00:00Z" }],
            "resourceSummary": {
                "allocatable": { "cpu": cores.to_string(), "pods": "110" },
                "allocated": { "cpu": taken.to_string() } },
        },
    }))
    .unwrap()
}

/// Returns a binding whose replicas need one core each. The scheduler divides the replicas by available capacity.
fn binding(name: &str, priority: i32, replicas: i32, clusters: &[(&str, i32)]) -> Binding {
    let clusters: Vec<Value> = clusters
        .iter()
        .map(|(name, replicas)| json!({ "name": name, "replicas": replicas }))
        .collect();
    serde_json::from_value::<ResourceBinding>(json!({
        "metadata": { "name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "generation": 1 },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "n" },
            "replicas": replicas, "schedulePriority": { "priority": priority },
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": { "dynamicWeight": "AvailableReplicas" } } },
            "clusters": clusters,
        },
    }))
    .unwrap()
    .into()
}

fn evicted_from(mut binding: Binding, cluster: &str, replicas: i32) -> Binding {
    binding
        .spec
        .clusters
        .retain(|target| target.name != cluster);
    binding
        .spec
        .graceful_eviction_tasks
        .push(GracefulEvictionTask {
            from_cluster: cluster.to_owned(),
            replicas: Some(replicas),
            reason: PREEMPTED.to_owned(),
            producer: DefaultPreemption::NAME.to_owned(),
            ..GracefulEvictionTask::default()
        });
    binding
}

struct Fixture {
    clusters: Vec<Cluster>,
    state: State,
    book: CapacityBook,
}

impl Fixture {
    fn new(clusters: &[Cluster], bindings: Vec<Binding>) -> Self {
        let state = State::default();
        for binding in bindings {
            state.set_binding(&Arc::new(binding));
        }
        let mut book = CapacityBook::default();
        book.enable_assumed_capacity();
        Self {
            clusters: clusters.to_vec(),
            state,
            book,
        }
    }

    fn search_for(&self, binding: Binding) -> VictimSearchOutcome {
        let mut fleet = Fleet::new();
        for cluster in &self.clusters {
            fleet.apply(cluster);
        }
        let snapshot = fleet.snapshot();
        let binding = Arc::new(binding);
        let key = &binding.key;
        let request = Request::new(key, &binding.spec, &binding.status).unwrap();
        let points = ExtensionPoints {
            post_filter: vec![Named {
                name: DefaultPreemption::NAME.into(),
                point: Arc::new(DefaultPreemption),
            }],
            ..ExtensionPoints::default()
        };
        let now = Instant::now();
        let taken = self.book.taken_for(&binding, true, now);
        let search = VictimSearch {
            binding: &binding,
            request: &request,
            snapshot: &snapshot,
            book: &self.book,
            assumes_capacity: true,
            now,
            plugin_state: &self.state,
            points: &points,
        };
        let mut engine = Engine::new(EngineOptions::default()).unwrap();
        let mut decision = engine.decide(&snapshot, &request, &taken, None);
        search.run(&mut engine, &decision.outcome, &mut decision.state)
    }
}

/// Returns the victims as `name@cluster`, or a text for another outcome.
fn victims(outcome: &VictimSearchOutcome) -> Vec<String> {
    match outcome {
        VictimSearchOutcome::Nominated(_, nomination, _) => nomination
            .victims
            .iter()
            .map(|victim| format!("{}@{}", victim.key.name, victim.cluster))
            .collect(),
        VictimSearchOutcome::NotSearched
        | VictimSearchOutcome::NoVictims
        | VictimSearchOutcome::Failed(_) => vec!["none".to_owned()],
        VictimSearchOutcome::CapacityFreed(_) => vec!["capacity freed".to_owned()],
        VictimSearchOutcome::MayFit(_) => vec!["may fit".to_owned()],
    }
}

#[test]
fn the_fewest_least_important_and_youngest_assignments_are_evicted() {
    let clusters = [cluster("m1", 6, 6), cluster("m2", 6, 6)];
    let aged = |mut binding: Binding, time: &str| {
        binding.metadata.creation_timestamp = serde_json::from_value(json!(time)).unwrap();
        binding
    };
    let fixture = Fixture::new(
        &clusters,
        vec![
            aged(binding("old", 1, 2, &[("m1", 2)]), "2024-01-01T00:00:00Z"),
            aged(binding("young", 1, 2, &[("m2", 2)]), "2024-02-01T00:00:00Z"),
            binding("lowest", 0, 1, &[("m1", 1)]),
            binding("large", 5, 4, &[("m2", 4)]),
            binding("equal", 9, 3, &[("m1", 3)]),
        ],
    );
    for (priority, replicas, expected) in [
        (9, 1, vec!["lowest@m1"]),
        (9, 2, vec!["young@m2"]),
        (9, 4, vec!["large@m2"]),
        (2, 4, vec!["young@m2", "old@m1"]),
        (9, 5, vec!["lowest@m1", "large@m2"]),
        (1, 2, vec!["none"]),
        (9, 10, vec!["none"]),
        (
            10,
            12,
            vec!["lowest@m1", "young@m2", "old@m1", "large@m2", "equal@m1"],
        ),
    ] {
        let outcome = fixture.search_for(binding("new", priority, replicas, &[]));
        assert_eq!(victims(&outcome), expected, "{replicas} of {priority}");
    }
}

#[test]
fn a_binding_that_fits_preempts_nothing() {
    let fixture = Fixture::new(
        &[cluster("m1", 6, 4)],
        vec![binding("low", 0, 4, &[("m1", 4)])],
    );
    assert_eq!(
        victims(&fixture.search_for(binding("new", 9, 2, &[]))),
        ["none"]
    );
    assert_eq!(
        victims(&fixture.search_for(binding("new", 9, 3, &[]))),
        ["low@m1"]
    );
}

#[test]
fn bindings_that_are_protected_foreign_or_in_other_clusters_are_no_victims() {
    let mut spared = binding("spared", 0, 2, &[("m1", 2)]);
    spared.metadata.annotations = Some([(PREEMPTIBLE.to_owned(), "false".to_owned())].into());
    let mut foreign = binding("foreign", 0, 2, &[("m1", 2)]);
    foreign.spec.scheduler_name = Some("another".to_owned());
    let fixture = Fixture::new(
        &[cluster("m1", 6, 6), cluster("m2", 2, 2)],
        vec![
            spared,
            foreign,
            binding("elsewhere", 0, 2, &[("m2", 2)]),
            binding("low", 3, 2, &[("m1", 2)]),
        ],
    );
    let mut new = binding("new", 9, 2, &[]);
    if let Some(placement) = &mut new.spec.placement {
        placement.cluster_affinity =
            serde_json::from_value(json!({ "clusterNames": ["m1"] })).unwrap();
    }
    assert_eq!(victims(&fixture.search_for(new.clone())), ["low@m1"]);
    new.spec.replicas = 3;
    assert_eq!(victims(&fixture.search_for(new)), ["none"]);
}

#[test]
fn pending_evictions_are_used_before_further_evictions() {
    let low = binding("low", 0, 2, &[("m1", 2)]);
    let other = binding("other", 0, 2, &[("m1", 2)]);
    let clusters = [cluster("m1", 4, 4)];
    let evicting = evicted_from(low.clone(), "m1", 2);
    let mut fixture = Fixture::new(&clusters, vec![evicting.clone(), other]);
    let new = || binding("new", 9, 2, &[]);
    assert_eq!(
        victims(&fixture.search_for(new())),
        ["low@m1"],
        "the binding `other` is not evicted"
    );
    assert_eq!(
        victims(&fixture.search_for(binding("new", 9, 3, &[]))),
        ["other@m1", "low@m1"]
    );
    // The eviction task is complete, but the cluster has not reported the freed capacity yet.
    let mut evicted = evicting.clone();
    evicted.spec.graceful_eviction_tasks.clear();
    fixture
        .book
        .binding_changed(&evicting, &evicted, Instant::now());
    fixture.state.remove_binding(&low.key);
    assert_eq!(victims(&fixture.search_for(new())), ["capacity freed"]);
    fixture.book.cluster_reported("m1", "");
    assert_eq!(victims(&fixture.search_for(new())), ["other@m1"]);
}

#[test]
fn a_healthy_workload_that_counts_twice_causes_no_eviction() {
    let placed = binding("low", 0, 2, &[("m1", 2)]);
    let mut healthy = placed.clone();
    healthy.status.aggregated_status =
        serde_json::from_value(json!([{ "clusterName": "m1", "health": "Healthy" }])).unwrap();
    let now = Instant::now();
    // The report of the cluster includes the workload. The cluster sent it before the workload became healthy.
    let mut fixture = Fixture::new(&[cluster("m1", 4, 2)], vec![healthy.clone()]);
    let targets = placed.spec.clusters.clone();
    let new = binding("low", 0, 2, &[]);
    fixture.book.decided(&new, &targets, now);
    fixture.book.complete(&new.key, DecisionFate::Stored);
    let high = |replicas| binding("high", 9, replicas, &[]);
    fixture.book.binding_changed(&placed, &healthy, now);
    assert_eq!(victims(&fixture.search_for(high(2))), ["may fit"]);
    assert_eq!(victims(&fixture.search_for(high(4))), ["low@m1"]);
    fixture.book.cluster_reported("m1", "");
    assert_eq!(victims(&fixture.search_for(high(2))), ["none"], "high fits");
}

#[test]
fn a_search_without_victims_is_repeated_after_a_less_important_write() {
    let mut retries = PreemptionRetries::default();
    for (name, priority) in [("a", 1), ("b", 5), ("c", 5), ("d", i32::MAX)] {
        retries.add(&binding(name, priority, 1, &[]));
    }
    retries.remove(&binding("c", 5, 1, &[]).key);
    let mut above = |priority| {
        let taken = retries.take_above(priority);
        taken.map(|key| key.name.to_string()).collect::<String>()
    };
    assert_eq!(above(i32::MAX), "");
    assert_eq!(above(4), "bd", "c was deleted");
    assert_eq!(above(1), "");
    assert_eq!(above(0), "a");
    assert_eq!(above(0), "");
}
