//! The API server in which a simulation validates manifests. The caller provides it, because a server is no part of the
//! planner.

use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;

/// Karmada's admission rules that a [`PreviewServer`] applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionRules {
    /// Fills in defaults, and refuses invalid objects.
    DefaultsAndRefusals,
    /// Fills in defaults only.
    Defaults,
}

/// An API server that contains no objects of users. Dropping it stops the server.
pub trait PreviewServer: Send + Sync {
    /// Returns a client with all rights.
    fn client(&self) -> Client;

    /// Creates or updates a CustomResourceDefinition. The server serves its kind when the future is ready.
    ///
    /// # Errors
    /// The message of the server that refuses the definition.
    fn install_crd(
        &self,
        definition: CustomResourceDefinition,
    ) -> BoxFuture<'_, Result<(), String>>;
}

/// Starts a [`PreviewServer`] with the admission rules. The error is a message.
pub type StartPreviewServer =
    fn(AdmissionRules) -> BoxFuture<'static, Result<Box<dyn PreviewServer>, String>>;
