//! Writes of the status of a quota.

use berth_api::FederatedResourceQuota;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::Value;

use crate::reconciler::observe::ObjectName;

/// Patches the status of a quota. The patch contains the resourceVersion that it is based on.
pub(super) async fn write_status(
    client: &Client,
    (namespace, name): &ObjectName,
    patch: Value,
) -> Result<(), kube::Error> {
    let quotas: Api<FederatedResourceQuota> = Api::namespaced(client.clone(), namespace);
    let parameters = PatchParams {
        field_manager: Some("berth-federated-quota".to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    let patched = quotas.patch_status(name, &parameters, &patch).await;
    patched.map(drop)
}
