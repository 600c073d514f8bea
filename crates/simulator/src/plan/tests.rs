//! Scenarios with a cache in place of a server.

mod batch;
mod budgets;
mod load_balancers;
mod replication_controllers;
mod services;
mod storage;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::plan;
use crate::action::Action;
use crate::agenda::Agenda;
use crate::controlled;
use crate::deployments::REVISION;
use crate::scope::Scope;
use crate::world::{Key, World, key};

/// A cluster with a manual clock.
struct Cluster {
    world: World,
    agenda: Agenda,
    now: jiff::Timestamp,
    made: u32,
}

fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

impl Cluster {
    fn with_nodes(count: usize, cpu: &str) -> Self {
        let mut world = World::default();
        for number in 1..=count {
            let name = format!("n{number}");
            world.nodes.put(from(json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": format!("172.18.0.{number}")}],
                    "allocatable": {"cpu": cpu, "pods": "10"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })));
        }
        Self {
            world,
            agenda: Agenda::new(),
            now: jiff::Timestamp::from_second(1_000_000).unwrap(),
            made: 0,
        }
    }

    fn metadata(&mut self, name: &str) -> Value {
        self.made += 1;
        json!({"name": name, "namespace": "default", "uid": format!("uid-{}", self.made), "generation": 1})
    }

    fn identify(
        &mut self,
        metadata: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    ) {
        self.made += 1;
        metadata.uid = Some(format!("uid-{}", self.made));
        metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            self.now,
        ));
    }

    /// Plans and applies actions until there are none left. Returns the time of the next planning.
    fn settle(&mut self) -> Option<jiff::Timestamp> {
        for _ in 0..100 {
            let actions = self.agenda.next(&mut self.world, self.now);
            if actions.is_empty() {
                // Planning all objects must find nothing more.
                let all = plan(&self.world, &Scope::all(), self.now);
                assert_eq!(all.actions, []);
                return self.agenda.wake();
            }
            for action in actions {
                self.act(action);
            }
        }
        let actions = self.agenda.next(&mut self.world, self.now);
        panic!("it never ends: {actions:?}");
    }

    /// Advances the clock until there is nothing to wait for.
    fn rest(&mut self) {
        while let Some(wake) = self.settle() {
            assert!(wake > self.now, "it waits for the past");
            self.now = wake;
        }
    }

    fn act(&mut self, action: Action) {
        let world = &mut self.world;
        match action {
            Action::CreatePod(mut pod) => {
                self.identify(&mut pod.metadata);
                assert!(self.world.pods.get(&key(&*pod)).is_none(), "made twice");
                self.world.pods.put(*pod);
            }
            Action::DeletePod(key) => world.pods.remove(&key),
            Action::Bind(key, node) => {
                let mut pod = world.pods.get(&key).unwrap().clone();
                pod.spec.as_mut().unwrap().node_name = Some(node);
                world.pods.put(pod);
            }
            Action::CreateReplicaSet(mut set) => {
                self.identify(&mut set.metadata);
                self.world.replica_sets.put(*set);
            }
            Action::Scale(key, replicas) => {
                let mut set = world.replica_sets.get(&key).unwrap().clone();
                set.spec.as_mut().unwrap().replicas = Some(replicas);
                world.replica_sets.put(set);
            }
            Action::Revise(key, revision) => {
                let mut set = world.replica_sets.get(&key).unwrap().clone();
                let annotations = set.metadata.annotations.get_or_insert_default();
                annotations.insert(REVISION.to_owned(), revision.to_string());
                world.replica_sets.put(set);
            }
            Action::DeleteReplicaSet(key) => world.replica_sets.remove(&key),
            Action::CreateJob(mut job) => {
                self.identify(&mut job.metadata);
                assert!(self.world.jobs.get(&key(&*job)).is_none(), "made twice");
                self.world.jobs.put(*job);
            }
            Action::DeleteJob(key) => world.jobs.remove(&key),
            Action::CreateClaim(mut claim) => {
                self.identify(&mut claim.metadata);
                assert!(self.world.claims.get(&key(&*claim)).is_none(), "made twice");
                self.world.claims.put(*claim);
            }
            Action::DeleteClaim(key) => world.claims.remove(&key),
            Action::CreateSlice(mut slice) => {
                self.identify(&mut slice.metadata);
                assert!(self.world.slices.get(&key(&*slice)).is_none(), "made twice");
                self.world.slices.put(*slice);
            }
            Action::ReplaceSlice(slice) => world.slices.put(*slice),
            Action::DeleteSlice(key) => world.slices.remove(&key),
            Action::PodStatus(object) => world.pods.put(*object),
            Action::DeploymentStatus(object) => world.deployments.put(*object),
            Action::ReplicaSetStatus(object) => world.replica_sets.put(*object),
            Action::ReplicationControllerStatus(object) => {
                world.replication_controllers.put(*object);
            }
            Action::StatefulSetStatus(object) => world.stateful_sets.put(*object),
            Action::DaemonSetStatus(object) => world.daemon_sets.put(*object),
            Action::JobStatus(object) => world.jobs.put(*object),
            Action::CronJobStatus(object) => world.cron_jobs.put(*object),
            Action::GiveVolume(key, volume) => {
                let mut claim = world.claims.get(&key).unwrap().clone();
                claim.spec.as_mut().unwrap().volume_name = Some(volume);
                world.claims.put(claim);
            }
            Action::ClaimStatus(object) => world.claims.put(*object),
            Action::BudgetStatus(object) => world.budgets.put(*object),
            Action::ServiceStatus(object) => world.services.put(*object),
            Action::IngressStatus(object) => world.ingresses.put(*object),
        }
    }

    /// Returns the pods of an app as `node phase`, with a mark for ready ones.
    fn pods(&self, app: &str) -> Vec<String> {
        let mut pods: Vec<String> = self
            .world
            .pods
            .iter()
            .filter(|pod| pod.labels().get("app").is_some_and(|label| label == app))
            .map(|pod| {
                let node = controlled::node(pod).unwrap_or("-");
                let ready = if controlled::is_ready(pod) {
                    " ready"
                } else {
                    ""
                };
                format!("{node} {}{ready}", controlled::phase(pod))
            })
            .collect();
        pods.sort();
        pods
    }
}

fn place(name: &str) -> Key {
    ("default".to_owned(), name.to_owned())
}

fn template(app: &str, cpu: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"restartPolicy": "Always",
        "containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}]}})
}

fn deployment(cluster: &mut Cluster, name: &str, replicas: i32, cpu: &str) {
    let metadata = cluster.metadata(name);
    cluster.world.deployments.put(from(json!({
        "metadata": metadata,
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": template(name, cpu, "one")},
    })));
}

fn edit_deployment(cluster: &mut Cluster, name: &str, change: impl Fn(&mut Value)) {
    let deployment = cluster.world.deployments.get(&place(name)).unwrap();
    let mut value = serde_json::to_value(deployment).unwrap();
    change(&mut value);
    cluster.world.deployments.put(from(value));
}

#[test]
fn a_deployment_gets_pods_on_the_emptiest_nodes_and_they_become_ready() {
    let mut cluster = Cluster::with_nodes(2, "4");
    deployment(&mut cluster, "web", 4, "1");
    let wake = cluster.settle();
    assert_eq!(
        cluster.pods("web"),
        ["n1 Pending", "n1 Pending", "n2 Pending", "n2 Pending"]
    );
    assert!(wake.is_some());
    cluster.rest();
    let status = cluster
        .world
        .deployments
        .get(&place("web"))
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
fn what_has_no_room_waits_and_gets_the_room_that_others_leave() {
    let mut cluster = Cluster::with_nodes(2, "4");
    deployment(&mut cluster, "first", 2, "3");
    cluster.rest();
    deployment(&mut cluster, "second", 3, "2");
    cluster.rest();
    assert_eq!(
        cluster.pods("second"),
        ["- Pending", "- Pending", "- Pending"]
    );
    let waiting = cluster
        .world
        .pods
        .iter()
        .find(|pod| controlled::node(pod).is_none())
        .unwrap();
    let told = serde_json::to_string(&waiting.status).unwrap();
    assert!(
        told.contains("0/2 nodes are available: 2 Insufficient cpu."),
        "{told}"
    );

    edit_deployment(&mut cluster, "first", |d| d["spec"]["replicas"] = json!(1));
    cluster.rest();
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
fn a_rollout_never_gives_up_more_than_is_allowed_and_ends() {
    let mut cluster = Cluster::with_nodes(2, "8");
    deployment(&mut cluster, "web", 4, "1");
    cluster.rest();
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
    });
    let image = |pod: &Pod| {
        pod.spec.as_ref().unwrap().containers[0]
            .image
            .clone()
            .unwrap()
    };
    while let Some(wake) = cluster.settle() {
        let pods = cluster.pods("web");
        let ready = pods.iter().filter(|pod| pod.ends_with(" ready")).count();
        assert!(ready >= 3 && pods.len() <= 5, "{pods:?}");
        cluster.now = wake;
    }
    assert_eq!(cluster.pods("web").len(), 4);
    assert!(cluster.world.pods.iter().all(|pod| image(pod) == "two"));
    assert_eq!(
        cluster.world.replica_sets.iter().count(),
        2,
        "the former one is kept"
    );
}

#[test]
fn going_back_makes_the_former_template_the_newest() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    let mut history = Vec::new();
    for image in ["one", "two", "one"] {
        edit_deployment(&mut cluster, "web", |d| {
            d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        });
        cluster.rest();
        let sets = cluster.world.replica_sets.iter();
        let mut revisions: Vec<(String, i32)> = sets
            .map(|set| {
                let replicas = set.spec.as_ref().unwrap().replicas.unwrap();
                (set.annotations()[REVISION].clone(), replicas)
            })
            .collect();
        revisions.sort();
        history.push(revisions);
    }
    let place = |revision: &str, replicas| (revision.to_owned(), replicas);
    assert_eq!(history[1], [place("1", 0), place("2", 1)]);
    assert_eq!(history[2], [place("2", 0), place("3", 1)]);
}

#[test]
fn a_new_template_that_fails_leaves_the_old_pods() {
    let mut cluster = Cluster::with_nodes(2, "8");
    deployment(&mut cluster, "web", 4, "1");
    cluster.rest();
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["metadata"]["annotations"] =
            json!({"simulation.berth/fails": "pull"});
    });
    cluster.rest();
    let pods = cluster.pods("web");
    assert_eq!(
        pods.iter().filter(|pod| pod.ends_with(" ready")).count(),
        3,
        "{pods:?}"
    );
    let deployment = cluster.world.deployments.get(&place("web")).unwrap();
    let status = deployment.status.clone().unwrap();
    assert_eq!(status.unavailable_replicas, Some(2), "{status:?}");
}

#[test]
fn wishes_of_the_workload_count_and_can_be_taken_back() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({"simulation.berth/start-delay": "30s"});
    });
    let start = cluster.now;
    cluster.rest();
    assert!(cluster.now.duration_since(start).as_secs() >= 30);
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({"simulation.berth/fails": "crash"});
    });
    cluster.settle();
    assert_eq!(cluster.pods("web"), ["n1 Running"]);
    let told = serde_json::to_string(&cluster.world.pods.iter().next().unwrap().status).unwrap();
    assert!(told.contains("CrashLoopBackOff"), "{told}");
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({});
    });
    cluster.rest();
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
}

#[test]
fn what_crashes_is_started_again_less_and_less_often() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({"simulation.berth/fails": "crash"});
    });
    let mut crashes = Vec::new();
    let mut restarts = 0;
    while crashes.len() < 9 {
        let wake = cluster.settle().unwrap();
        let pod = cluster.world.pods.iter().next().unwrap();
        let status = pod.status.as_ref().unwrap();
        let now = status.container_statuses.as_ref().unwrap()[0].restart_count;
        if now > restarts {
            assert_eq!(now, restarts + 1);
            restarts = now;
            crashes.push(cluster.now.as_second());
        }
        cluster.now = wake;
    }
    let pauses: Vec<i64> = crashes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn containers_for_debugging_run() {
    let mut cluster = Cluster::with_nodes(1, "8");
    deployment(&mut cluster, "web", 1, "1");
    cluster.rest();
    let mut pod = cluster.world.pods.iter().next().unwrap().clone();
    pod.spec.as_mut().unwrap().ephemeral_containers =
        from(json!([{"name": "debugger", "image": "busybox"}]));
    cluster.world.pods.put(pod);
    cluster.rest();
    let pod = cluster.world.pods.iter().next().unwrap();
    let told = &pod.status.as_ref().unwrap().ephemeral_container_statuses;
    let told = serde_json::to_value(told).unwrap();
    assert_eq!(told[0]["name"], "debugger");
    assert!(told[0]["state"]["running"].is_object(), "{told}");
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
}

#[test]
fn a_stateful_set_goes_one_by_one_and_back() {
    let mut cluster = Cluster::with_nodes(1, "8");
    let metadata = cluster.metadata("db");
    let set = |metadata: &Value, replicas: i32, image: &str| {
        from(
            json!({"metadata": metadata, "spec": {"replicas": replicas, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "1", image)}}),
        )
    };
    cluster.world.stateful_sets.put(set(&metadata, 3, "one"));
    cluster.settle();
    assert_eq!(
        cluster.pods("db").len(),
        1,
        "the second waits for the first"
    );
    cluster.rest();
    let names = |cluster: &Cluster| -> Vec<String> {
        cluster
            .world
            .pods
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect()
    };
    assert_eq!(names(&cluster), ["db-0", "db-1", "db-2"]);
    let status = cluster
        .world
        .stateful_sets
        .get(&place("db"))
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(
        (status.ready_replicas, status.updated_replicas),
        (Some(3), Some(3))
    );

    cluster.world.stateful_sets.put(set(&metadata, 2, "two"));
    cluster.rest();
    assert_eq!(names(&cluster), ["db-0", "db-1"]);
    let images: Vec<_> = cluster
        .world
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
fn a_daemon_set_has_a_pod_on_each_node_that_is_there() {
    let mut cluster = Cluster::with_nodes(3, "8");
    let metadata = cluster.metadata("agent");
    cluster.world.daemon_sets.put(from(json!({"metadata": metadata, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "1", "one")}})));
    cluster.rest();
    let all = ["n1 Running ready", "n2 Running ready", "n3 Running ready"];
    assert_eq!(cluster.pods("agent"), all);
    cluster
        .world
        .nodes
        .remove(&(String::new(), "n2".to_owned()));
    cluster.rest();
    assert_eq!(
        cluster.pods("agent"),
        ["n1 Running ready", "n3 Running ready"]
    );
    let status = cluster
        .world
        .daemon_sets
        .get(&place("agent"))
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
fn a_pod_names_the_address_of_its_node() {
    let mut cluster = Cluster::with_nodes(1, "4");
    deployment(&mut cluster, "web", 1, "1");
    cluster.rest();
    let pod = cluster.world.pods.iter().next().unwrap();
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.host_ip.as_deref(), Some("172.18.0.1"));
    assert_eq!(status.host_ips.as_ref().unwrap()[0].ip, "172.18.0.1");
}
