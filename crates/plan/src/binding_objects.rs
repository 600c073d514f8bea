//! The objects of one binding in the control plane: its template and its Works, with the override policies that the Works
//! record.

use std::sync::Arc;

use berth_api::binding::ObjectReference;
use berth_api::names::cluster_of_execution_namespace;
use berth_api::well_known::{APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES};
use berth_api::{Binding, Work};
use berth_apimachinery::api_error::api_error_message;
use berth_controllers::resource_type::ResourceType;
use berth_controllers::rest_mapper::{KindError, RestMapper};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::control_plane_lists::ListError;

/// Reads a template with its resource type. Returns `None` if it does not exist, or if its kind is not served.
///
/// # Errors
/// Returns the reason why the template cannot be read.
pub(crate) async fn template(
    client: &Client,
    resource: &ObjectReference,
) -> Result<Option<(Arc<ResourceType>, DynamicObject)>, String> {
    let kinds = RestMapper::new(client.clone());
    let found = match kinds.find(&resource.api_version, &resource.kind).await {
        Ok(found) => found,
        Err(KindError::Unserved { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    let api = found.api(client.clone(), namespace);
    let read = api.get_opt(&resource.name).await;
    let read = read.map_err(|error| api_error_message(&error))?;
    Ok(read.map(|object| (found, object)))
}

/// Reads the Works of a binding, each with its cluster.
///
/// # Errors
/// When the control plane refuses the list.
pub(crate) async fn works(
    client: &Client,
    binding: &Binding,
) -> Result<Vec<(String, Work)>, ListError> {
    let id = binding.permanent_id();
    if id.is_empty() {
        return Ok(Vec::new());
    }
    let selector = format!("{}={id}", binding.key.kind().id_label());
    let params = ListParams::default().labels(&selector);
    let works = Api::<Work>::all(client.clone()).list(&params).await;
    let works = works.map_err(|error| ListError {
        resource: "works",
        reason: api_error_message(&error),
    })?;
    let in_clusters = works.items.into_iter().filter_map(|work| {
        let namespace = work.namespace()?;
        let cluster = cluster_of_execution_namespace(&namespace)?;
        Some((cluster.to_owned(), work))
    });
    Ok(in_clusters.collect())
}

/// Returns the override policies that were applied to the object of a Work, with their kinds.
pub(crate) fn override_policies(work: &Work) -> Vec<String> {
    let annotations = work.metadata.annotations.as_ref();
    let names = |kind: &str, key: &str| -> Vec<String> {
        let recorded = annotations.and_then(|annotations| annotations.get(key));
        let recorded: Option<Vec<Value>> =
            recorded.and_then(|json| serde_json::from_str(json).ok());
        let recorded = recorded.unwrap_or_default();
        let names = recorded
            .iter()
            .filter_map(|policy| policy.get("policyName")?.as_str());
        names.map(|name| format!("{kind} {name}")).collect()
    };
    let mut all = names("ClusterOverridePolicy", APPLIED_CLUSTER_OVERRIDES);
    all.extend(names("OverridePolicy", APPLIED_OVERRIDES));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_annotations_of_a_work_name_the_policies() {
        let work: Work = serde_json::from_value(json!({"metadata": {"name": "w", "annotations": {
            (APPLIED_CLUSTER_OVERRIDES): r#"[{"policyName":"all","overriders":{}}]"#,
            (APPLIED_OVERRIDES): r#"[{"policyName":"web","overriders":{}},{"policyName":"web","overriders":{}}]"#}},
            "spec": {"workload": {"manifests": []}}}))
        .unwrap();
        assert_eq!(
            override_policies(&work),
            ["ClusterOverridePolicy all", "OverridePolicy web"]
        );
    }
}
