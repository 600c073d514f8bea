//! The suspension of dispatching. While dispatching to a cluster is suspended, the copy in this cluster is neither
//! changed nor deleted. Only the deletion of the template or of the Cluster deletes the copy.

use berth_api::binding::{BindingSpec, BindingSuspension};

/// Reports whether dispatching to a cluster is suspended.
pub fn is_suspended(spec: &BindingSpec, cluster: &str) -> bool {
    let suspension = spec.suspension.as_ref();
    suspension.is_some_and(|suspension| suspends(suspension, cluster))
}

/// Reports whether this suspension applies to dispatching to a cluster.
pub(crate) fn suspends(suspension: &BindingSuspension, cluster: &str) -> bool {
    let clusters = suspension.dispatching_on_clusters.as_ref();
    let named = clusters.is_some_and(|s| s.cluster_names.iter().any(|name| name == cluster));
    suspension.dispatching == Some(true) || named
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dispatching_is_suspended_everywhere_or_on_named_clusters() {
        for (suspension, cluster, expected) in [
            (json!({}), "a", false),
            (json!({"dispatching": true}), "a", true),
            (json!({"dispatching": false}), "a", false),
            (
                json!({"dispatchingOnClusters": {"clusterNames": ["a"]}}),
                "a",
                true,
            ),
            (
                json!({"dispatchingOnClusters": {"clusterNames": ["a"]}}),
                "b",
                false,
            ),
            (json!({"scheduling": true}), "a", false),
        ] {
            let spec: BindingSpec = serde_json::from_value(json!({"suspension": suspension,
                "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}}))
            .unwrap();
            assert_eq!(
                is_suspended(&spec, cluster),
                expected,
                "{suspension} {cluster}"
            );
        }
    }
}
