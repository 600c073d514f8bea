//! Calls to the webhooks of a request: mutating ones one after the other, validating ones together.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::request::{Invocation, Objects, Request};
use crate::error::{ApiError, Reason};
use crate::http::load::Refusal;
use crate::patch::json::Operations;
use crate::verbs::Origin;
use crate::verbs::pipeline::admission::Reviewed;
use crate::webhooks::Phase;
use crate::webhooks::client::Client;
use crate::webhooks::configuration::{FailurePolicy, Webhook};
use crate::webhooks::review::{self, Verdict};

/// Why a webhook does not let a request pass.
enum Problem {
    /// The webhook could not be called, or its answer cannot be used.
    Call(String),
    Refusal(ApiError),
}

impl<'a> Request<'a> {
    /// Asks one webhook.
    async fn ask(
        &self,
        phase: Phase,
        invocation: &Invocation,
        objects: Objects<'_>,
    ) -> Result<Verdict, Problem> {
        let webhook = &*invocation.webhook;
        if self.dry_run && !webhook.dry_run {
            let why = format!(
                "admission webhook \"{}\" does not support dry run",
                webhook.name
            );
            return Err(Problem::Refusal(ApiError::bad_request(why)));
        }
        let timeout = webhook.timeout.min(self.time_left()?);
        let mut request = self.shown(invocation);
        request["object"] = self.sent(objects.new, &invocation.resource);
        request["oldObject"] = self.sent(objects.old, &invocation.resource);
        let uid = uuid::Uuid::new_v4().to_string();
        let body = review::review(webhook.version, &uid, request);
        let shared = &self.call.shared;
        let client = webhook.client(|target| Client::new(target, shared));
        let client = client.map_err(Problem::Call)?;
        let answer = client.post(body.to_string().into_bytes(), timeout).await;
        let answer = answer.map_err(Problem::Call)?;
        let verdict = review::verdict(webhook.version, phase, &uid, &answer)
            .map_err(|why| Problem::Call(format!("received invalid webhook response: {why}")))?;
        let mut warnings = self.call.warnings.lock();
        for warning in &verdict.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        drop(warnings);
        match &verdict.refusal {
            Some(status) => Err(Problem::Refusal(review::denied(&webhook.name, status))),
            None => Ok(verdict),
        }
    }

    /// How long the client still waits.
    fn time_left(&self) -> Result<Duration, Problem> {
        let left = self.call.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let why = "request did not complete within requested timeout";
            return Err(Problem::Refusal(ApiError::new(Reason::Timeout, why)));
        }
        Ok(left)
    }

    /// Lets a failed call pass if the webhook's policy says so.
    fn judge(&self, webhook: &Webhook, problem: Problem) -> Result<(), ApiError> {
        let why = match problem {
            Problem::Refusal(error) => return Err(error),
            Problem::Call(why) => why,
        };
        let why = format!("failed calling webhook \"{}\": {why}", webhook.name);
        tracing::warn!(policy = ?webhook.failure_policy, "{why}");
        match webhook.failure_policy {
            FailurePolicy::Fail => Err(ApiError::internal(why)),
            FailurePolicy::Ignore => match self.time_left() {
                Err(Problem::Refusal(error)) => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// A turn to wait for webhooks. Tasks of the server are few and hold no place of a client.
    fn turn(&self) -> Result<Option<SemaphorePermit<'a>>, ApiError> {
        if self.call.origin == Origin::Task {
            return Ok(None);
        }
        let shared = &self.call.shared;
        let turn = shared.webhook_turns.take();
        turn.map(Some)
            .ok_or_else(|| shared.load.refusals().count(Refusal::Webhooks))
    }

    /// Calls the mutating webhooks, one after the other. `settle` completes an object that was changed.
    pub(super) async fn mutate(
        &self,
        object: &mut Value,
        old: &Value,
        settle: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
    ) -> Result<Reviewed, ApiError> {
        let invocations = self.invocations(Phase::Mutating);
        if invocations.is_empty() {
            return Ok(Reviewed::No);
        }
        let _turn = self.turn()?;
        // Webhooks to call again if a later one changes the object, and those for which that has happened.
        let (mut called, mut again): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, invocation) in invocations.iter().enumerate() {
            let objects = Objects { new: object, old };
            if !self.applies(invocation, objects)? {
                continue;
            }
            if self.call_one(invocation, object, old, settle).await? {
                again.append(&mut called);
            }
            if invocation.webhook.reinvoked {
                called.push(at);
            }
        }
        again.sort_unstable();
        for at in again {
            let invocation = &invocations[at];
            let objects = Objects { new: object, old };
            if self.applies(invocation, objects)? {
                self.call_one(invocation, object, old, settle).await?;
            }
        }
        Ok(Reviewed::Yes)
    }

    /// Calls one mutating webhook, and reports whether it has changed the object.
    async fn call_one(
        &self,
        invocation: &Invocation,
        object: &mut Value,
        old: &Value,
        settle: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
    ) -> Result<bool, ApiError> {
        let webhook = &*invocation.webhook;
        let objects = Objects { new: object, old };
        let verdict = match self.ask(Phase::Mutating, invocation, objects).await {
            Ok(verdict) => verdict,
            Err(problem) => return self.judge(webhook, problem).map(|()| false),
        };
        let Some(patch) = verdict.patch else {
            return Ok(false);
        };
        if object.is_null() {
            return Err(ApiError::internal(format!(
                "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
                webhook.name
            )));
        }
        let mut patched = self.sent(object, &invocation.resource);
        let before = patched.clone();
        Operations::parse(&patch)
            .and_then(|operations| operations.apply(&mut patched))
            .map_err(|error| {
                let why = format!(
                    "the patch of admission webhook \"{}\": {error}",
                    webhook.name
                );
                ApiError::internal(why)
            })?;
        if patched == before {
            return Ok(false);
        }
        let managed = object["metadata"].get("managedFields").cloned();
        *object = self.taken(patched, object, &invocation.resource)?;
        settle(object)?;
        keep_managed(object, managed);
        Ok(true)
    }

    /// Calls the validating webhooks, all at once.
    pub(super) async fn validate(&self, new: &Value, old: &Value) -> Result<Reviewed, ApiError> {
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
            return Ok(Reviewed::No);
        }
        let _turn = self.turn()?;
        let answers = invocations.iter().map(async |invocation| {
            match self.ask(Phase::Validating, invocation, objects).await {
                Ok(_) => Ok(()),
                Err(problem) => self.judge(&invocation.webhook, problem),
            }
        });
        for answer in futures::future::join_all(answers).await {
            answer?;
        }
        Ok(Reviewed::Yes)
    }
}

/// Fields that a webhook changes have no manager; managed fields that it writes must be decodable.
fn keep_managed(object: &mut Value, before: Option<Value>) {
    let readable = |entry: &Value| {
        matches!(entry["operation"].as_str(), Some("Apply" | "Update"))
            && entry["manager"].is_string()
            && entry["fieldsV1"].is_object()
    };
    let entries = object["metadata"]["managedFields"].as_array();
    if entries.is_some_and(|entries| entries.iter().all(readable)) {
        return;
    }
    let metadata = object.get_mut("metadata");
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        match before {
            Some(before) => drop(metadata.insert("managedFields".to_owned(), before)),
            None => drop(metadata.remove("managedFields")),
        }
    }
}
