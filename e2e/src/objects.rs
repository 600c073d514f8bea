//! Objects in JSON: the API of an object, and the requests and waits of tests for it.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::eventually::eventually;

/// The namespace of an object whose manifest has none.
pub const NAMESPACE: &str = "default";
/// The cluster-scoped kinds of the tests' objects, apart from those whose names begin with `Cluster`.
const CLUSTER_SCOPED: [&str; 8] = [
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PriorityClass",
    "ResourceInterpreterCustomization",
    "ResourceInterpreterWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "WorkloadRebalancer",
];

/// Returns the API resource of a kind, such as `("apps/v1", "Deployment")`.
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Returns the API for the objects of a kind in one namespace, or in all namespaces if `namespace` is `None`.
pub fn api(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = resource(api_version, kind);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Returns the API for an object, and the name of the object. A namespaced object without a namespace is in
/// [`NAMESPACE`].
///
/// # Panics
/// If the object has no kind or no name.
pub fn handle(client: &Client, object: &Value) -> (Api<DynamicObject>, String) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    assert!(!name.is_empty(), "{object} has no name");
    (api_of(client, object, NAMESPACE), name.to_owned())
}

/// Returns the API for an object. A namespaced object without a namespace is in `default_namespace`.
///
/// # Panics
/// If the object has no kind.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub fn api_of(client: &Client, object: &Value, default_namespace: &str) -> Api<DynamicObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (api_version, kind) = (text("/apiVersion").unwrap(), text("/kind").unwrap());
    let is_cluster_scoped = kind.starts_with("Cluster") || CLUSTER_SCOPED.contains(&kind);
    let namespace = match text("/metadata/namespace") {
        None if is_cluster_scoped => None,
        given => Some(given.unwrap_or(default_namespace)),
    };
    api(client, api_version, kind, namespace)
}

/// Requests and waits for the objects of an API server.
#[expect(
    async_fn_in_trait,
    reason = "tests await the futures in the task that creates them"
)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
pub trait Objects {
    /// Returns a client of the API server.
    fn client(&self) -> &Client;

    /// Creates an object, and returns the stored object.
    ///
    /// # Errors
    /// If the server refuses the object.
    async fn create(&self, manifest: &Value) -> kube::Result<Value> {
        let (api, _) = handle(self.client(), manifest);
        let object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
        let created = api.create(&PostParams::default(), &object).await?;
        Ok(serde_json::to_value(created).unwrap())
    }

    /// Creates an object, or updates an existing one with a merge patch. Returns the stored object.
    ///
    /// # Errors
    /// If the server refuses the object.
    async fn try_apply(&self, manifest: &Value) -> kube::Result<Value> {
        match self.create(manifest).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let (api, name) = handle(self.client(), manifest);
                let patch = Patch::Merge(manifest);
                let patched = api.patch(&name, &PatchParams::default(), &patch).await?;
                Ok(serde_json::to_value(patched).unwrap())
            }
            created => created,
        }
    }

    /// Creates or updates an object as [`Self::try_apply`] does.
    ///
    /// # Panics
    /// If the server refuses the object.
    async fn apply(&self, manifest: Value) -> Value {
        let applied = self.try_apply(&manifest).await;
        applied.unwrap_or_else(|error| panic!("cannot apply {manifest}: {error}"))
    }

    /// Changes an object with a merge patch.
    ///
    /// # Panics
    /// If the server refuses the patch.
    async fn edit(&self, object: &Value, changes: Value) {
        let (api, name) = handle(self.client(), object);
        let patch = Patch::Merge(changes);
        let patched = api.patch(&name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Changes the status of an object, as a controller does.
    ///
    /// # Panics
    /// If the server refuses the patch.
    async fn report_status(&self, object: &Value, status: Value) {
        let (api, name) = handle(self.client(), object);
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = api
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
        patched.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Deletes an object.
    ///
    /// # Panics
    /// If the object does not exist, or the server refuses the request.
    async fn delete(&self, object: &Value) {
        let (api, name) = handle(self.client(), object);
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// Returns the stored object, if it exists.
    ///
    /// # Panics
    /// If the request fails.
    async fn get(&self, object: &Value) -> Option<Value> {
        let (api, name) = handle(self.client(), object);
        let found = api.get_opt(&name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// Waits until an object satisfies a condition, and returns the object.
    async fn wait_for(&self, object: &Value, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let (api, name) = handle(self.client(), object);
        let found = wait_for(&api, &name, what, |found| {
            wanted(&serde_json::to_value(found).unwrap())
        })
        .await;
        serde_json::to_value(found).unwrap()
    }

    /// Waits until an object exists, and returns it.
    async fn wait_until_exists(&self, object: &Value) -> Value {
        self.wait_for(object, "creation", |_| true).await
    }

    /// Waits until an object no longer exists.
    async fn wait_until_gone(&self, object: &Value) {
        let (api, name) = handle(self.client(), object);
        wait_until_gone(&api, &name).await;
    }
}

impl Objects for Client {
    fn client(&self) -> &Client {
        self
    }
}

/// Waits until an object satisfies the condition `wanted`, and returns the object. `what` describes the condition in
/// the message of a failure.
pub async fn wait_for<K>(api: &Api<K>, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> K
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    eventually(&format!("{name}: {what}"), async || {
        match api.get_opt(name).await {
            Ok(Some(object)) if wanted(&object) => Ok(object),
            Ok(Some(object)) => Err(format!("it is {object:?}")),
            Ok(None) => Err("it does not exist".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await
}

/// Waits until an object no longer exists.
pub async fn wait_until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    eventually(&format!("deletion of {name}"), async || {
        match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(object)) => Err(format!("it is {object:?}")),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}
