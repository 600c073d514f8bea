//! An API server that validates manifests and fills in defaults, as a control plane does for `kubectl apply`.
//!
//! The simulation continues with the object in each response of the server.

use std::collections::HashSet;

use berth_api::admission::GuardedKind;
use berth_api::cluster::ApiEnablement;
use berth_apimachinery::api_error::api_error_message;
use berth_controllers::cluster_status::apis;
use berth_controllers::resource_type::ResourceType;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::Resource as _;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::Request;
use serde_json::{Value, json};

use super::error::SimulateError;
use super::preview_server::{AdmissionRules, PreviewServer, StartPreviewServer};
use super::skip_validation;
use crate::served_kinds::ServedKinds;

/// Metadata fields that an API server sets. In a response of the sandbox, the values of these fields are replaced by
/// the values of the manifest or of the live object.
const RESTORED_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "managedFields",
];

/// The API server.
pub(crate) struct Sandbox {
    server: Box<dyn PreviewServer>,
    client: Client,
    validates: bool,
    namespaces: HashSet<String>,
    /// The built-in APIs of the sandbox. A simulated member serves the same APIs.
    member_apis: Vec<ApiEnablement>,
}

impl Sandbox {
    /// Starts the server. If `validates` is false, the server fills in defaults and skips validation.
    ///
    /// # Errors
    /// When the server cannot start.
    pub(crate) async fn start(
        start: StartPreviewServer,
        validates: bool,
    ) -> Result<Self, SimulateError> {
        let rules = if validates {
            AdmissionRules::DefaultsAndRefusals
        } else {
            AdmissionRules::Defaults
        };
        let server = start(rules).await.map_err(SimulateError::Sandbox)?;
        let member_apis = apis::discover(&server.client()).await.enablements;
        for mut definition in berth_api::crds::all() {
            if !validates {
                definition = skip_validation::relax(&definition)
                    .map_err(|error| SimulateError::Sandbox(error.to_string()))?;
            }
            server
                .install_crd(definition)
                .await
                .map_err(SimulateError::Sandbox)?;
        }
        Ok(Self {
            client: server.client(),
            server,
            validates,
            namespaces: HashSet::new(),
            member_apis,
        })
    }

    /// Returns the APIs that a simulated member serves.
    pub(crate) fn member_apis(&self) -> &[ApiEnablement] {
        &self.member_apis
    }

    /// Returns the kinds that the server serves.
    pub(crate) fn served_kinds(&self) -> ServedKinds {
        ServedKinds::new(self.client.clone())
    }

    /// Installs a CustomResourceDefinition from a manifest.
    ///
    /// # Errors
    /// When the definition cannot be decoded, or the server refuses it.
    pub(crate) async fn define(&self, definition: &Value) -> Result<(), String> {
        let definition: CustomResourceDefinition =
            serde_json::from_value(definition.clone()).map_err(|error| error.to_string())?;
        self.server.install_crd(definition).await
    }

    /// Returns the object as a control plane would store it. `live` is the object in the live control plane that the
    /// new object replaces.
    ///
    /// # Errors
    /// When the server refuses the object. The error is the server's message.
    pub(crate) async fn admit(
        &mut self,
        kind: &ResourceType,
        object: &Value,
        live: Option<&Value>,
    ) -> Result<Value, String> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        if kind.namespaced {
            self.ensure_namespace(namespace).await;
        }
        let stored = match live {
            // If the sandbox refuses the live object, it validates the desired object as a new object.
            Some(live) => self.create(kind, &without_server_fields(live)).await.ok(),
            None => None,
        };
        let desired = without_server_fields(object);
        let mut admitted = match stored {
            Some(stored) => self.replace(kind, desired, &stored).await?,
            None => match self.create(kind, &desired).await {
                Ok(admitted) => admitted,
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                    let stored = self
                        .read(kind, &desired)
                        .await
                        .map_err(|error| api_error_message(&error))?;
                    self.replace(kind, desired, &stored).await?
                }
                Err(error) => return Err(api_error_message(&error)),
            },
        };
        if let Some(status) = object.get("status").filter(|status| status.is_object()) {
            admitted["status"] = if guarded_kind(kind).is_some() {
                self.write_status(kind, object, status).await?
            } else {
                status.clone()
            };
        }
        restore_server_fields(&mut admitted, object, kind, live);
        Ok(admitted)
    }

    async fn ensure_namespace(&mut self, namespace: &str) {
        if self.namespaces.insert(namespace.to_owned()) {
            let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
            let api: kube::Api<DynamicObject> =
                kube::Api::all_with(self.client.clone(), &namespaces());
            if let Ok(body) = serde_json::from_value(body) {
                // The namespace may exist. If its name is invalid, the server refuses the objects in this namespace.
                let _ = api.create(&PostParams::default(), &body).await;
            }
        }
    }

    async fn create(&self, kind: &ResourceType, object: &Value) -> Result<Value, kube::Error> {
        let request = request(kind, object)
            .create(&PostParams::default(), object.to_string().into_bytes())
            .map_err(kube::Error::BuildRequest)?;
        self.send(request).await
    }

    async fn read(&self, kind: &ResourceType, object: &Value) -> Result<Value, kube::Error> {
        let request = request(kind, object)
            .get(name(object), &kube::api::GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    async fn replace(
        &self,
        kind: &ResourceType,
        mut desired: Value,
        stored: &Value,
    ) -> Result<Value, String> {
        desired["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        // The update must contain the permanent ID that the sandbox has generated, because the ID is immutable.
        if let Some(label) = id_label(kind)
            && let Some(id) = stored["metadata"]["labels"].get(label)
        {
            desired["metadata"]["labels"][label] = id.clone();
        }
        let request = request(kind, &desired).replace(
            name(&desired),
            &PostParams::default(),
            desired.to_string().into_bytes(),
        );
        match request {
            Ok(request) => self
                .send(request)
                .await
                .map_err(|error| api_error_message(&error)),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Value, kube::Error> {
        // kubectl sends this parameter. kube's `PostParams` has no field for it.
        let directive = if self.validates { "Strict" } else { "Ignore" };
        let mut request = request;
        let target = format!("{}&fieldValidation={directive}", request.uri());
        if let Ok(target) = target.parse() {
            *request.uri_mut() = target;
        }
        self.client.request(request).await
    }

    /// Writes the status, so that the server validates it and fills in its defaults. Returns the stored status.
    async fn write_status(
        &self,
        kind: &ResourceType,
        object: &Value,
        status: &Value,
    ) -> Result<Value, String> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let api = kind.api(self.client.clone(), namespace);
        let directive = if self.validates {
            ValidationDirective::Strict
        } else {
            ValidationDirective::Ignore
        };
        let params = PatchParams {
            field_validation: Some(directive),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "status": status }));
        let written = api
            .patch_status(name(object), &params, &patch)
            .await
            .map_err(|error| api_error_message(&error))?;
        Ok(written.data.get("status").cloned().unwrap_or_default())
    }
}

fn namespaces() -> kube::core::ApiResource {
    kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&())
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn request(kind: &ResourceType, object: &Value) -> Request {
    let namespace = object["metadata"]["namespace"].as_str();
    let namespace = namespace.filter(|_| kind.namespaced);
    Request::new(DynamicObject::url_path(&kind.api, namespace))
}

/// Returns the admission rules for a type, or `None` if Karmada has no rules for it.
fn guarded_kind(kind: &ResourceType) -> Option<GuardedKind> {
    GuardedKind::find(&kind.api.group, &kind.api.plural)
}

fn id_label(kind: &ResourceType) -> Option<&'static str> {
    guarded_kind(kind)?.permanent_id_label()
}

/// Returns the object without its status and without the metadata fields that a server sets.
fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in RESTORED_FIELDS.iter().chain(&["selfLink"]) {
            metadata.remove(*field);
        }
    }
    object
}

/// Replaces the [`RESTORED_FIELDS`] by the values in `object`, and the permanent ID by the ID of the live object.
fn restore_server_fields(
    admitted: &mut Value,
    object: &Value,
    kind: &ResourceType,
    live: Option<&Value>,
) {
    for field in RESTORED_FIELDS {
        match object["metadata"].get(field) {
            Some(value) => admitted["metadata"][field] = value.clone(),
            None => {
                if let Some(metadata) = admitted["metadata"].as_object_mut() {
                    metadata.remove(field);
                }
            }
        }
    }
    if let Some(label) = id_label(kind)
        && let Some(id) = live.and_then(|live| live["metadata"]["labels"].get(label))
    {
        admitted["metadata"]["labels"][label] = id.clone();
    }
}
