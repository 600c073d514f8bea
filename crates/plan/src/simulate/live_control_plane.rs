//! [`LivePlane`]: a client for the live control plane of `--against`. It sends only get and list requests.

use std::sync::Arc;

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_component_base::kube_client::{self, Target};
use berth_component_base::paged_list::all_pages;
use berth_component_base::user_agent::Component;
use berth_controllers::resource_type::ResourceType;
use berth_scheduler::estimator::EstimatorOptions;
use kube::api::{DynamicObject, GetParams, ObjectList};
use kube::core::Request;
use kube::{Client, Resource as _};
use serde_json::Value;

use super::detect::ApiKind;
use super::error::SimulateError;
use crate::control_plane_lists::placement_resources;
use crate::served_kinds::{KindLookup, ServedKinds};
use crate::what_if::Estimators;

/// The live control plane, selected by a kubeconfig context.
pub(crate) struct LivePlane {
    client: Client,
    /// Namespace of `--namespace`, or else of the context.
    pub(crate) namespace: String,
}

impl LivePlane {
    /// Creates a client for a control plane. Manifests without a namespace get `namespace`, or else the namespace of
    /// the context.
    ///
    /// # Errors
    /// Fails if the context cannot be used, or if the server does not respond.
    pub(crate) async fn connect(
        target: &Target,
        namespace: Option<String>,
    ) -> Result<Self, SimulateError> {
        let config = kube_client::config(target).await?;
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        Ok(Self {
            client: kube_client::reach_serving(config, Component::Simulate, &placement_resources())
                .await?,
            namespace,
        })
    }

    /// Returns the estimators whose Services are in the control plane.
    pub(crate) fn estimators(&self, options: &EstimatorOptions) -> Estimators {
        Estimators::new(self.client.clone(), options)
    }

    /// Returns the kinds that the control plane serves.
    pub(crate) fn served_kinds(&self) -> ServedKinds {
        ServedKinds::new(self.client.clone())
    }

    /// Lists all objects of a kind, in one namespace or in all namespaces.
    ///
    /// # Errors
    /// Fails if the control plane refuses the request.
    pub(crate) async fn list(
        &self,
        kind: &ResourceType,
        namespace: Option<&str>,
    ) -> Result<Vec<Value>, SimulateError> {
        let request = &request_of(kind, namespace);
        let objects = all_pages(|params| async move {
            let request = request.list(&params).map_err(kube::Error::BuildRequest)?;
            self.client.request::<ObjectList<Value>>(request).await
        });
        let objects = objects.await.map_err(|error| read_error(kind, &error))?;
        Ok(objects
            .into_iter()
            .map(|object| with_kind(kind, object))
            .collect())
    }

    /// Lists all objects of a kind. Returns an empty list if the control plane does not serve the kind.
    ///
    /// # Errors
    /// Fails if the control plane refuses the request.
    pub(crate) async fn list_if_served(
        &self,
        kind: &ResourceType,
    ) -> Result<Vec<Value>, SimulateError> {
        match self.list(kind, None).await {
            Err(SimulateError::Read { missing: true, .. }) => Ok(Vec::new()),
            other => other,
        }
    }

    /// Reads an object. Returns `None` if the object does not exist.
    ///
    /// # Errors
    /// Fails if the control plane does not respond.
    pub(crate) async fn get(
        &self,
        kind: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, SimulateError> {
        let namespace = Some(namespace).filter(|_| kind.namespaced);
        let found = async {
            let request = request_of(kind, namespace)
                .get(name, &GetParams::default())
                .map_err(kube::Error::BuildRequest)?;
            self.client.request::<Value>(request).await
        };
        match found.await {
            Ok(object) => Ok(Some(with_kind(kind, object))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(read_error(kind, &error)),
        }
    }

    /// Lists all objects of a kind, in one namespace or in all. Returns each object with its resource type. Returns an
    /// empty list if the control plane does not serve the kind.
    ///
    /// # Errors
    /// Fails if the control plane refuses the request.
    pub(crate) async fn templates(
        &self,
        served_kinds: &mut ServedKinds,
        (api_version, kind): &ApiKind,
        namespace: Option<&str>,
    ) -> Result<Vec<(Arc<ResourceType>, Value)>, SimulateError> {
        let lookup = served_kinds.find(api_version, kind).await;
        let lookup = lookup.map_err(|error| SimulateError::Read {
            what: api_version.clone(),
            reason: error.to_string(),
            missing: false,
        })?;
        let KindLookup::Served(kind) = lookup else {
            return Ok(Vec::new());
        };
        let namespace = namespace.filter(|_| kind.namespaced);
        let objects = self.list(&kind, namespace).await?;
        Ok(objects
            .into_iter()
            .map(|object| (Arc::clone(&kind), object))
            .collect())
    }
}

fn request_of(kind: &ResourceType, namespace: Option<&str>) -> Request {
    Request::new(DynamicObject::url_path(&kind.api, namespace))
}

/// Sets the API version and the kind. The items of a list have neither.
fn with_kind(kind: &ResourceType, mut object: Value) -> Value {
    object["apiVersion"] = Value::from(kind.api.api_version.as_str());
    object["kind"] = Value::from(kind.api.kind.as_str());
    object
}

fn read_error(kind: &ResourceType, error: &kube::Error) -> SimulateError {
    SimulateError::Read {
        what: kind.api.plural.clone(),
        reason: api_error_message(error),
        missing: has_code(error, 404),
    }
}
