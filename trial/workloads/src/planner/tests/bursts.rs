use k8s_openapi::api::core::v1::ReplicationController;

use super::*;
use crate::owned_pods::{MAX_BURST, MAX_PODS};

fn created(planned: &[ObjectPlan]) -> usize {
    let created = |action: &&Action| matches!(action, Action::CreatePod(_));
    let actions = planned.iter().flat_map(|object| &object.actions);
    actions.filter(created).count()
}

fn workloads(cluster: &mut Cluster) {
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": i32::MAX, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let metadata = cluster.metadata("set");
    cluster
        .cache
        .replica_sets
        .put(from(json!({"metadata": metadata, "spec": spec})));
    let metadata = cluster.metadata("controller");
    let spec_of_controller = json!({"replicas": i32::MAX, "template": template});
    let controller: ReplicationController =
        from(json!({"metadata": metadata, "spec": spec_of_controller}));
    cluster.cache.replication_controllers.put(controller);
    let metadata = cluster.metadata("stateful");
    let mut parallel = spec;
    parallel["podManagementPolicy"] = json!("Parallel");
    parallel["serviceName"] = json!("s");
    cluster
        .cache
        .stateful_sets
        .put(from(json!({"metadata": metadata, "spec": parallel})));
    let metadata = cluster.metadata("job");
    let spec = json!({"parallelism": i32::MAX, "completions": i32::MAX,
        "completionMode": "Indexed", "template": template});
    cluster
        .cache
        .jobs
        .put(from(json!({"metadata": metadata, "spec": spec})));
}

#[test]
fn pods_are_created_in_bursts_which_end_with_the_workload() {
    let mut cluster = Cluster::with_nodes(0, "1");
    workloads(&mut cluster);
    let planned = cluster.due();
    assert_eq!(created(&planned), MAX_BURST);
    for object in planned {
        cluster.execute_all(object);
    }
    for name in ["set", "controller", "stateful", "job"] {
        let key = ("default".to_owned(), name.to_owned());
        cluster.cache.replica_sets.remove(&key);
        cluster.cache.replication_controllers.remove(&key);
        cluster.cache.stateful_sets.remove(&key);
        cluster.cache.jobs.remove(&key);
    }
    assert_eq!(created(&cluster.due()), 0);
}

#[test]
fn a_full_cluster_gets_no_more_pods_and_says_so() {
    let mut cluster = Cluster::with_nodes(0, "1");
    for number in 0..MAX_PODS - 10 {
        cluster.cache.pods.put(from(json!({"metadata": {"name": format!("other-{number}"),
            "namespace": "default", "uid": format!("other-{number}")}, "status": {"phase": "Succeeded"}})));
    }
    workloads(&mut cluster);
    let mut refused = Vec::new();
    loop {
        let planned = cluster.due();
        for owner in cluster.schedule.take_refused() {
            assert!(crate::events::pods_refused(&owner).is_some());
            refused.push(owner.kind.unwrap());
        }
        if planned.is_empty() {
            break;
        }
        for object in planned {
            cluster.execute_all(object);
        }
    }
    assert_eq!(cluster.cache.pods.iter().count(), MAX_PODS);
    refused.sort();
    refused.dedup();
    assert_eq!(
        refused,
        ["Job", "ReplicaSet", "ReplicationController", "StatefulSet"]
    );
    assert!(cluster.schedule.next_time() > Some(cluster.now));
}
