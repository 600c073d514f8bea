//! Functions that return the kube API of an object in JSON.

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::discovery::ApiResource;
use serde_json::Value;

/// Returns the API resource of an object's kind.
pub fn resource(object: &Value) -> ApiResource {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

/// Returns the API for an object, and the object's name.
pub fn handle(client: &Client, object: &Value) -> (Api<DynamicObject>, String) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let resource = resource(object);
    let api = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    (api, name)
}
