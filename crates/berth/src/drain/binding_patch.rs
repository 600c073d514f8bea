//! A write of one binding that other clients change at the same time.

use berth_api::{BindingKey, BindingKind};
use berth_apimachinery::conflict_retry::Attempts;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::error::DrainError;

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The binding was changed.
    Changed,
    /// The binding was deleted, or needs no change any longer.
    NotNeeded,
}

/// Patches a binding. `change` returns the merge patch of the binding, or `None` if it needs no change. After a conflict,
/// the binding is read, and `change` is called again.
///
/// `doing` describes the action in errors.
pub(super) async fn patch_binding(
    client: &Client,
    key: &BindingKey,
    doing: &str,
    change: impl Fn(&DynamicObject) -> Option<Value>,
) -> Result<Written, DrainError> {
    let bindings = api(client, key);
    let name = &*key.name;
    let read = bindings.get_opt(name).await;
    let mut attempts = Attempts::new(read.map_err(DrainError::refused(doing))?);
    while attempts.begin() {
        let Some(binding) = attempts.known() else {
            return Ok(Written::NotNeeded);
        };
        let Some(mut patch) = change(binding) else {
            return Ok(Written::NotNeeded);
        };
        patch["metadata"]["resourceVersion"] = json!(binding.resource_version());
        let response = bindings
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        let ended = attempts.end(response, bindings.get_opt(name)).await;
        if ended.map_err(DrainError::refused(doing))?.is_some() {
            return Ok(Written::Changed);
        }
    }
    Err(DrainError::Conflicts(key.clone()))
}

/// Returns the API for the bindings with the kind and namespace of a key.
fn api(client: &Client, key: &BindingKey) -> Api<DynamicObject> {
    let resource = key.kind().api_resource();
    match key.kind() {
        BindingKind::Namespaced => {
            Api::namespaced_with(client.clone(), key.namespace_or_empty(), &resource)
        }
        BindingKind::Cluster => Api::all_with(client.clone(), &resource),
    }
}
