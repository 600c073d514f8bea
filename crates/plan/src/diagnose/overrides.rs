//! The override policies that were applied to a workload, from the annotations of its Works.

use std::collections::BTreeMap;

use berth_api::names::cluster_of_execution_namespace;
use berth_api::well_known::{APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES};
use berth_api::{Binding, Work};
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::Value;

/// Returns the applied override policies by cluster, in words. Empty if there are none, or if the Works cannot be read.
pub(super) async fn applied(client: &Client, binding: &Binding) -> BTreeMap<String, String> {
    let id = binding.permanent_id();
    if id.is_empty() {
        return BTreeMap::new();
    }
    let label = binding.key.kind().id_label();
    let works: Api<Work> = Api::all(client.clone());
    let parameters = ListParams::default().labels(&format!("{label}={id}"));
    let listed = works.list(&parameters).await;
    let works = listed.map(|listed| listed.items).unwrap_or_default();
    works.iter().filter_map(of_work).collect()
}

/// Returns the cluster of a Work and the names of its override policies, if there are any.
fn of_work(work: &Work) -> Option<(String, String)> {
    let cluster = cluster_of_execution_namespace(work.metadata.namespace.as_deref()?)?;
    let annotations = work.metadata.annotations.as_ref()?;
    let kinds = [
        (APPLIED_CLUSTER_OVERRIDES, "ClusterOverridePolicy"),
        (APPLIED_OVERRIDES, "OverridePolicy"),
    ];
    let mut named = Vec::new();
    for (annotation, kind) in kinds {
        let Some(text) = annotations.get(annotation) else {
            continue;
        };
        let policies: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        let of_kind = policies
            .iter()
            .filter_map(|policy| policy.get("policyName")?.as_str());
        named.extend(of_kind.map(|name| format!("{kind} {name}")));
    }
    (!named.is_empty()).then(|| (cluster.to_owned(), named.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_applied_policies_are_named() {
        let work = |annotations: Value| -> Work {
            serde_json::from_value(
                json!({ "metadata": { "namespace": "karmada-es-m1", "name": "w",
                "annotations": annotations }, "spec": {} }),
            )
            .unwrap()
        };
        assert_eq!(of_work(&work(json!({}))), None);
        let applied = work(json!({
            "policy.karmada.io/applied-overrides": "[{\"policyName\":\"shop-eu\",\"overriders\":{}}]",
            "policy.karmada.io/applied-cluster-overrides": "[{\"policyName\":\"registry\",\"overriders\":{}}]",
        }));
        let expected = (
            "m1".to_owned(),
            "ClusterOverridePolicy registry, OverridePolicy shop-eu".to_owned(),
        );
        assert_eq!(of_work(&applied), Some(expected));
    }
}
