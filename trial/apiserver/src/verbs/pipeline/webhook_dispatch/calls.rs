//! The sequence of the webhook calls for a write: mutating webhooks are called in turn, and validating webhooks in
//! parallel. Sends the AdmissionRequests that `request` builds, and applies the responses of the webhooks or their
//! failure policies.

use std::sync::Arc;
use std::time::Duration;

use berth_https_client::{Resolver, WebhookClient};
use serde_json::Value;
use tokio::time::Instant;

use super::Matched;
use super::request::{Invocation, Objects, Request};
use crate::error::{ApiError, Reason};
use crate::patch::json::Operations;
use crate::webhook_registry::Phase;
use crate::webhook_registry::admission_review::{self, Decision};
use crate::webhook_registry::configuration::{FailurePolicy, Webhook};
use crate::webhook_registry::resolve::resolve;

/// The `User-Agent` header of the calls.
const USER_AGENT: &str = concat!("berth-apiserver/", env!("CARGO_PKG_VERSION"));

/// The reason for which a webhook call did not allow the request.
enum Failure {
    /// The call failed, or the webhook returned a malformed response. The failure policy decides about the request.
    Call(String),
    /// The request fails with this error, regardless of the failure policy.
    Denied(ApiError),
}

impl Request<'_> {
    /// Calls one webhook. Adds the warnings of the webhook to the response, and returns the decision if the request is
    /// allowed.
    async fn call_webhook(
        &self,
        phase: Phase,
        invocation: &Invocation,
        objects: Objects<'_>,
    ) -> Result<Decision, Failure> {
        let webhook = &*invocation.webhook;
        if self.dry_run && !webhook.supports_dry_run {
            let message = format!(
                "admission webhook \"{}\" does not support dry run",
                webhook.name
            );
            return Err(Failure::Denied(ApiError::bad_request(message)));
        }
        let timeout = webhook.timeout.min(self.time_left()?);
        let mut request = self.admission_request(invocation);
        request["object"] = self.convert(objects.new, &invocation.resource);
        request["oldObject"] = self.convert(objects.old, &invocation.resource);
        let uid = uuid::Uuid::new_v4().to_string();
        let body = admission_review::build(&uid, request);
        let client =
            webhook.client(|target| WebhookClient::new(target, USER_AGENT, self.resolver()));
        let client = client.map_err(|error| Failure::Call(error.to_string()))?;
        let response = client.post(body.to_string().into_bytes(), timeout).await;
        let response = response.map_err(|error| Failure::Call(error.to_string()))?;
        let decision = admission_review::parse(phase, &uid, &response).map_err(|message| {
            Failure::Call(format!("received invalid webhook response: {message}"))
        })?;
        let mut warnings = self.call.warnings.lock();
        for warning in &decision.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        drop(warnings);
        match &decision.denial {
            Some(status) => Err(Failure::Denied(admission_review::denied(
                &webhook.name,
                status,
            ))),
            None => Ok(decision),
        }
    }

    /// Returns a resolver of Services. The resolver refers to the shared state weakly to avoid a reference cycle: the
    /// shared state owns the clients of webhooks, and each client owns a resolver.
    fn resolver(&self) -> Resolver {
        let shared = Arc::downgrade(&self.call.shared);
        Arc::new(move |host, port, kind| {
            let resolved = match shared.upgrade() {
                Some(shared) => resolve(&shared.store, &host, port, kind),
                None => Err("the server has stopped".to_owned()),
            };
            Box::pin(std::future::ready(resolved))
        })
    }

    /// Returns the time until the deadline of the reviewed request, or a failure after the deadline.
    fn time_left(&self) -> Result<Duration, Failure> {
        let left = self.call.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let message = "request did not complete within requested timeout";
            return Err(Failure::Denied(ApiError::new(Reason::Timeout, message)));
        }
        Ok(left)
    }

    /// Returns the error for a call that did not allow the request. Returns `Ok` if the call failed before the deadline
    /// of the request and the failure policy is `Ignore`.
    fn apply_failure_policy(&self, webhook: &Webhook, failure: Failure) -> Result<(), ApiError> {
        let message = match failure {
            Failure::Denied(error) => return Err(error),
            Failure::Call(message) => message,
        };
        let message = format!("failed calling webhook \"{}\": {message}", webhook.name);
        let policy = match webhook.failure_policy {
            FailurePolicy::Fail => "Fail",
            FailurePolicy::Ignore => "Ignore",
        };
        tracing::warn!(policy, "{message}");
        match webhook.failure_policy {
            FailurePolicy::Fail => Err(ApiError::internal(message)),
            FailurePolicy::Ignore => match self.time_left() {
                Err(Failure::Denied(error)) => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// Calls the mutating webhooks in sequence. `complete` decodes an object that a webhook changed, and sets its
    /// defaults.
    pub(super) async fn mutate(
        &self,
        object: &mut Value,
        old: &Value,
        complete: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
    ) -> Result<Matched, ApiError> {
        let invocations = self.invocations(Phase::Mutating);
        if invocations.is_empty() {
            return Ok(Matched::No);
        }
        // Indexes of the called webhooks with `reinvocationPolicy: IfNeeded`. After a later webhook changes the object,
        // the indexes move from `called` to `again`.
        let (mut called, mut again): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, invocation) in invocations.iter().enumerate() {
            let objects = Objects { new: object, old };
            if !self.applies(invocation, objects)? {
                continue;
            }
            if self
                .call_mutating(invocation, object, old, complete)
                .await?
            {
                again.append(&mut called);
            }
            if invocation.webhook.reinvoke {
                called.push(at);
            }
        }
        again.sort_unstable();
        for at in again {
            let invocation = &invocations[at];
            let objects = Objects { new: object, old };
            if self.applies(invocation, objects)? {
                self.call_mutating(invocation, object, old, complete)
                    .await?;
            }
        }
        Ok(Matched::Yes)
    }

    /// Calls one mutating webhook, and reports whether the webhook changed the object.
    async fn call_mutating(
        &self,
        invocation: &Invocation,
        object: &mut Value,
        old: &Value,
        complete: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
    ) -> Result<bool, ApiError> {
        let webhook = &*invocation.webhook;
        let objects = Objects { new: object, old };
        let decision = match self
            .call_webhook(Phase::Mutating, invocation, objects)
            .await
        {
            Ok(decision) => decision,
            Err(failure) => return self.apply_failure_policy(webhook, failure).map(|()| false),
        };
        let Some(patch) = decision.patch else {
            return Ok(false);
        };
        if object.is_null() {
            return Err(ApiError::internal(format!(
                "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
                webhook.name
            )));
        }
        let mut patched = self.convert(object, &invocation.resource);
        let before = patched.clone();
        Operations::parse(&patch)
            .and_then(|operations| operations.apply(&mut patched))
            .map_err(|error| {
                let message = format!(
                    "cannot apply the patch of admission webhook \"{}\": {error}",
                    webhook.name
                );
                ApiError::internal(message)
            })?;
        if patched == before {
            return Ok(false);
        }
        *object = self.convert_back(patched, object, &invocation.resource)?;
        complete(object)?;
        Ok(true)
    }

    /// Calls the validating webhooks in parallel.
    pub(super) async fn validate(&self, new: &Value, old: &Value) -> Result<Matched, ApiError> {
        let mut invocations = self.invocations(Phase::Validating);
        let objects = Objects { new, old };
        let mut problem = None;
        invocations.retain(|invocation| match self.applies(invocation, objects) {
            Ok(applies) => applies,
            Err(error) => {
                problem.get_or_insert(error);
                false
            }
        });
        if let Some(error) = problem {
            return Err(error);
        }
        if invocations.is_empty() {
            return Ok(Matched::No);
        }
        let responses = invocations.iter().map(async |invocation| {
            match self
                .call_webhook(Phase::Validating, invocation, objects)
                .await
            {
                Ok(_) => Ok(()),
                Err(failure) => self.apply_failure_policy(&invocation.webhook, failure),
            }
        });
        for response in futures::future::join_all(responses).await {
            response?;
        }
        Ok(Matched::Yes)
    }
}
