//! The API of a binding.

use berth_api::{BindingKey, BindingKind};
use kube::Client;
use kube::api::{Api, DynamicObject};

/// Returns the API for the bindings with the kind and namespace of a key.
pub(crate) fn binding_api(client: Client, key: &BindingKey) -> Api<DynamicObject> {
    let resource = key.kind().api_resource();
    match key.kind() {
        BindingKind::Namespaced => {
            Api::namespaced_with(client, key.namespace_or_empty(), &resource)
        }
        BindingKind::Cluster => Api::all_with(client, &resource),
    }
}
