//! Tests of PersistentVolumeClaims, including the claims of StatefulSets.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Cluster, default_key, from};

#[test]
fn claim_gets_a_volume_of_the_requested_size() {
    let mut cluster = Cluster::with_nodes(1, "4");
    let metadata = cluster.metadata("data");
    let uid = metadata["uid"].as_str().unwrap().to_owned();
    cluster.cache.claims.put(from(json!({
        "metadata": metadata,
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    })));
    assert_eq!(cluster.plan_until_idle(), None);
    let claim = cluster.cache.claims.get(&default_key("data")).unwrap();
    let claim = serde_json::to_value(claim).unwrap();
    assert_eq!(claim["spec"]["volumeName"], format!("pvc-{uid}"));
    let bound =
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
    assert_eq!(claim["status"], bound);
}

/// Creates a StatefulSet with two pods. Each pod has a claim.
fn set(cluster: &mut Cluster, more: Value) {
    let metadata = cluster.metadata("db");
    let mut spec = json!({
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": super::template("db", "1", "one"),
        "volumeClaimTemplates": [{
            "metadata": {"name": "data", "labels": {"tier": "gold"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }],
    });
    let all = spec.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    let object = json!({"metadata": metadata, "spec": spec});
    cluster.cache.stateful_sets.put(from(object));
}

fn scale(cluster: &mut Cluster, replicas: i32) {
    let mut set = cluster
        .cache
        .stateful_sets
        .get(&default_key("db"))
        .unwrap()
        .clone();
    set.spec.as_mut().unwrap().replicas = Some(replicas);
    cluster.cache.stateful_sets.put(set);
    cluster.advance_until_idle();
}

fn claims(cluster: &Cluster) -> Vec<String> {
    let claims = cluster.cache.claims.iter();
    claims
        .map(|claim| {
            let phase = claim
                .status
                .as_ref()
                .and_then(|status| status.phase.clone());
            format!("{} {}", claim.name_any(), phase.unwrap_or_default())
        })
        .collect()
}

#[test]
fn stateful_set_claims_outlive_their_pods() {
    let mut cluster = Cluster::with_nodes(1, "8");
    set(&mut cluster, json!({}));
    cluster.advance_until_idle();
    assert_eq!(claims(&cluster), ["data-db-0 Bound", "data-db-1 Bound"]);
    let claim = cluster.cache.claims.get(&default_key("data-db-0")).unwrap();
    let labels = json!({"app": "db", "tier": "gold"});
    assert_eq!(serde_json::to_value(claim.labels()).unwrap(), labels);
    assert_eq!(claim.metadata.owner_references, None);
    let pod = cluster.cache.pods.get(&default_key("db-1")).unwrap();
    let volumes = serde_json::to_value(&pod.spec.as_ref().unwrap().volumes).unwrap();
    let mounted = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]);
    assert_eq!(volumes, mounted);

    let uid = claim.uid();
    scale(&mut cluster, 0);
    assert_eq!(claims(&cluster), ["data-db-0 Bound", "data-db-1 Bound"]);
    scale(&mut cluster, 1);
    let again = cluster.cache.claims.get(&default_key("data-db-0")).unwrap();
    assert_eq!(again.uid(), uid, "the pod gets the same claim again");
}

#[test]
fn claims_are_deleted_by_retention_policy() {
    let mut cluster = Cluster::with_nodes(1, "8");
    let retention = json!({"persistentVolumeClaimRetentionPolicy":
        {"whenDeleted": "Delete", "whenScaled": "Delete"}});
    set(&mut cluster, retention);
    cluster.advance_until_idle();
    let claim = cluster.cache.claims.get(&default_key("data-db-0")).unwrap();
    assert_eq!(claim.owner_references()[0].name, "db");
    scale(&mut cluster, 1);
    assert_eq!(claims(&cluster), ["data-db-0 Bound"]);
}
