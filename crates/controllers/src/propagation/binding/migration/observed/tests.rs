use berth_api::BindingKey;
use serde_json::json;

use super::*;
use crate::overrides::OverrideSet;

const NOW: &str = "2026-01-01T00:00:00Z";
const TIMEOUT: Duration = Duration::from_mins(10);

/// A cluster of a test: its name, the replicas that the scheduler decided, and the replicas and ready replicas in its
/// Work.
type Cluster3<'a> = (&'a str, Option<i32>, Option<(i32, i32)>);

fn deployment(replicas: i32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "replicas": replicas } })
}

fn work(cluster: &str, replicas: i32, ready: i32) -> Arc<Work> {
    let health = if ready == replicas {
        "Healthy"
    } else {
        "Unhealthy"
    };
    let work = json!({
        "metadata": { "name": "w", "namespace": format!("karmada-es-{cluster}") },
        "spec": { "workload": { "manifests": [deployment(replicas)] } },
        "status": {
            "conditions": [{ "type": "Applied", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": NOW }],
            "manifestStatuses": [{ "health": health, "status": { "replicas": replicas, "readyReplicas": ready },
                "identifier": { "ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment",
                    "resource": "", "namespace": "shop", "name": "web" } }],
        },
    });
    Arc::new(serde_json::from_value(work).unwrap())
}

fn ready_cluster(name: &str) -> Arc<Cluster> {
    let cluster = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" }, "status": { "conditions": [
        { "type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW }] } });
    Arc::new(serde_json::from_value(cluster).unwrap())
}

fn input(scheduling: &str, clusters: &[Cluster3<'_>]) -> SyncInput {
    let targets = clusters
        .iter()
        .filter_map(|(name, desired, _)| Some(json!({ "name": name, "replicas": (*desired)? })));
    let spec = json!({
        "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
        "replicas": 4,
        "placement": { "replicaScheduling": { "replicaSchedulingType": scheduling } },
        "clusters": targets.collect::<Vec<_>>(),
    });
    let binding = Binding {
        key: BindingKey::new("shop", "web-deployment"),
        metadata: kube::core::ObjectMeta::default(),
        spec: serde_json::from_value(spec).unwrap(),
        status: berth_api::binding::BindingStatus::default(),
    };
    let works = clusters.iter().filter_map(|(name, _, reported)| {
        let (replicas, ready) = (*reported)?;
        Some(((*name).to_owned(), vec![work(name, replicas, ready)]))
    });
    SyncInput {
        binding: Arc::new(binding),
        works: works.collect(),
        clusters: clusters
            .iter()
            .map(|(name, ..)| ((*name).to_owned(), ready_cluster(name)))
            .collect(),
        overrides: OverrideSet {
            cluster: Vec::new(),
            namespaced: Vec::new(),
        },
        needed_in: BTreeSet::new(),
        deselected: BTreeSet::new(),
        unreported: BTreeMap::new(),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn observe(input: &SyncInput, template: &Value, now: &str) -> Migration {
    Migration::observe(input, template, TIMEOUT, at(now), &Interpreter::default()).unwrap()
}

#[test]
fn divided_replicas_stay_until_new_ones_are_ready() {
    let moving = input(
        "Divided",
        &[("m1", None, Some((4, 4))), ("m2", Some(4), Some((4, 1)))],
    );
    let migration = observe(&moving, &deployment(4), NOW);
    assert_eq!(migration.leaving("m1"), Leaving::Reduce(3));
    assert_eq!(migration.replicas("m2", 4), Some(4));
    let wait = migration.wait.unwrap();
    assert_eq!(wait.kept, BTreeSet::from(["m1".to_owned()]));
    assert_eq!(wait.until, Some(at("2026-01-01T00:10:00Z")));
    assert_eq!(
        wait.message,
        "1 of 4 are ready where the scheduler put them; m1 keeps 3; until 2026-01-01T00:10:00Z"
    );
    let moved = input(
        "Divided",
        &[("m1", None, Some((3, 3))), ("m2", Some(4), Some((4, 4)))],
    );
    let migration = observe(&moved, &deployment(4), NOW);
    assert_eq!(migration.leaving("m1"), Leaving::Delete);
    assert_eq!(migration.wait, None);
}

#[test]
fn a_copy_stays_as_it_is_until_another_copy_is_healthy() {
    for (ready, expected) in [(3, Leaving::Keep), (4, Leaving::Delete)] {
        let moving = input(
            "Duplicated",
            &[
                ("m1", None, Some((4, 4))),
                ("m2", Some(4), Some((4, ready))),
            ],
        );
        let migration = observe(&moving, &deployment(4), NOW);
        assert_eq!(migration.leaving("m1"), expected, "{ready} ready");
        assert_eq!(migration.replicas("m2", 4), Some(4));
    }
}

#[test]
fn an_old_copy_stays_until_the_scheduler_has_replaced_an_evicted_one() {
    let task = |cluster: &str| GracefulEvictionTask {
        from_cluster: cluster.to_owned(),
        ..GracefulEvictionTask::default()
    };
    // The workload moves from m2 to m3, and is then evicted from m3.
    let copies = [
        ("m1", Some(4), Some((4, 4))),
        ("m2", None, Some((4, 4))),
        ("m3", None, Some((4, 0))),
    ];
    for (about, tasks, observed, expected) in [
        ("undecided", vec![task("m3")], 1, Leaving::Keep),
        ("decided", vec![task("m3")], 2, Leaving::Delete),
        ("not evicted", vec![], 1, Leaving::Delete),
        (
            "the task keeps the copy",
            vec![task("m2"), task("m3")],
            1,
            Leaving::Delete,
        ),
    ] {
        let mut evicted = input("Duplicated", &copies);
        let binding = Arc::make_mut(&mut evicted.binding);
        binding.metadata.generation = Some(2);
        binding.status.scheduler_observed_generation = Some(observed);
        binding.spec.graceful_eviction_tasks = tasks;
        let migration = observe(&evicted, &deployment(4), NOW);
        assert_eq!(migration.leaving("m2"), expected, "{about}");
        let waits = expected == Leaving::Keep;
        assert_eq!(migration.wait.is_some(), waits, "{about}");
    }
}

#[test]
fn a_reduced_target_keeps_its_ready_replicas() {
    let moving = input(
        "Divided",
        &[("m1", Some(1), Some((4, 4))), ("m2", Some(3), None)],
    );
    let migration = observe(&moving, &deployment(4), NOW);
    assert_eq!(migration.replicas("m1", 1), Some(4));
    assert_eq!(migration.replicas("m2", 3), Some(3));
    assert_eq!(migration.wait.unwrap().kept, BTreeSet::new());
}

#[test]
fn the_deadline_counts_from_the_condition_and_leaves_the_last_copy() {
    let clusters = [("m1", None, Some((4, 4))), ("m2", Some(4), Some((4, 0)))];
    let mut moving = input("Divided", &clusters);
    let condition = json!([{ "type": "Migrating", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": NOW }]);
    Arc::get_mut(&mut moving.binding).unwrap().status.conditions =
        serde_json::from_value(condition).unwrap();
    let late = observe(&moving, &deployment(4), "2026-01-01T00:10:00Z");
    assert_eq!(late.leaving("m1"), Leaving::Keep);
    let wait = late.wait.unwrap();
    assert_eq!(
        (wait.until, wait.message.ends_with("the last healthy copy")),
        (None, true)
    );
    moving.works.insert("m2".to_owned(), vec![work("m2", 4, 1)]);
    let early = observe(&moving, &deployment(4), "2026-01-01T00:09:59Z");
    assert_eq!(early.leaving("m1"), Leaving::Reduce(3));
    let late = observe(&moving, &deployment(4), "2026-01-01T00:10:00Z");
    assert_eq!(late.leaving("m1"), Leaving::Delete);
    // A new decision starts a new wait.
    let decided = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("2026-01-01T00:05:00Z"));
    let binding = Arc::get_mut(&mut moving.binding).unwrap();
    binding.status.last_scheduled_time = Some(decided);
    let moved = observe(&moving, &deployment(4), "2026-01-01T00:10:00Z");
    assert_eq!(moved.leaving("m1"), Leaving::Reduce(3));
}

/// A thousand replicas are wanted, and two of them have room. The others wait before, during and after the move of these
/// two.
#[test]
fn replicas_that_wait_for_room_do_not_move() {
    let mut template = deployment(1000);
    template["metadata"]["annotations"][MAX_MOVING] = "1".into();
    let move_from_m1 = |in_m1: i32, in_m2: Option<(i32, i32)>, best_effort| {
        let mut moving = input(
            "Divided",
            &[("m1", None, Some((in_m1, in_m1))), ("m2", Some(2), in_m2)],
        );
        let binding = Arc::get_mut(&mut moving.binding).unwrap();
        binding.spec.replicas = 1000;
        binding.status.scheduler_observed_generation = Some(0);
        if best_effort {
            let limits = (
                REPLICA_LIMITS.to_owned(),
                r#"{"fit": "BestEffort"}"#.to_owned(),
            );
            binding.metadata.annotations = Some([limits].into());
        }
        let migration = observe(&moving, &template, NOW);
        let in_m2 = migration.replicas("m2", 2).unwrap_or(0);
        (migration.leaving("m1"), in_m2)
    };
    assert_eq!(move_from_m1(2, None, true), (Leaving::Keep, 1));
    assert_eq!(move_from_m1(2, Some((1, 1)), true), (Leaving::Reduce(1), 2));
    assert_eq!(move_from_m1(1, Some((2, 2)), true), (Leaving::Delete, 2));
    // Without the limits, 998 replicas are missing, and the scheduler has not placed them yet.
    assert_eq!(move_from_m1(1, Some((2, 2)), false), (Leaving::Keep, 2));
}

#[test]
fn a_best_effort_workload_that_is_evicted_keeps_its_old_replicas_until_the_decision() {
    let limits = (
        REPLICA_LIMITS.to_owned(),
        r#"{"fit": "BestEffort"}"#.to_owned(),
    );
    let mut evicted = input("Divided", &[("m2", Some(3), Some((3, 3)))]);
    let binding = Arc::get_mut(&mut evicted.binding).unwrap();
    binding.metadata.annotations = Some([limits].into());
    binding.metadata.generation = Some(2);
    binding.spec.replicas = 1000;
    let tasks = json!([{ "fromCluster": "m1", "replicas": 2, "reason": "R", "producer": "P" }]);
    binding.spec.graceful_eviction_tasks = serde_json::from_value(tasks).unwrap();
    assert_eq!(wanted_replicas(&evicted.binding, 3), 5);
    let binding = Arc::get_mut(&mut evicted.binding).unwrap();
    binding.status.scheduler_observed_generation = Some(2);
    assert_eq!(wanted_replicas(&evicted.binding, 3), 3);
}

#[test]
fn a_report_that_is_older_than_the_replicas_does_not_count() {
    let mut reversed = input(
        "Divided",
        &[("m1", Some(4), Some((4, 4))), ("m2", None, Some((4, 3)))],
    );
    reversed.unreported.insert("m1".to_owned(), 1);
    let migration = observe(&reversed, &deployment(4), NOW);
    assert_eq!(migration.leaving("m2"), Leaving::Reduce(3));
    // A member that has not noticed the changes reports nothing new.
    let condition = json!([{ "type": "Migrating", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": NOW }]);
    let binding = Arc::get_mut(&mut reversed.binding).unwrap();
    binding.status.conditions = serde_json::from_value(condition).unwrap();
    let mut template = deployment(4);
    template["metadata"]["annotations"][MAX_MOVING] = "1".into();
    for (now, expected) in [
        ("2026-01-01T00:09:59Z", Leaving::Reduce(3)),
        ("2026-01-01T00:10:00Z", Leaving::Delete),
    ] {
        let migration = observe(&reversed, &template, now);
        assert_eq!(migration.leaving("m2"), expected, "{now}");
    }
}

#[test]
fn a_preempted_copy_leaves_at_the_end_of_its_grace_period() {
    let mut victim = input("Divided", &[("m1", None, Some((4, 4)))]);
    let binding = Arc::get_mut(&mut victim.binding).unwrap();
    let task =
        json!([{ "fromCluster": "m1", "reason": PREEMPTED, "producer": "DefaultPreemption" }]);
    binding.spec.graceful_eviction_tasks = serde_json::from_value(task).unwrap();
    let wait = observe(&victim, &deployment(4), NOW).wait.unwrap();
    assert_eq!(wait.cause, Cause::Preemption);
    let binding = Arc::get_mut(&mut victim.binding).unwrap();
    binding.spec.graceful_eviction_tasks.clear();
    let condition = json!([{ "type": "Migrating", "status": "True", "reason": PREEMPTED, "message": "",
        "lastTransitionTime": NOW }]);
    binding.status.conditions = serde_json::from_value(condition).unwrap();
    let migration = observe(&victim, &deployment(4), NOW);
    assert_eq!(
        (migration.leaving("m1"), migration.wait),
        (Leaving::Delete, None)
    );
}

#[test]
fn jobs_and_objects_without_pods_do_not_wait() {
    let moving = input(
        "Divided",
        &[("m1", None, Some((4, 4))), ("m2", Some(4), None)],
    );
    let mut job = moving.clone();
    Arc::make_mut(&mut job.binding).spec.resource.api_version = "batch/v1".to_owned();
    Arc::make_mut(&mut job.binding).spec.resource.kind = "Job".to_owned();
    assert_eq!(observe(&job, &deployment(4), NOW), Migration::default());
    // A DaemonSet has no replicas, and waits as whole copies.
    let mut daemons = moving;
    let spec = &mut Arc::make_mut(&mut daemons.binding).spec;
    (spec.replicas, spec.resource.kind) = (0, "DaemonSet".to_owned());
    let migration = observe(&daemons, &deployment(4), NOW);
    assert_eq!(migration.leaving("m1"), Leaving::Keep);
    let mut config = input(
        "Duplicated",
        &[("m1", None, Some((4, 4))), ("m2", Some(0), None)],
    );
    Arc::get_mut(&mut config.binding).unwrap().spec.replicas = 0;
    let template = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
    assert_eq!(
        observe(&config, &template, NOW).leaving("m1"),
        Leaving::Delete
    );
}

#[test]
fn a_resource_stays_where_a_workload_needs_it() {
    let mut settings = input(
        "Duplicated",
        &[
            ("m1", None, Some((1, 1))),
            ("m2", None, Some((1, 1))),
            ("m3", Some(0), None),
        ],
    );
    let spec = &mut Arc::make_mut(&mut settings.binding).spec;
    (spec.replicas, spec.resource.kind) = (0, "ConfigMap".to_owned());
    settings.needed_in.insert("m1".to_owned());
    let migration = observe(&settings, &deployment(1), NOW);
    assert_eq!(migration.leaving("m1"), Leaving::Keep);
    assert_eq!(migration.leaving("m2"), Leaving::Delete);
    let wait = migration.wait.unwrap();
    assert_eq!((wait.cause, wait.until), (Cause::Workload, None));
    assert_eq!(wait.kept, BTreeSet::from(["m1".to_owned()]));
}

#[test]
fn a_copy_leaves_a_cluster_that_a_person_has_deselected() {
    let mut nowhere = input("Divided", &[("m1", None, Some((4, 4)))]);
    assert_eq!(
        observe(&nowhere, &deployment(4), NOW).leaving("m1"),
        Leaving::Keep
    );
    nowhere.deselected.insert("m1".to_owned());
    assert_eq!(
        observe(&nowhere, &deployment(4), NOW).leaving("m1"),
        Leaving::Delete
    );
    let mut moves = input(
        "Divided",
        &[("m1", None, Some((4, 4))), ("m2", Some(4), None)],
    );
    moves.deselected.insert("m1".to_owned());
    assert_eq!(
        observe(&moves, &deployment(4), NOW).leaving("m1"),
        Leaving::Keep
    );
}

#[test]
fn the_grace_period_of_the_policy_takes_precedence() {
    let mut moving = input(
        "Divided",
        &[("m1", None, Some((4, 4))), ("m2", Some(4), None)],
    );
    let failover = json!({ "application": { "decisionConditions": {}, "gracePeriodSeconds": 30 } });
    let spec = &mut Arc::make_mut(&mut moving.binding).spec;
    spec.failover = serde_json::from_value(failover).unwrap();
    let wait = observe(&moving, &deployment(4), NOW).wait.unwrap();
    assert_eq!(wait.until, Some(at("2026-01-01T00:00:30Z")));
}

#[test]
fn a_limit_is_a_number_or_a_percentage() {
    let template = |surge: &str| json!({ "metadata": { "annotations": { MAX_SURGE: surge } } });
    let mut binding = Binding::clone(&input("Divided", &[]).binding);
    for (text, expected) in [
        ("0", Some(0)),
        ("3", Some(3)),
        ("25%", Some(3)),
        ("0%", Some(0)),
        ("many", None),
        ("-1", None),
    ] {
        let found = limit(&binding, &template(text), MAX_SURGE, 9);
        assert_eq!(found, expected, "{text}");
    }
    assert_eq!(limit(&binding, &json!({}), MAX_SURGE, 9), None);
    let of_policy = (MAX_SURGE.to_owned(), "2".to_owned());
    binding.metadata.annotations = Some([of_policy].into());
    assert_eq!(limit(&binding, &json!({}), MAX_SURGE, 9), Some(2));
    assert_eq!(limit(&binding, &template("1"), MAX_SURGE, 9), Some(1));
}

#[test]
fn without_room_a_target_gets_no_work_yet() {
    let moving = input(
        "Divided",
        &[("m1", None, Some((4, 4))), ("m2", Some(4), None)],
    );
    let mut template = deployment(4);
    template["metadata"]["annotations"] = json!({ MAX_SURGE: "0" });
    let migration = observe(&moving, &template, NOW);
    assert_eq!(migration.leaving("m1"), Leaving::Delete);
    assert_eq!(migration.replicas("m2", 4), None);
    let wait = migration.wait.unwrap();
    assert!(
        wait.message
            .ends_with("m2 wait for room; until 2026-01-01T00:10:00Z"),
        "{}",
        wait.message
    );
}

#[test]
fn with_a_limit_on_the_surge_a_copy_that_is_evicted_makes_room() {
    let with_surge = |surge: &str| {
        let mut template = deployment(4);
        template["metadata"]["annotations"][MAX_SURGE] = surge.into();
        template
    };
    let task = |more: Value| {
        let mut task = json!({ "fromCluster": "m1", "reason": "R", "producer": "p" });
        task.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        task
    };
    let kept = json!({ "suppressDeletion": true });
    let preempted = json!({ "reason": PREEMPTED });
    for (about, template, target, more, expected) in [
        ("no limit", deployment(4), Some(4), json!({}), true),
        ("a limit", with_surge("0"), Some(4), json!({}), false),
        ("no cluster fits", with_surge("0"), None, json!({}), true),
        ("kept by a user", with_surge("1"), Some(4), kept, true),
        ("preempted", with_surge("1"), Some(4), preempted, true),
    ] {
        let mut evicted = input(
            "Divided",
            &[("m1", None, Some((4, 4))), ("m2", target, None)],
        );
        let binding = Arc::get_mut(&mut evicted.binding).unwrap();
        binding.spec.graceful_eviction_tasks = serde_json::from_value(json!([task(more)])).unwrap();
        let migration = observe(&evicted, &template, NOW);
        let found = migration.expected_clusters(&evicted.binding.spec);
        assert_eq!(found.contains("m1"), expected, "{about}");
        assert_eq!(found.contains("m2"), target.is_some(), "{about}");
    }
}

#[test]
fn old_replicas_stay_for_replicas_that_are_not_placed_yet() {
    // The scheduler has moved the replicas from m1 to m2 and m3, and m3 has been evicted since.
    let moving = input(
        "Divided",
        &[("m1", None, Some((2, 2))), ("m2", Some(2), Some((2, 2)))],
    );
    let migration = observe(&moving, &deployment(4), NOW);
    assert_eq!(migration.leaving("m1"), Leaving::Keep);
}

#[test]
fn with_a_limit_on_the_surge_an_evicted_copy_stays_until_a_new_copy_needs_its_room() {
    let mut template = deployment(4);
    template["metadata"]["annotations"][MAX_SURGE] = "0".into();
    let task = json!([{ "fromCluster": "m0", "reason": "R", "producer": "p" }]);
    for (about, new, stays) in [("not placed yet", None, true), ("placed", Some(4), false)] {
        let mut evicted = input(
            "Duplicated",
            &[
                ("m0", None, Some((4, 4))),
                ("m1", Some(4), Some((4, 4))),
                ("m2", new, None),
            ],
        );
        let binding = Arc::get_mut(&mut evicted.binding).unwrap();
        binding.spec.graceful_eviction_tasks = serde_json::from_value(task.clone()).unwrap();
        let migration = observe(&evicted, &template, NOW);
        let expected = migration.expected_clusters(&evicted.binding.spec);
        assert_eq!(expected.contains("m0"), stays, "{about}");
    }
}
