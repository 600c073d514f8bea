//! Requests to interpreter webhooks.

use std::sync::Arc;

use berth_api::binding::AggregatedStatusItem;
use berth_api::interpreter_context::{
    API_VERSION, GroupVersionKind, InterpreterRequest, KIND, ResourceInterpreterContext, VERSION,
};
use berth_apimachinery::json_fields::{kind_of, text_at};
use serde_json::Value;

use super::configurations::Webhook;
use super::error::WebhookError;
use crate::operation::Operation;

/// A request to a webhook: an operation on an object.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookRequest {
    pub(super) webhook: Arc<Webhook>,
    pub(super) operation: Operation,
    object: Value,
    observed: Option<Value>,
    replicas: i32,
    items: Vec<AggregatedStatusItem>,
}

impl WebhookRequest {
    pub(crate) fn new(webhook: &Arc<Webhook>, operation: Operation, object: &Value) -> Self {
        Self {
            webhook: Arc::clone(webhook),
            operation,
            object: object.clone(),
            observed: None,
            replicas: 0,
            items: Vec::new(),
        }
    }

    pub(crate) fn with_observed(self, observed: &Value) -> Self {
        Self {
            observed: Some(observed.clone()),
            ..self
        }
    }

    pub(crate) fn with_replicas(self, replicas: i32) -> Self {
        Self { replicas, ..self }
    }

    pub(crate) fn with_items(self, items: &[AggregatedStatusItem]) -> Self {
        Self {
            items: items.to_vec(),
            ..self
        }
    }

    /// Returns the webhook to call.
    pub fn webhook(&self) -> &Arc<Webhook> {
        &self.webhook
    }

    /// Returns the operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the request as a JSON document. `uid` identifies the request.
    ///
    /// # Errors
    /// When the webhook accepts no known version of ResourceInterpreterContext.
    pub fn body(&self, uid: &str) -> Result<Vec<u8>, WebhookError> {
        if !self.webhook.versions().iter().any(|v| v == VERSION) {
            return Err(WebhookError::Versions);
        }
        let (api_version, kind) = kind_of(&self.object);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let request = InterpreterRequest {
            uid: uid.to_owned(),
            kind: GroupVersionKind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
            },
            name: text_at(&self.object, "/metadata/name").to_owned(),
            namespace: text_at(&self.object, "/metadata/namespace").to_owned(),
            operation: self.operation.name().to_owned(),
            object: self.object.clone(),
            observed_object: self.observed.clone(),
            desired_replicas: Some(self.replicas),
            aggregated_status: self.items.clone(),
        };
        let message = ResourceInterpreterContext {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            request: Some(request),
            response: None,
        };
        serde_json::to_vec(&message).map_err(|error| WebhookError::Call(error.to_string()))
    }
}
