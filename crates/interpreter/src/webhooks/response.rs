//! Decoding of the responses of interpreter webhooks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::binding::{Component, ReplicaRequirements};
use berth_api::dependency::DependentObjectReference;
use berth_api::interpreter_context::{
    API_VERSION, InterpreterResponse, KIND, ResourceInterpreterContext,
};
use berth_apimachinery::json_patch::BoundedPatch;
use serde_json::Value;

use super::error::WebhookError;
use super::request::WebhookRequest;
use crate::check_dependencies::check_references;
use crate::operation::Operation;
use crate::workload_requirements::Interpretation;

/// The result of an operation that a webhook performed.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The replicas of a template.
    Replicas(Interpretation),
    /// The components of a template.
    Components(Vec<Component>),
    /// The dependencies of a template.
    Dependencies(Vec<DependentObjectReference>),
    /// The patch for an object.
    Patch(BoundedPatch),
    /// The status that a member reports.
    Status(Value),
    /// True if the object is healthy.
    Health(bool),
}

impl WebhookRequest {
    /// Decodes the response to this request. `uid` identifies the request.
    ///
    /// # Errors
    /// When the response is malformed, does not match the request, or reports a failure.
    pub fn read(&self, uid: &str, body: &[u8]) -> Result<Answer, WebhookError> {
        let message: ResourceInterpreterContext =
            serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        // Webhooks that use Karmada's library omit `apiVersion` and `kind`.
        let expected = [("", ""), (API_VERSION, KIND)];
        if !expected.contains(&(&message.api_version, &message.kind)) {
            return Err(invalid(format!(
                "expected {API_VERSION}, Kind={KIND}, got {}, Kind={}",
                message.api_version, message.kind
            )));
        }
        let Some(response) = message.response else {
            return Err(invalid("webhook response was absent"));
        };
        if response.uid != uid {
            return Err(invalid(format!(
                "expected response.uid {uid:?}, got {:?}",
                response.uid
            )));
        }
        if response.successful {
            return answer(self.operation, response);
        }
        match response.status {
            Some(status) => Err(WebhookError::Failed {
                code: status.code,
                message: status.message,
            }),
            None => Err(invalid(
                "webhook require response.status when response.successful is false",
            )),
        }
    }
}

fn answer(operation: Operation, response: InterpreterResponse) -> Result<Answer, WebhookError> {
    let missing = |field: &str| invalid(format!("webhook returned nil response.{field}"));
    match operation {
        Operation::InterpretReplica => {
            let replicas = response.replicas.ok_or_else(|| missing("replicas"))?;
            interpretation(replicas, response.replica_requirements).map(Answer::Replicas)
        }
        Operation::InterpretComponent => {
            Ok(Answer::Components(response.components.unwrap_or_default()))
        }
        Operation::InterpretDependency => {
            let dependencies = response.dependencies.unwrap_or_default();
            check_references(&dependencies).map_err(invalid)?;
            Ok(Answer::Dependencies(dependencies))
        }
        Operation::ReviseReplica | Operation::Retain | Operation::AggregateStatus => {
            patch(response).map(Answer::Patch)
        }
        Operation::InterpretStatus => {
            let status = response.raw_status.ok_or_else(|| missing("rawStatus"));
            status.map(Answer::Status)
        }
        Operation::InterpretHealth => {
            let healthy = response.healthy.ok_or_else(|| missing("healthy"));
            healthy.map(Answer::Health)
        }
    }
}

fn interpretation(
    replicas: i32,
    requirements: Option<ReplicaRequirements>,
) -> Result<Interpretation, WebhookError> {
    let priority_class_name = requirements
        .as_ref()
        .and_then(|requirements| requirements.priority_class_name.clone());
    let requirements = requirements.map(serde_json::to_value).transpose();
    Ok(Interpretation {
        replicas,
        requirements: requirements.map_err(|error| invalid(error.to_string()))?,
        priority_class_name,
    })
}

/// Returns the patch of a response. A response without a patch changes nothing.
fn patch(response: InterpreterResponse) -> Result<BoundedPatch, WebhookError> {
    let text = response.patch.filter(|patch| !patch.is_empty());
    let operations: Vec<Value> = match (text, response.patch_type.as_deref()) {
        (None, None) => Vec::new(),
        (Some(_), None) => return Err(invalid("webhook returned nil response.patchType")),
        (None, Some(_)) => return Err(invalid("webhook returned empty response.patch")),
        (Some(text), Some("JSONPatch")) => {
            let bytes = STANDARD.decode(text);
            let bytes = bytes.map_err(|error| invalid(format!("response.patch: {error}")))?;
            serde_json::from_slice(&bytes)
                .map_err(|error| invalid(format!("response.patch: {error}")))?
        }
        (Some(_), Some(other)) => {
            return Err(invalid(format!(
                "webhook returned invalid response.patchType of {other:?}"
            )));
        }
    };
    BoundedPatch::new(operations).map_err(|error| WebhookError::Patch(error.to_string()))
}

fn invalid(problem: impl Into<String>) -> WebhookError {
    WebhookError::Response(problem.into())
}
