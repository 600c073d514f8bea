//! Lets deleted bindings go.
//!
//! The detector puts Karmada's finalizer on bindings, because in Karmada a binding stays until its copies
//! are removed from the members. The members of `berth up` are simulated and hold no copies, so there is
//! nothing to wait for. This must not run beside Karmada's binding controller, which would lose its chance.

use berth_api::well_known::{BINDING_FINALIZER, CLUSTER_RESOURCE_BINDING_FINALIZER};
use berth_api::{ClusterResourceBinding, ResourceBinding};
use futures::StreamExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// How often a write is tried when others write to the same binding.
const TRIES: usize = 5;

/// Takes the finalizers off deleted bindings until the token is cancelled.
pub async fn run(client: Client, cancel: CancellationToken) {
    let kinds = async {
        tokio::join!(
            watch(
                client.clone(),
                ApiResource::erase::<ResourceBinding>(&()),
                BINDING_FINALIZER
            ),
            watch(
                client.clone(),
                ApiResource::erase::<ClusterResourceBinding>(&()),
                CLUSTER_RESOURCE_BINDING_FINALIZER
            ),
        );
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = kinds => {}
    }
}

async fn watch(client: Client, resource: ApiResource, finalizer: &'static str) {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let config = watcher::Config::default().any_semantic();
    let mut bindings = watcher(all, config)
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(binding) = bindings.next().await {
        match binding {
            Ok(binding) => release(&client, &resource, finalizer, binding).await,
            Err(error) => tracing::debug!(%error, "the watch of bindings broke; trying again"),
        }
    }
}

async fn release(client: &Client, resource: &ApiResource, finalizer: &str, binding: DynamicObject) {
    let name = binding.name_any();
    let api: Api<DynamicObject> = match binding.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    let mut current = Some(binding);
    for _ in 0..TRIES {
        let Some(binding) = current else { return };
        let finalizers = binding.finalizers();
        if binding.metadata.deletion_timestamp.is_none()
            || !finalizers.iter().any(|known| known == finalizer)
        {
            return;
        }
        let others: Vec<&String> = finalizers.iter().filter(|f| *f != finalizer).collect();
        let patch = json!({ "metadata": {
            "finalizers": others, "resourceVersion": binding.metadata.resource_version } });
        let patched = api
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                current = api.get_opt(&name).await.ok().flatten();
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(binding = name, %error, "cannot let a deleted binding go");
                return;
            }
        }
    }
}
