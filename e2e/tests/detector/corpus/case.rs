//! The recorded cases, and functions that create and read their objects.

use std::io::Read as _;

use berth_e2e::Objects;
use berth_e2e::objects::handle;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, PostParams};
use serde::Deserialize;
use serde_json::{Value, json};

/// A recorded case: objects to create, and the results on a Karmada control plane.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub id: String,
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
pub fn all() -> Vec<Case> {
    #[derive(Deserialize)]
    struct Data {
        cases: Vec<Case>,
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/detector.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let data: Data = serde_json::from_str(&text).unwrap();
    data.cases
}

impl Case {
    pub async fn create_namespace(&self, client: &kube::Client) {
        create_namespace(client, &self.namespace).await;
    }

    /// Returns the template, which is the only object other than policies.
    pub fn template(&self) -> &Value {
        let mut objects = self.objects.iter();
        objects.find(|object| !is_policy(object)).unwrap()
    }
}

pub async fn create_namespace(client: &kube::Client, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

pub fn is_policy(object: &Value) -> bool {
    object["kind"]
        .as_str()
        .unwrap()
        .ends_with("PropagationPolicy")
}

/// Returns the API of an object's kind and namespace.
/// Returns the API for an object.
pub fn api_of(client: &kube::Client, object: &Value) -> Api<DynamicObject> {
    handle(client, object).0
}

pub async fn create(client: &kube::Client, object: &Value) -> Outcome {
    let created = Objects::create(client, object).await;
    created.map_err(|error| error.to_string())
}

pub async fn get(client: &kube::Client, object: &Value) -> Option<Value> {
    Objects::get(client, object).await
}
