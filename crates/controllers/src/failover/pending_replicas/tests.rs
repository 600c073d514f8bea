use super::super::graceful_eviction::tests::binding_with;
use super::super::report::tests::clusters;
use super::*;

const AFTER: Duration = Duration::from_mins(5);

/// Returns a Deployment with 4 replicas in m1, of which this number is ready.
fn binding(ready: i64, strategy: &Value) -> BindingRecord {
    let spec = json!({
        "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "n" },
        "clusters": [{ "name": "m1", "replicas": 4, "new": 1 }, { "name": "m2", "replicas": 1 }],
        "replicas": 5, "placement": { "replicaScheduling": strategy },
    });
    let item = |name: &str, ready: i64| json!({ "clusterName": name, "status": { "readyReplicas": ready } });
    let status = json!({ "aggregatedStatus": [item("m1", ready), item("m2", 1)] });
    let mut binding = binding_with(&spec, &status);
    binding.body.status.scheduler_observed_generation = binding.body.metadata.generation;
    binding
}

fn dynamic() -> Value {
    json!({ "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": { "dynamicWeight": "AvailableReplicas" } })
}

/// The tracker, and the time that has passed.
struct Trial {
    tracker: PendingReplicas,
    start: Instant,
}

impl Trial {
    fn observe(&mut self, minutes: u64, binding: &BindingRecord, ready: bool) -> Verdict {
        let now = self.at(minutes);
        let clusters = clusters(&[("m1", ready), ("m2", true)], self.start);
        let reports = Reports::new(binding, &clusters, now);
        self.tracker.observe(&reports, AFTER, now)
    }

    fn at(&self, minutes: u64) -> Instant {
        self.start + Duration::from_mins(minutes)
    }
}

fn trial() -> Trial {
    Trial {
        tracker: PendingReplicas::default(),
        start: Instant::now(),
    }
}

#[test]
fn replicas_that_no_node_can_run_move_after_a_while() {
    let mut trial = trial();
    let binding = binding(1, &dynamic());
    let key = binding.body.key.clone();
    let waiting = trial.observe(0, &binding, true);
    assert_eq!(
        (waiting.count_in, waiting.moves, waiting.next),
        (vec![], vec![], Some(trial.at(5)))
    );
    let due = trial.observe(5, &binding, true);
    assert_eq!(due.count_in, ["m1"]);
    assert_eq!(
        trial.observe(5, &binding, true),
        Verdict::default(),
        "asked once"
    );
    trial.tracker.counted(&key, "m1", Some(2));
    assert_eq!(
        trial.observe(6, &binding, true).moves,
        [("m1".to_owned(), 2)]
    );
    trial.tracker.moved(&key, "m1", trial.at(6));
    let mut undecided = binding.clone();
    undecided.body.metadata.generation = Some(4);
    assert_eq!(trial.observe(6, &undecided, true), Verdict::default());
    // Put back into the same cluster, the replicas wait twice as long.
    assert_eq!(trial.observe(7, &binding, true).next, Some(trial.at(17)));
}

#[test]
fn replicas_that_wait_for_something_else_stay() {
    let mut trial = trial();
    let binding = binding(0, &dynamic());
    let key = binding.body.key.clone();
    for (start, count) in [(0, Some(0)), (20, None)] {
        trial.observe(start, &binding, true);
        assert_eq!(trial.observe(start + 5, &binding, true).count_in, ["m1"]);
        trial.tracker.counted(&key, "m1", count);
        let verdict = trial.observe(start + 6, &binding, true);
        assert_eq!(
            (verdict.moves.len(), verdict.next),
            (0, Some(trial.at(start + 11)))
        );
        trial.tracker.forget(&key);
    }
}

#[test]
fn only_replicas_that_the_scheduler_may_divide_again_move() {
    let fixed =
        json!({ "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted" });
    let aggregated =
        json!({ "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated" });
    let suspended = |mut binding: BindingRecord| {
        binding.body.spec.suspension =
            serde_json::from_value(json!({ "scheduling": true })).unwrap();
        binding
    };
    for (about, binding, ready, expected) in [
        ("dynamic weights", binding(1, &dynamic()), true, 1),
        ("aggregated", binding(1, &aggregated), true, 1),
        ("fixed weights", binding(1, &fixed), true, 0),
        ("all are ready", binding(4, &dynamic()), true, 0),
        ("the member is not ready", binding(1, &dynamic()), false, 0),
        (
            "scheduling is suspended",
            suspended(binding(1, &dynamic())),
            true,
            0,
        ),
    ] {
        let mut trial = trial();
        trial.observe(0, &binding, ready);
        let found = trial.observe(5, &binding, ready).count_in.len();
        assert_eq!(found, expected, "{about}");
    }
}

#[test]
fn a_cluster_that_can_run_no_replica_is_not_chosen_again() {
    let patch = patch(&binding(0, &dynamic()), &[("m1".to_owned(), 4)]);
    assert_eq!(
        patch["spec"],
        json!({
            "clusters": [{ "name": "m2", "replicas": 1 }],
            "gracefulEvictionTasks": [{ "fromCluster": "m1", "replicas": 4, "purgeMode": "Gracefully",
                "reason": "ReplicasUnschedulable", "producer": "berth-rebalance" }],
        })
    );
}

#[test]
fn the_patch_takes_replicas_and_keeps_unknown_fields() {
    let patch = patch(&binding(1, &dynamic()), &[("m1".to_owned(), 3)]);
    let expected =
        json!([{ "name": "m1", "replicas": 1, "new": 1 }, { "name": "m2", "replicas": 1 }]);
    assert_eq!(patch["spec"]["clusters"], expected);
}
