//! The recorded cases of the detector, and functions that create and read their objects.

use std::io::Read as _;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::objects::{Objects, handle};

/// Annotations that the API server writes. Recordings and comparisons omit them.
const API_SERVER_ANNOTATIONS: [&str; 1] = ["deprecated.daemonset.template.generation"];

/// The recorded cases, with the versions of the recorded programs.
#[derive(Debug, Deserialize, Serialize)]
pub struct Cases {
    /// Versions and date of the recording.
    #[serde(default)]
    pub recorded: Value,
    /// The cases.
    pub cases: Vec<Case>,
}

/// A recorded case: objects to create, and the results on a Karmada control plane.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Case {
    /// Unique id.
    pub id: String,
    /// Namespace of the objects.
    pub namespace: String,
    /// The template and its policies, in the order of creation.
    pub objects: Vec<Value>,
    /// For each object, whether Karmada accepted it, and the stored object or the error.
    pub admitted: Vec<Value>,
    /// The bindings that Karmada created.
    pub bindings: Vec<Value>,
    /// The labels and annotations of the template at the end.
    pub template: Value,
}

/// The result of creating an object: the stored object, or the error message.
pub type Outcome = Result<Value, String>;

/// Reads all recorded cases.
///
/// # Panics
/// If the file cannot be read.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub fn all() -> Vec<Case> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/detector.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let data: Cases = serde_json::from_str(&text).unwrap();
    data.cases
}

impl Case {
    /// Creates the namespace of the case.
    ///
    /// # Panics
    /// If the server refuses the namespace.
    pub async fn create_namespace(&self, client: &kube::Client) {
        create_namespace(client, &self.namespace).await;
    }

    /// Returns the template, which is the only object other than policies.
    ///
    /// # Panics
    /// If the case has no template.
    #[expect(clippy::unwrap_used, reason = "this is how a test fails")]
    pub fn template(&self) -> &Value {
        let mut objects = self.objects.iter();
        objects.find(|object| !is_policy(object)).unwrap()
    }
}

/// Creates a namespace.
///
/// # Panics
/// If the server refuses the namespace.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub async fn create_namespace(client: &kube::Client, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

/// Reports whether an object is a policy.
pub fn is_policy(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    kind.ends_with("PropagationPolicy")
}

/// Returns the API for an object.
///
/// # Panics
/// If the object has no kind or no name.
pub fn api_of(client: &kube::Client, object: &Value) -> Api<DynamicObject> {
    handle(client, object).0
}

/// Creates an object.
///
/// # Errors
/// Returns the message of the server if it refuses the object.
pub async fn create(client: &kube::Client, object: &Value) -> Outcome {
    let created = Objects::create(client, object).await;
    created.map_err(|error| error.to_string())
}

/// Returns the stored object, or `None` if it does not exist.
pub async fn get(client: &kube::Client, object: &Value) -> Option<Value> {
    Objects::get(client, object).await
}

/// Returns the bindings of a case in the recorded format.
///
/// # Panics
/// If the server does not answer.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub async fn bindings_of(client: &kube::Client, case: &Case) -> Vec<Value> {
    let template = &case.template()["metadata"];
    let api: Api<DynamicObject> = if template.get("namespace").is_some() {
        let resource = ApiResource::erase::<berth_api::ResourceBinding>(&());
        Api::namespaced_with(client.clone(), &case.namespace, &resource)
    } else {
        Api::all_with(
            client.clone(),
            &ApiResource::erase::<berth_api::ClusterResourceBinding>(&()),
        )
    };
    let bindings = api.list(&ListParams::default()).await.unwrap();
    bindings
        .items
        .into_iter()
        .filter(|binding| binding.data["spec"]["resource"]["name"] == template["name"])
        .map(to_recorded_format)
        .collect()
}

fn to_recorded_format(binding: DynamicObject) -> Value {
    let meta = &binding.metadata;
    let owners: Vec<&String> = meta
        .owner_references
        .iter()
        .flatten()
        .map(|owner| &owner.kind)
        .collect();
    let mut spec = binding.data["spec"].clone();
    for field in ["uid", "resourceVersion"] {
        spec["resource"][field] = json!("*");
    }
    let kind = if meta.namespace.is_some() {
        "ResourceBinding"
    } else {
        "ClusterResourceBinding"
    };
    json!({
        "kind": kind,
        "name": meta.name,
        "labels": without_ids(&json!(meta.labels)),
        "annotations": without_ids(&json!(meta.annotations)),
        "finalizers": meta.finalizers,
        "ownerKinds": owners,
        "spec": spec,
    })
}

/// Returns labels or annotations in which `*` replaces the permanent ids. Removes the annotations of the API server.
pub fn without_ids(map: &Value) -> Value {
    let mut entries = map.as_object().cloned().unwrap_or_default();
    entries.retain(|key, _| !API_SERVER_ANNOTATIONS.contains(&key.as_str()));
    for (key, value) in &mut entries {
        if key.ends_with("/permanent-id") {
            *value = json!("*");
        }
    }
    Value::Object(entries)
}
