//! [`Interpreter`]'s questions to webhooks: reads answers that the caller already has, or reports the missing request.
//! Also loads and lists the webhooks.

use std::sync::{Arc, PoisonError};

use berth_api::ResourceInterpreterWebhookConfiguration;
use berth_api::dependency::DependentObjectReference;
use berth_apimachinery::json_fields::kind_of;
use serde_json::Value;

use super::Interpreter;
use crate::error::InterpretError;
use crate::operation::Operation;
use crate::webhooks::{Answer, Answers, Configurations, Webhook, WebhookError, WebhookRequest};

impl Interpreter {
    /// Replaces all webhooks.
    pub fn load_webhooks(&self, configurations: Vec<ResourceInterpreterWebhookConfiguration>) {
        let new = Arc::new(Configurations::new(configurations));
        let slot = self.webhooks.write();
        *slot.unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Returns an interpreter with the same rules, which gets the responses of webhooks from `answers`.
    #[must_use]
    pub fn with_answers(&self, answers: Answers) -> Self {
        Self {
            answers: Some(answers),
            ..self.clone()
        }
    }

    /// Returns the configured webhooks, sorted by name.
    pub fn webhooks(&self) -> Vec<Arc<Webhook>> {
        self.configurations().all().to_vec()
    }

    /// Reports whether any webhook is configured.
    pub fn has_webhooks(&self) -> bool {
        !self.configurations().all().is_empty()
    }

    /// Reports whether a webhook performs an operation for a kind.
    pub fn has_webhook(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let configurations = self.configurations();
        configurations.find(api_version, kind, operation).is_some()
    }

    fn configurations(&self) -> Arc<Configurations> {
        let slot = self.webhooks.read();
        Arc::clone(&slot.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the result of a webhook for an operation. Returns `None` if no webhook performs the operation.
    /// `complete` adds arguments to the request, and `read` converts the answer to the result.
    pub(super) fn ask<T>(
        &self,
        (api_version, kind): (&str, &str),
        operation: Operation,
        object: &Value,
        complete: impl FnOnce(WebhookRequest) -> WebhookRequest,
        read: impl FnOnce(Answer) -> Result<T, WebhookError>,
    ) -> Result<Option<T>, InterpretError> {
        let configurations = self.configurations();
        let Some(webhook) = configurations.find(api_version, kind, operation) else {
            return Ok(None);
        };
        let answer = match &self.answers {
            Some(answers) => answers.get(complete(WebhookRequest::new(webhook, operation, object))),
            None => Err(WebhookError::NotCalled),
        };
        answer
            .and_then(read)
            .map(Some)
            .map_err(|source| InterpretError::Webhook {
                webhook: webhook.name().to_owned(),
                operation,
                source,
            })
    }

    /// Returns the object after the changes of a webhook. Returns `None` if no webhook performs the operation.
    pub(super) fn ask_patch(
        &self,
        operation: Operation,
        object: &Value,
        complete: impl FnOnce(WebhookRequest) -> WebhookRequest,
    ) -> Result<Option<Value>, InterpretError> {
        let kind = kind_of(object);
        let apply = |answer| {
            let Answer::Patch(patch) = answer else {
                return Err(WebhookError::mismatch());
            };
            let mut patched = object.clone();
            patch
                .apply(&mut patched)
                .map_err(|error| WebhookError::Patch(error.to_string()))?;
            if kind_of(&patched) == kind {
                Ok(patched)
            } else {
                let problem = "it changes the kind of the object".to_owned();
                Err(WebhookError::Patch(problem))
            }
        };
        self.ask(kind, operation, object, complete, apply)
    }

    /// Returns the dependencies that a webhook finds. Returns `None` if no webhook performs the operation.
    pub(super) fn ask_dependencies(
        &self,
        kind: (&str, &str),
        template: &Value,
    ) -> Result<Option<Vec<DependentObjectReference>>, InterpretError> {
        let read = |answer| match answer {
            Answer::Dependencies(found) => Ok(found),
            _ => Err(WebhookError::mismatch()),
        };
        let operation = Operation::InterpretDependency;
        self.ask(kind, operation, template, |request| request, read)
    }
}
