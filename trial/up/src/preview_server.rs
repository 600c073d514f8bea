//! The API server in which `berth simulate` validates manifests.

use std::sync::Arc;

use berth_apiserver::{Admission, AdmissionRequest, Denial, GroupResource, Server, ServerConfig};
use berth_plan::simulate::{AdmissionRules, PreviewServer};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde_json::Value;

use crate::admission::KarmadaAdmission;

/// Starts a server in this process.
///
/// # Errors
/// When the server cannot start. The error is its message.
pub fn start(rules: AdmissionRules) -> BoxFuture<'static, Result<Box<dyn PreviewServer>, String>> {
    let admission: Arc<dyn Admission> = match rules {
        AdmissionRules::DefaultsAndRefusals => Arc::new(KarmadaAdmission),
        AdmissionRules::Defaults => Arc::new(DefaultsOnly),
    };
    async {
        let started = Server::start(ServerConfig {
            admission: vec![admission],
            ..ServerConfig::default()
        });
        let server = started.await.map_err(|error| error.to_string())?;
        Ok(Box::new(EmbeddedServer(server)) as Box<dyn PreviewServer>)
    }
    .boxed()
}

struct EmbeddedServer(Server);

impl PreviewServer for EmbeddedServer {
    fn client(&self) -> Client {
        self.0.client()
    }

    fn install_crd(
        &self,
        definition: CustomResourceDefinition,
    ) -> BoxFuture<'_, Result<(), String>> {
        async {
            let installed = self.0.install_crd(definition).await;
            installed.map_err(|error| error.to_string())
        }
        .boxed()
    }
}

/// Admission that runs Karmada's mutating webhooks and skips its validating webhooks.
#[derive(Clone, Copy, Debug)]
struct DefaultsOnly;

impl Admission for DefaultsOnly {
    fn handles(&self, resource: &GroupResource<'_>) -> bool {
        KarmadaAdmission.handles(resource)
    }

    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Denial> {
        KarmadaAdmission.mutate(request, object)
    }

    fn validate(&self, _: &AdmissionRequest<'_>, _: &Value) -> Result<(), Denial> {
        Ok(())
    }
}
