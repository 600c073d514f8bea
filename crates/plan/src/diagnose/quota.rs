//! The quota that refuses a binding, with the usage of its namespace.

use berth_api::Binding;
use berth_diagnosis::{QuotaShortage, is_quota_refusal};
use kube::Client;

use crate::control_plane_lists;

/// Returns the shortage of the quota that refuses a binding. Returns `None` if no quota does, or if the quotas and
/// bindings of the namespace cannot be read: the message of the refusal then remains the cause.
pub(super) async fn shortage(client: &Client, binding: &Binding) -> Option<QuotaShortage> {
    let namespace = binding.key.namespace.as_deref()?;
    if !is_quota_refusal(binding) {
        return None;
    }
    let quotas = control_plane_lists::quotas(client, namespace).await.ok()?;
    let bindings = control_plane_lists::bindings_in(client, namespace)
        .await
        .ok()?;
    QuotaShortage::of(binding, &quotas, &bindings)
}
