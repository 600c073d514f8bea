//! Which room is found for a binding, with the plugin and the engine as they run.

use berth_api::binding::GracefulEvictionTask;
use berth_api::well_known::PREEMPTIBLE;
use berth_api::{Cluster, ResourceBinding};
use berth_core::{EngineOptions, Fleet};
use serde_json::{Value, json};

use super::*;
use crate::assume::Assumptions;
use crate::framework::service_points::Named;
use crate::preemption::DefaultPreemption;

/// A cluster with so many cores, of which so many are taken.
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

/// A binding of replicas with a core each, divided by room.
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

fn leaving(mut binding: Binding, cluster: &str, replicas: i32) -> Binding {
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
            reason: REASON.to_owned(),
            producer: DefaultPreemption::NAME.to_owned(),
            ..GracefulEvictionTask::default()
        });
    binding
}

struct Scene {
    clusters: Vec<Cluster>,
    state: State,
    departures: Departures,
    assumptions: Assumptions,
}

impl Scene {
    fn new(clusters: &[Cluster], bindings: Vec<Binding>) -> Self {
        let state = State::default();
        for binding in bindings {
            state.show(&Arc::new(binding));
        }
        Self {
            clusters: clusters.to_vec(),
            state,
            departures: Departures::default(),
            assumptions: Assumptions::default(),
        }
    }

    fn room_for(&self, binding: Binding) -> Room {
        let mut fleet = Fleet::new();
        for cluster in &self.clusters {
            fleet.apply(cluster);
        }
        let snapshot = fleet.snapshot();
        let binding = Arc::new(binding);
        let key = &binding.key;
        let namespace = key.namespace.as_deref();
        let request = Request::new(namespace, &key.name, &binding.spec, &binding.status).unwrap();
        let points = ServicePoints {
            post_filter: vec![Named {
                name: DefaultPreemption::NAME.into(),
                point: Arc::new(DefaultPreemption),
            }],
            ..ServicePoints::default()
        };
        let assumed = self.assumptions.assumed(Instant::now());
        let of_starting = || self.assumptions.of_starting(Instant::now());
        let search = Search {
            binding: &binding,
            request: &request,
            snapshot: &snapshot,
            assumed: &of_starting,
            state: &self.state,
            departures: &self.departures,
            points: &points,
        };
        let mut engine = Engine::new(EngineOptions::default()).unwrap();
        let mut decision = engine.decide(&snapshot, &request, &assumed, None);
        search.room(&mut engine, &decision.outcome, &mut decision.state)
    }
}

/// Who has to go, as `name@cluster`.
fn victims(room: &Room) -> Vec<String> {
    match room {
        Room::Nominated(_, nomination, _) => nomination
            .victims
            .iter()
            .map(|victim| format!("{}@{}", victim.key.name, victim.cluster))
            .collect(),
        Room::None | Room::NotFound | Room::NotKnown(_) => vec!["nobody".to_owned()],
        Room::Coming(_) => vec!["coming".to_owned()],
        Room::Unclear(_) => vec!["unclear".to_owned()],
    }
}

#[test]
fn the_fewest_then_the_least_important_then_the_youngest_have_to_go() {
    let clusters = [cluster("m1", 6, 6), cluster("m2", 6, 6)];
    let aged = |mut binding: Binding, time: &str| {
        binding.metadata.creation_timestamp = serde_json::from_value(json!(time)).unwrap();
        binding
    };
    let scene = Scene::new(
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
        (1, 2, vec!["nobody"]),
        (9, 10, vec!["nobody"]),
        (
            10,
            12,
            vec!["lowest@m1", "young@m2", "old@m1", "large@m2", "equal@m1"],
        ),
    ] {
        let room = scene.room_for(binding("new", priority, replicas, &[]));
        assert_eq!(victims(&room), expected, "{replicas} of {priority}");
    }
}

#[test]
fn what_fits_preempts_nobody() {
    let scene = Scene::new(
        &[cluster("m1", 6, 4)],
        vec![binding("low", 0, 4, &[("m1", 4)])],
    );
    assert_eq!(
        victims(&scene.room_for(binding("new", 9, 2, &[]))),
        ["nobody"]
    );
    assert_eq!(
        victims(&scene.room_for(binding("new", 9, 3, &[]))),
        ["low@m1"]
    );
}

#[test]
fn those_who_opted_out_and_those_where_it_would_not_help_stay() {
    let mut spared = binding("spared", 0, 2, &[("m1", 2)]);
    spared.metadata.annotations = Some([(PREEMPTIBLE.to_owned(), "false".to_owned())].into());
    let mut foreign = binding("foreign", 0, 2, &[("m1", 2)]);
    foreign.spec.scheduler_name = Some("another".to_owned());
    let scene = Scene::new(
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
    assert_eq!(victims(&scene.room_for(new.clone())), ["low@m1"]);
    new.spec.replicas = 3;
    assert_eq!(victims(&scene.room_for(new)), ["nobody"]);
}

#[test]
fn nothing_more_is_preempted_while_room_is_on_its_way() {
    let low = binding("low", 0, 2, &[("m1", 2)]);
    let other = binding("other", 0, 2, &[("m1", 2)]);
    let clusters = [cluster("m1", 4, 4)];
    let going = leaving(low.clone(), "m1", 2);
    let mut scene = Scene::new(&clusters, vec![going.clone(), other]);
    let new = || binding("new", 9, 2, &[]);
    assert_eq!(
        victims(&scene.room_for(new())),
        ["low@m1"],
        "and nobody else"
    );
    assert_eq!(
        victims(&scene.room_for(binding("new", 9, 3, &[]))),
        ["other@m1", "low@m1"]
    );
    // The task is done, and the cluster has not reported.
    let mut gone = going.clone();
    gone.spec.graceful_eviction_tasks.clear();
    scene
        .departures
        .observe(&going, Some(&gone), Instant::now());
    scene.state.forget(&low.key);
    assert_eq!(victims(&scene.room_for(new())), ["coming"]);
    scene.departures.reported("m1");
    assert_eq!(victims(&scene.room_for(new())), ["other@m1"]);
}

#[test]
fn nobody_goes_because_a_healthy_workload_counts_twice() {
    let placed = binding("low", 0, 2, &[("m1", 2)]);
    let mut healthy = placed.clone();
    healthy.status.aggregated_status =
        serde_json::from_value(json!([{ "clusterName": "m1", "health": "Healthy" }])).unwrap();
    let now = Instant::now();
    // The report holds it, and came before it was healthy.
    let mut scene = Scene::new(&[cluster("m1", 4, 2)], vec![healthy.clone()]);
    let targets = placed.spec.clusters.clone();
    let new = binding("low", 0, 2, &[]);
    scene.assumptions.decided(&new, &targets, now);
    scene.assumptions.landed(&new.key);
    let high = |replicas| binding("high", 9, replicas, &[]);
    scene.assumptions.observe(&placed, &healthy, now);
    assert_eq!(victims(&scene.room_for(high(2))), ["unclear"]);
    assert_eq!(victims(&scene.room_for(high(4))), ["low@m1"]);
    scene.assumptions.reported("m1");
    assert_eq!(victims(&scene.room_for(high(2))), ["nobody"], "it fits");
}

#[test]
fn the_room_that_was_made_is_kept_from_those_who_matter_less() {
    let scene = Scene::new(
        &[cluster("m1", 4, 4)],
        vec![binding("low", 0, 4, &[("m1", 4)])],
    );
    let high = binding("high", 9, 3, &[]);
    let room = scene.room_for(high.clone());
    let now = Instant::now();
    let mut promises = super::super::promises::Promises::default();
    promises.keep(&high, room.place(), now);
    let kept_from = |promises: &super::super::promises::Promises, name: &str, priority: i32| {
        let mut assumed = Assumed::default();
        promises.add_to(&mut assumed, &binding(name, priority, 1, &[]), now);
        let workloads = assumed.of("m1").iter();
        let replicas = workloads.flat_map(|workload| &workload.components);
        replicas.map(|(replicas, _)| replicas).sum::<i32>()
    };
    assert_eq!(kept_from(&promises, "low", 0), 3);
    assert_eq!(kept_from(&promises, "other", 9), 0);
    assert_eq!(kept_from(&promises, "high", 0), 0, "its own");
    promises.keep(&high, None, now);
    assert_eq!(kept_from(&promises, "low", 0), 0);
}

#[test]
fn who_found_no_room_searches_again_when_something_lands_that_matters_less() {
    let mut searchers = Searchers::default();
    for (name, priority) in [("a", 1), ("b", 5), ("c", 5), ("d", i32::MAX)] {
        searchers.add(&binding(name, priority, 1, &[]));
    }
    searchers.forget(&binding("c", 5, 1, &[]).key);
    let mut above = |priority| {
        let taken = searchers.take_above(priority);
        taken.map(|key| key.name.to_string()).collect::<String>()
    };
    assert_eq!(above(i32::MAX), "");
    assert_eq!(above(4), "bd", "c is gone");
    assert_eq!(above(1), "");
    assert_eq!(above(0), "a");
    assert_eq!(above(0), "");
}
