//! Bindings without the fields that no diagnosis reads, for programs that keep all bindings in memory.

use berth_api::Binding;
use berth_api::binding::ReplicaRequirements;
use berth_api::placement::Placement;
use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_NAME, EVICTED_FROM, PROPAGATION_POLICY_NAME,
    PROPAGATION_POLICY_NAMESPACE,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::copies;
use crate::quota_shortage::is_quota_refusal;

/// The annotations that stay.
const ANNOTATIONS: [&str; 4] = [
    PROPAGATION_POLICY_NAMESPACE,
    PROPAGATION_POLICY_NAME,
    CLUSTER_PROPAGATION_POLICY_NAME,
    EVICTED_FROM,
];

/// Removes the fields that no diagnosis reads. The diagnosis of the result is the same. The placement and the requirements
/// of replicas stay as empty objects, because a diagnosis only reads whether they are set. For a binding that a quota
/// refuses, the type of division and the requests stay, too.
#[must_use]
pub fn trimmed(binding: Binding) -> Binding {
    let is_refused = is_quota_refusal(&binding);
    let Binding {
        key,
        metadata,
        mut spec,
        mut status,
    } = binding;
    let annotations = metadata.annotations.map(|mut all| {
        all.retain(|name, _| ANNOTATIONS.contains(&name.as_str()));
        all
    });
    spec.placement = spec.placement.map(|placement| Placement {
        replica_scheduling: placement.replica_scheduling.filter(|_| is_refused),
        ..Placement::default()
    });
    spec.replica_requirements = spec.replica_requirements.map(|requirements| {
        let mut kept = ReplicaRequirements::default();
        if is_refused {
            kept.resource_request = requirements.resource_request;
        }
        kept
    });
    spec.failover = None;
    for item in &mut status.aggregated_status {
        if let Some(status) = &mut item.status {
            copies::trim_status(status);
        }
    }
    Binding {
        key,
        metadata: ObjectMeta {
            annotations,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        },
        spec,
        status,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::copies::ClusterState;
    use crate::of_binding::of_binding;
    use crate::of_binding::tests::binding;

    #[test]
    fn a_trimmed_binding_has_the_same_diagnosis() {
        let item = |fields: &str| {
            let mut item = json!({ "clusterName": "m1", "applied": true, "health": "Unhealthy",
                "status": { "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "conditions": [{ "type": "x" }] } });
            match fields {
                "daemon set" => {
                    item["status"] = json!({ "desiredNumberScheduled": 3, "numberReady": 1 });
                }
                "refused" => {
                    item["applied"] = json!(false);
                    item["appliedMessage"] = json!("is invalid");
                }
                "well" => {
                    item["health"] = json!("Healthy");
                    item["status"]["readyReplicas"] = json!(2);
                }
                _ => {}
            }
            item
        };
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        for fields in ["partly", "daemon set", "refused", "well"] {
            for evicted in ["", "m3"] {
                let clusters = json!([{ "name": "m1", "replicas": 2 }]);
                let mut binding = binding(clusters, json!([item(fields)]));
                binding.spec.replicas = 0;
                binding.spec.replica_requirements = Some(ReplicaRequirements {
                    namespace: Some("shop".to_owned()),
                    ..ReplicaRequirements::default()
                });
                let annotations = binding.metadata.annotations.get_or_insert_default();
                annotations.insert(EVICTED_FROM.to_owned(), evicted.to_owned());
                annotations.insert("large".to_owned(), "value".to_owned());
                let small = trimmed(binding.clone());
                let of = |binding: &Binding| of_binding(binding, &|_| ClusterState::Ready, now);
                assert_eq!(of(&small), of(&binding), "{fields}");
                let annotations = small.metadata.annotations.unwrap();
                assert_eq!(annotations.len(), 1, "{annotations:?}");
            }
        }
    }
}
