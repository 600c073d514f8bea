//! Tests of the planner. A cache replaces the API server.

mod autoscalers;
mod batch;
mod bursts;
mod deadlines;
mod disruption_budgets;
mod init_containers;
mod load_balancers;
mod refusals;
mod replication_controllers;
mod services;
mod storage;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::plan;
use crate::action::{Action, REVISION, Workload};
use crate::cache::{Cache, Key, key};
use crate::image_registry::ImageRegistry;
use crate::owned_pods;
use crate::plan::ObjectPlan;
use crate::retries::Refusal;
use crate::scope::Scope;
use crate::work_schedule::WorkSchedule;

/// A cluster with a cache and a clock that the test advances.
struct Cluster {
    cache: Cache,
    images: ImageRegistry,
    schedule: WorkSchedule,
    now: jiff::Timestamp,
    last_uid: u32,
    /// The message with which the server refuses new pods.
    refuses_pods: Option<&'static str>,
    /// The times of refused pods.
    refused: Vec<jiff::Timestamp>,
}

fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

impl Cluster {
    fn with_nodes(count: usize, cpu: &str) -> Self {
        let mut cache = Cache::default();
        for number in 1..=count {
            let name = format!("n{number}");
            cache.nodes.put(from(json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": format!("172.18.0.{number}")}],
                    "allocatable": {"cpu": cpu, "pods": "10"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })));
        }
        Self {
            cache,
            images: ImageRegistry::default(),
            schedule: WorkSchedule::new(ImageRegistry::default()),
            now: jiff::Timestamp::from_second(1_000_000).unwrap(),
            last_uid: 0,
            refuses_pods: None,
            refused: Vec::new(),
        }
    }

    /// Removes the images that match a pattern from the registry.
    fn without_images(mut self, pattern: &str) -> Self {
        self.images = ImageRegistry::without(pattern.parse().unwrap());
        self.schedule = WorkSchedule::new(self.images.clone());
        self
    }

    fn metadata(&mut self, name: &str) -> Value {
        self.last_uid += 1;
        json!({"name": name, "namespace": "default", "uid": format!("uid-{}", self.last_uid), "generation": 1})
    }

    fn identify(
        &mut self,
        metadata: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    ) {
        self.last_uid += 1;
        metadata.uid = Some(format!("uid-{}", self.last_uid));
        metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            self.now,
        ));
    }

    /// Plans and executes actions until no action is left. Returns the time of the next planning.
    fn plan_until_idle(&mut self) -> Option<jiff::Timestamp> {
        for _ in 0..100 {
            let planned = self.due();
            if planned.is_empty() {
                // The planning of all objects must find no further action.
                let mut all =
                    plan(&self.cache, &Scope::all(), &self.images, self.now).into_objects();
                for object in &mut all {
                    self.cache.retries.hold_back(object, self.now);
                }
                all.retain(|object| !object.actions.is_empty());
                assert_eq!(all, []);
                return self.schedule.next_time();
            }
            for object in planned {
                self.execute_all(object);
            }
        }
        let planned = self.due();
        panic!("the actions never end: {planned:?}");
    }

    /// Plans the objects that are due, and returns the objects with actions.
    fn due(&mut self) -> Vec<ObjectPlan> {
        let mut planned = self.schedule.next(&mut self.cache, self.now, |_| false);
        for object in &mut planned {
            if let Some(at) = self.cache.retries.hold_back(object, self.now) {
                self.schedule.add_at(at, object.uid.clone());
            }
        }
        planned.retain(|object| !object.actions.is_empty());
        planned
    }

    /// Executes the actions of an object. New pods are refused if `refuses_pods` is set.
    fn execute_all(&mut self, mut object: ObjectPlan) {
        let actions = std::mem::take(&mut object.actions);
        let uid = object.uid.clone();
        let mut refused = None;
        for action in actions {
            if let Action::CreatePod(_) = action
                && let Some(message) = self.refuses_pods
            {
                refused = Some(Refusal {
                    reason: "FailedCreate",
                    message: message.to_owned(),
                });
                self.refused.push(self.now);
                break;
            }
            self.execute(action);
        }
        if refused.is_some() {
            self.cache.retries.failed(&object, false, refused, self.now);
        } else {
            self.cache.retries.succeeded(&uid, self.now);
        }
        self.schedule.add(uid);
    }

    /// Advances the clock until no planning is scheduled.
    fn advance_until_idle(&mut self) {
        while let Some(next) = self.plan_until_idle() {
            assert!(next > self.now, "the next planning is in the past");
            self.now = next;
        }
    }

    fn execute(&mut self, action: Action) {
        let cache = &mut self.cache;
        match action {
            Action::CreatePod(mut pod) => {
                self.identify(&mut pod.metadata);
                assert!(
                    self.cache.pods.get(&key(&*pod)).is_none(),
                    "it already exists"
                );
                self.cache.pods.put(*pod);
            }
            Action::DeletePod(key) => cache.pods.remove(&key),
            Action::Bind(key, node) => {
                let mut pod = cache.pods.get(&key).unwrap().clone();
                pod.spec.as_mut().unwrap().node_name = Some(node);
                cache.pods.put(pod);
            }
            Action::CreateReplicaSet(mut set) => {
                self.identify(&mut set.metadata);
                self.cache.replica_sets.put(*set);
            }
            Action::Scale(key, replicas) => {
                let mut set = cache.replica_sets.get(&key).unwrap().clone();
                set.spec.as_mut().unwrap().replicas = Some(replicas);
                cache.replica_sets.put(set);
            }
            Action::ScaleWorkload(Workload::Deployment, key, replicas) => {
                let mut deployment = cache.deployments.get(&key).unwrap().clone();
                deployment.spec.as_mut().unwrap().replicas = Some(replicas);
                cache.deployments.put(deployment);
            }
            Action::ScaleWorkload(workload, key, _) => panic!("scales {workload:?} {key:?}"),
            Action::Revise(key, revision) => {
                let mut set = cache.replica_sets.get(&key).unwrap().clone();
                let annotations = set.metadata.annotations.get_or_insert_default();
                annotations.insert(REVISION.to_owned(), revision.to_string());
                cache.replica_sets.put(set);
            }
            Action::DeleteReplicaSet(key) => cache.replica_sets.remove(&key),
            Action::CreateJob(mut job) => {
                self.identify(&mut job.metadata);
                assert!(
                    self.cache.jobs.get(&key(&*job)).is_none(),
                    "it already exists"
                );
                self.cache.jobs.put(*job);
            }
            Action::DeleteJob(key) => cache.jobs.remove(&key),
            Action::CreateClaim(mut claim, _, _) => {
                self.identify(&mut claim.metadata);
                assert!(
                    self.cache.claims.get(&key(&*claim)).is_none(),
                    "it already exists"
                );
                self.cache.claims.put(*claim);
            }
            Action::DeleteClaim(key) => cache.claims.remove(&key),
            Action::CreateSlice(mut slice) => {
                self.identify(&mut slice.metadata);
                assert!(
                    self.cache.slices.get(&key(&*slice)).is_none(),
                    "it already exists"
                );
                self.cache.slices.put(*slice);
            }
            Action::ReplaceSlice(slice) => cache.slices.put(*slice),
            Action::DeleteSlice(key) => cache.slices.remove(&key),
            Action::PodStatus(object) => cache.pods.put(*object),
            Action::DeploymentStatus(object) => cache.deployments.put(*object),
            Action::ReplicaSetStatus(object) => cache.replica_sets.put(*object),
            Action::ReplicationControllerStatus(object) => {
                cache.replication_controllers.put(*object);
            }
            Action::StatefulSetStatus(object) => cache.stateful_sets.put(*object),
            Action::DaemonSetStatus(object) => cache.daemon_sets.put(*object),
            Action::JobStatus(object) => cache.jobs.put(*object),
            Action::CronJobStatus(object) => cache.cron_jobs.put(*object),
            Action::BindClaim(key, volume) => {
                let mut claim = cache.claims.get(&key).unwrap().clone();
                claim.spec.as_mut().unwrap().volume_name = Some(volume);
                cache.claims.put(claim);
            }
            Action::ClaimStatus(object) => cache.claims.put(*object),
            Action::AutoscalerStatus(object) => cache.autoscalers.put(*object),
            Action::BudgetStatus(object) => cache.budgets.put(*object),
            Action::ServiceStatus(object) => cache.services.put(*object),
            Action::IngressStatus(object) => cache.ingresses.put(*object),
        }
    }

    /// Returns the pods of an app in the form `NODE PHASE`, followed by `ready` for ready pods.
    fn pods(&self, app: &str) -> Vec<String> {
        let mut pods: Vec<String> = self
            .cache
            .pods
            .iter()
            .filter(|pod| pod.labels().get("app").is_some_and(|label| label == app))
            .map(|pod| {
                let node = owned_pods::node(pod).unwrap_or("-");
                let ready = if owned_pods::is_ready(pod) {
                    " ready"
                } else {
                    ""
                };
                format!("{node} {}{ready}", owned_pods::phase(pod))
            })
            .collect();
        pods.sort();
        pods
    }
}

/// Returns the key of an object in the namespace `default`.
fn default_key(name: &str) -> Key {
    ("default".to_owned(), name.to_owned())
}

fn template(app: &str, cpu: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"restartPolicy": "Always",
        "containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}]}})
}

fn deployment(cluster: &mut Cluster, name: &str, replicas: i32, cpu: &str) {
    let metadata = cluster.metadata(name);
    cluster.cache.deployments.put(from(json!({
        "metadata": metadata,
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": template(name, cpu, "one")},
    })));
}

fn edit_deployment(cluster: &mut Cluster, name: &str, change: impl Fn(&mut Value)) {
    let deployment = cluster.cache.deployments.get(&default_key(name)).unwrap();
    let mut value = serde_json::to_value(deployment).unwrap();
    change(&mut value);
    cluster.cache.deployments.put(from(value));
}

#[test]
fn deployment_gets_ready_pods_on_the_emptiest_nodes() {
    let mut cluster = Cluster::with_nodes(2, "4");
    deployment(&mut cluster, "web", 4, "1");
    let next = cluster.plan_until_idle();
    assert_eq!(
        cluster.pods("web"),
        ["n1 Pending", "n1 Pending", "n2 Pending", "n2 Pending"]
    );
    assert!(next.is_some());
    cluster.advance_until_idle();
    let status = cluster
        .cache
        .deployments
        .get(&default_key("web"))
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(
        (status.ready_replicas, status.updated_replicas),
        (Some(4), Some(4))
    );
    assert_eq!(
        (status.unavailable_replicas, status.observed_generation),
        (None, Some(1))
    );
    assert!(
        status
            .conditions
            .unwrap()
            .iter()
            .all(|condition| condition.status == "True")
    );
}

#[test]
fn pending_pods_get_the_capacity_that_deleted_pods_free() {
    let mut cluster = Cluster::with_nodes(2, "4");
    deployment(&mut cluster, "first", 2, "3");
    cluster.advance_until_idle();
    deployment(&mut cluster, "second", 3, "2");
    cluster.advance_until_idle();
    assert_eq!(
        cluster.pods("second"),
        ["- Pending", "- Pending", "- Pending"]
    );
    let waiting = cluster
        .cache
        .pods
        .iter()
        .find(|pod| owned_pods::node(pod).is_none())
        .unwrap();
    let status = serde_json::to_string(&waiting.status).unwrap();
    assert!(
        status.contains("0/2 nodes are available: 2 Insufficient cpu."),
        "{status}"
    );

    edit_deployment(&mut cluster, "first", |d| d["spec"]["replicas"] = json!(1));
    cluster.advance_until_idle();
    assert_eq!(cluster.pods("first").len(), 1);
    let second = cluster.pods("second");
    assert_eq!(
        second
            .iter()
            .filter(|pod| pod.ends_with("Running ready"))
            .count(),
        2,
        "{second:?}"
    );
    assert_eq!(
        second.iter().filter(|pod| *pod == "- Pending").count(),
        1,
        "{second:?}"
    );
}

#[test]
fn rollout_stays_within_its_limits_and_completes() {
    let mut cluster = Cluster::with_nodes(2, "8");
    deployment(&mut cluster, "web", 4, "1");
    cluster.advance_until_idle();
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
    });
    let image = |pod: &Pod| {
        pod.spec.as_ref().unwrap().containers[0]
            .image
            .clone()
            .unwrap()
    };
    while let Some(next) = cluster.plan_until_idle() {
        let pods = cluster.pods("web");
        let ready = pods.iter().filter(|pod| pod.ends_with(" ready")).count();
        assert!(ready >= 3 && pods.len() <= 5, "{pods:?}");
        cluster.now = next;
    }
    assert_eq!(cluster.pods("web").len(), 4);
    assert!(cluster.cache.pods.iter().all(|pod| image(pod) == "two"));
    assert_eq!(
        cluster.cache.replica_sets.iter().count(),
        2,
        "the old ReplicaSet remains"
    );
}

#[test]
fn rollback_reuses_the_old_replica_set_as_latest_revision() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    let mut history = Vec::new();
    for image in ["one", "two", "one"] {
        edit_deployment(&mut cluster, "web", |d| {
            d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        });
        cluster.advance_until_idle();
        let sets = cluster.cache.replica_sets.iter();
        let mut revisions: Vec<(String, i32)> = sets
            .map(|set| {
                let replicas = set.spec.as_ref().unwrap().replicas.unwrap();
                (set.annotations()[REVISION].clone(), replicas)
            })
            .collect();
        revisions.sort();
        history.push(revisions);
    }
    let set = |revision: &str, replicas| (revision.to_owned(), replicas);
    assert_eq!(history[1], [set("1", 0), set("2", 1)]);
    assert_eq!(history[2], [set("2", 0), set("3", 1)]);
}

#[test]
fn failing_rollout_keeps_the_required_ready_pods() {
    let mut cluster = Cluster::with_nodes(2, "8");
    deployment(&mut cluster, "web", 4, "1");
    cluster.advance_until_idle();
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["metadata"]["annotations"] =
            json!({"simulation.berth/fails": "pull"});
    });
    cluster.advance_until_idle();
    let pods = cluster.pods("web");
    assert_eq!(
        pods.iter().filter(|pod| pod.ends_with(" ready")).count(),
        3,
        "{pods:?}"
    );
    let deployment = cluster.cache.deployments.get(&default_key("web")).unwrap();
    let status = deployment.status.clone().unwrap();
    assert_eq!(status.unavailable_replicas, Some(2), "{status:?}");
}

#[test]
fn a_container_with_a_missing_image_waits() {
    let mut cluster = Cluster::with_nodes(1, "8").without_images("^registry\\.invalid/");
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["spec"]["containers"] = json!([
            {"name": "app", "image": "registry.invalid/app"},
            {"name": "proxy", "image": "nginx"},
        ]);
    });
    cluster.advance_until_idle();
    assert_eq!(cluster.pods("web"), ["n1 Pending"]);
    let pod = cluster.cache.pods.iter().next().unwrap();
    let status = serde_json::to_value(&pod.status).unwrap();
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff", "{status}");
    let message = waiting["message"].as_str().unwrap();
    assert!(
        message.starts_with("Back-off pulling image \"registry.invalid/app\": ErrImagePull: "),
        "{message}"
    );
    assert_eq!(status["containerStatuses"][1]["ready"], true, "{status}");
    let deployment = cluster.cache.deployments.get(&default_key("web")).unwrap();
    let status = deployment.status.clone().unwrap();
    assert_eq!(status.unavailable_replicas, Some(1), "{status:?}");

    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app");
    });
    cluster.advance_until_idle();
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
}

#[test]
fn readiness_alternates_with_the_period_in_the_annotation() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({
            "simulation.berth/start-delay": "0s", "simulation.berth/readiness-flap": "20s"});
    });
    let mut states = Vec::new();
    for _ in 0..4 {
        let next = cluster.plan_until_idle().unwrap();
        let pods = cluster.pods("web");
        states.push((cluster.now.as_second() - 1_000_000, pods[0].clone()));
        cluster.now = next;
    }
    let expected = [
        (0, "n1 Running ready"),
        (20, "n1 Running"),
        (40, "n1 Running ready"),
        (60, "n1 Running"),
    ];
    assert_eq!(states, expected.map(|(at, state)| (at, state.to_owned())));
}

#[test]
fn workload_annotations_apply_and_can_be_removed() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({"simulation.berth/start-delay": "30s"});
    });
    let start = cluster.now;
    cluster.advance_until_idle();
    assert!(cluster.now.duration_since(start).as_secs() >= 30);
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({"simulation.berth/fails": "crash"});
    });
    cluster.plan_until_idle();
    assert_eq!(cluster.pods("web"), ["n1 Running"]);
    let status = serde_json::to_string(&cluster.cache.pods.iter().next().unwrap().status).unwrap();
    assert!(status.contains("CrashLoopBackOff"), "{status}");
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({});
    });
    cluster.advance_until_idle();
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
}

#[test]
fn crashing_containers_restart_with_back_off() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({"simulation.berth/fails": "crash"});
    });
    let mut crashes = Vec::new();
    let mut restarts = 0;
    while crashes.len() < 9 {
        let next = cluster.plan_until_idle().unwrap();
        let pod = cluster.cache.pods.iter().next().unwrap();
        let status = pod.status.as_ref().unwrap();
        let now = status.container_statuses.as_ref().unwrap()[0].restart_count;
        if now > restarts {
            assert_eq!(now, restarts + 1);
            restarts = now;
            crashes.push(cluster.now.as_second());
        }
        cluster.now = next;
    }
    let pauses: Vec<i64> = crashes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn debug_containers_run() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    cluster.advance_until_idle();
    let mut pod = cluster.cache.pods.iter().next().unwrap().clone();
    pod.spec.as_mut().unwrap().ephemeral_containers =
        from(json!([{"name": "debugger", "image": "busybox"}]));
    cluster.cache.pods.put(pod);
    cluster.advance_until_idle();
    let pod = cluster.cache.pods.iter().next().unwrap();
    let status = &pod.status.as_ref().unwrap().ephemeral_container_statuses;
    let status = serde_json::to_value(status).unwrap();
    assert_eq!(status[0]["name"], "debugger");
    assert!(status[0]["state"]["running"].is_object(), "{status}");
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
}

#[test]
fn stateful_set_scales_up_and_down_in_order() {
    let mut cluster = Cluster::with_nodes(1, "8");
    let metadata = cluster.metadata("db");
    let set = |metadata: &Value, replicas: i32, image: &str| {
        from(
            json!({"metadata": metadata, "spec": {"replicas": replicas, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "1", image)}}),
        )
    };
    cluster.cache.stateful_sets.put(set(&metadata, 3, "one"));
    cluster.plan_until_idle();
    assert_eq!(
        cluster.pods("db").len(),
        1,
        "the second waits for the first"
    );
    cluster.advance_until_idle();
    let names = |cluster: &Cluster| -> Vec<String> {
        cluster
            .cache
            .pods
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect()
    };
    assert_eq!(names(&cluster), ["db-0", "db-1", "db-2"]);
    let status = cluster
        .cache
        .stateful_sets
        .get(&default_key("db"))
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(
        (status.ready_replicas, status.updated_replicas),
        (Some(3), Some(3))
    );

    cluster.cache.stateful_sets.put(set(&metadata, 2, "two"));
    cluster.advance_until_idle();
    assert_eq!(names(&cluster), ["db-0", "db-1"]);
    let images: Vec<_> = cluster
        .cache
        .pods
        .iter()
        .map(|pod| {
            pod.spec.as_ref().unwrap().containers[0]
                .image
                .clone()
                .unwrap()
        })
        .collect();
    assert_eq!(images, ["two", "two"]);
}

#[test]
fn daemon_set_has_a_pod_on_each_node() {
    let mut cluster = Cluster::with_nodes(3, "8");
    let metadata = cluster.metadata("agent");
    cluster.cache.daemon_sets.put(from(json!({"metadata": metadata, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "1", "one")}})));
    cluster.advance_until_idle();
    let all = ["n1 Running ready", "n2 Running ready", "n3 Running ready"];
    assert_eq!(cluster.pods("agent"), all);
    cluster
        .cache
        .nodes
        .remove(&(String::new(), "n2".to_owned()));
    cluster.advance_until_idle();
    assert_eq!(
        cluster.pods("agent"),
        ["n1 Running ready", "n3 Running ready"]
    );
    let status = cluster
        .cache
        .daemon_sets
        .get(&default_key("agent"))
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(
        (status.desired_number_scheduled, status.number_ready),
        (2, 2)
    );
}

#[test]
fn pod_status_has_the_host_ip() {
    let mut cluster = Cluster::with_nodes(1, "4");
    deployment(&mut cluster, "web", 1, "1");
    cluster.advance_until_idle();
    let pod = cluster.cache.pods.iter().next().unwrap();
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.host_ip.as_deref(), Some("172.18.0.1"));
    assert_eq!(status.host_ips.as_ref().unwrap()[0].ip, "172.18.0.1");
}
