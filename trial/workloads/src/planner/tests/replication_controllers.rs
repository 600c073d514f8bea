//! Tests of ReplicationControllers and their pods.

use k8s_openapi::api::core::v1::ReplicationController;
use serde_json::json;

use super::{Cluster, from};

fn controller(cluster: &Cluster) -> ReplicationController {
    let mut all = cluster.cache.replication_controllers.iter();
    all.next().unwrap().clone()
}

#[test]
fn replication_controller_behaves_like_a_replica_set() {
    let mut cluster = Cluster::with_nodes(2, "8");
    let metadata = cluster.metadata("web");
    cluster.cache.replication_controllers.put(from(json!({
        "metadata": metadata,
        "spec": {"replicas": 3, "selector": {"app": "web"}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]}}},
    })));
    cluster.advance_until_idle();
    let status = controller(&cluster).status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas), (3, Some(3)));
    assert_eq!(status.observed_generation, Some(1));
    for pod in cluster.cache.pods.iter() {
        let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(owner.kind, "ReplicationController");
        assert_eq!(
            pod.status.as_ref().unwrap().phase.as_deref(),
            Some("Running")
        );
    }
    let mut smaller = controller(&cluster);
    smaller.spec.as_mut().unwrap().replicas = Some(1);
    cluster.cache.replication_controllers.put(smaller);
    cluster.advance_until_idle();
    assert_eq!(controller(&cluster).status.unwrap().replicas, 1);
    assert_eq!(cluster.cache.pods.iter().count(), 1);
}
