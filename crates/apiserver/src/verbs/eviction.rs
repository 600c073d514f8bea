//! `pods/NAME/eviction`: deletes a pod if its PodDisruptionBudget allows it.
//!
//! It must not know how the status of budgets is computed.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::delete::{self, DeleteOptions};
use super::pipeline::{self, Source, WriteKind};
use super::{Call, Origin, Outcome, created_status, text};
use crate::error::{ApiError, Cause, Reason};
use crate::resource::Subresource;
use crate::selector::{compiled, label_map};
use crate::store::{Key, Stored};
use crate::tables::{DISRUPTION_BUDGETS, PODS};
use crate::{clock, codec};

/// Maximum attempts to evict a pod that changes meanwhile.
const MAX_ATTEMPTS: usize = 20;
/// Maximum disrupted pods in the status of a budget.
const MAX_DISRUPTED: usize = 2000;
/// Retry delay while a budget is being processed, in seconds.
const RETRY_AFTER: u32 = 10;

/// The result of one attempt.
enum Attempt {
    Done,
    /// The pod changed meanwhile.
    Conflict(ApiError),
}

/// A decoded eviction.
struct Eviction<'a> {
    /// The call, with the resource of `Eviction` and the key of the pod.
    call: &'a Call,
    key: Key,
    dry_run: bool,
    options: Value,
}

/// Evicts a pod.
pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    let (eviction, warnings) = Eviction::read(call, content_type, bytes).await?;
    let mut attempt = eviction.evict().await?;
    for _ in 1..MAX_ATTEMPTS {
        if let Attempt::Conflict(_) = attempt {
            attempt = eviction.evict().await?;
        }
    }
    if let Attempt::Conflict(error) = attempt {
        return Err(error);
    }
    Ok(created_status().warn(warnings))
}

impl<'a> Eviction<'a> {
    async fn read(
        call: &'a Call,
        content_type: &str,
        bytes: &Bytes,
    ) -> Result<(Self, Vec<String>), ApiError> {
        let decoded = codec::typed_object(content_type, bytes, &call.resource.kind)?;
        let mut value = decoded.value;
        // policy/v1beta1 has the same fields.
        if value["apiVersion"] == "policy/v1beta1" {
            value["apiVersion"] = json!(call.resource.api_version());
        }
        let warnings = pipeline::decode(call, &mut value, Source::Body, &decoded.duplicates)?;
        let key = call.key();
        if !["", &*key.namespace].contains(&text(&value, &["metadata", "namespace"])) {
            let detail = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(detail));
        }
        if text(&value, &["metadata", "name"]) != &*key.name {
            let detail = "name in URL does not match name in Eviction object";
            return Err(ApiError::bad_request(detail));
        }
        let subresource =
            pipeline::VirtualSubresource::new("pods", "eviction", ("policy", "v1", "Eviction"));
        pipeline::review_virtual(call, &subresource, &mut value).await?;
        let options = value["deleteOptions"].take();
        let unsafe_field = "ignoreStoreReadErrorWithClusterBreakingPotential";
        if options[unsafe_field] == true {
            let cause = Cause::invalid(
                format!("deleteOptions.{unsafe_field}"),
                &json!(true),
                "can not be set for pod eviction, try after removing the option",
            );
            let (group, kind) = (&call.resource.group, &call.resource.kind);
            return Err(ApiError::invalid(group, kind, &key.name, vec![cause]));
        }
        let dry_run = &options["dryRun"];
        let in_body = dry_run.as_array().is_some_and(|stages| !stages.is_empty());
        if in_body && call.options.dry_run && *dry_run != json!(["All"]) {
            return Err(ApiError::unknown(format!(
                "Non-matching dry-run options in request and content: [All] and {dry_run}"
            )));
        }
        let eviction = Self {
            call,
            key,
            dry_run: in_body || call.options.dry_run,
            options,
        };
        Ok((eviction, warnings))
    }

    /// Creates a call by the server itself for an object of a table.
    fn internal_call(&self, table: &str, name: &str) -> Result<Call, ApiError> {
        let snapshot = self.call.shared.registry.snapshot();
        let resource = snapshot.by_table.get(table);
        let resource = resource.ok_or_else(|| ApiError::not_found("", table, name))?;
        let mut call = Call::internal(&self.call.shared, resource, &self.key.namespace, name);
        call.options.dry_run = self.dry_run;
        call.subresource = Some(Subresource::Status);
        // Webhooks have reviewed the eviction.
        call.origin = Origin::Step;
        Ok(call)
    }

    /// Attempts the eviction once.
    async fn evict(&self) -> Result<Attempt, ApiError> {
        let pods = self.internal_call(PODS, &self.key.name)?;
        let pod = pods.find()?;
        let mut options = DeleteOptions::read(&self.options)?;
        options.dry_run = self.dry_run;
        let requested = options.version.clone();
        let current = requested.clone().or_else(|| Some(pod.version.to_string()));
        let value = pod.value();
        let phase = text(&value, &["status", "phase"]);
        if pod.deleting || matches!(phase, "Succeeded" | "Failed") {
            return self.remove(&pods, options).await;
        }
        if phase == "Pending" {
            options.version = current;
            return match self.remove(&pods, options).await {
                Err(error) if is_race(&error, requested.as_ref()) => Ok(Attempt::Conflict(error)),
                done => done,
            };
        }
        let Some(budget) = self.budget(&value)? else {
            return self.remove(&pods, options).await;
        };
        if is_exempt(&value, &budget.value()) {
            // The pod must not become ready meanwhile.
            options.version = current;
            return match self.remove(&pods, options).await {
                Err(error) if is_race(&error, requested.as_ref()) => {
                    Err(still_processed(&budget.key.name))
                }
                done => done,
            };
        }
        let mut budgets = self.internal_call(DISRUPTION_BUDGETS, &budget.key.name)?;
        budgets.origin = Origin::Task;
        pipeline::modify(&budgets, &budget.key, WriteKind::Plain, |budget| {
            with_disruption(budget, &self.key.name)
        })
        .await?;
        self.remove(&pods, options).await
    }

    /// Returns the budget that selects the pod.
    fn budget(&self, pod: &Value) -> Result<Option<Arc<Stored>>, ApiError> {
        let store = &self.call.shared.store;
        let mut all = store
            .list(DISRUPTION_BUDGETS, Some(&self.key.namespace))
            .items;
        let labels = label_map(&pod["metadata"]["labels"]);
        all.retain(|budget| {
            let selector = &budget.value()["spec"]["selector"];
            !selector.is_null() && compiled(selector).is_some_and(|s| s.matches(&labels))
        });
        if all.len() > 1 {
            return Err(ApiError::unknown(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        Ok(all.pop())
    }

    /// Sets the `DisruptionTarget` condition of the pod and deletes it.
    async fn remove(&self, pods: &Call, mut options: DeleteOptions) -> Result<Attempt, ApiError> {
        if !self.dry_run {
            let marked = pipeline::modify(pods, &self.key, WriteKind::Unowned, |pod| {
                let uid = text(pod, &["metadata", "uid"]);
                let version = text(pod, &["metadata", "resourceVersion"]);
                options.check(pods, &self.key, uid, version)?;
                Ok(with_disruption_target(pod))
            })
            .await?;
            if options.version.is_some() {
                options.version = Some(marked.object.version.to_string());
            }
        }
        let mut pods = self.internal_call(PODS, &self.key.name)?;
        pods.subresource = None;
        let removed = delete::remove(&pods, &self.key, &options).await;
        removed.map(|_| Attempt::Done)
    }
}

/// Reports whether a conflict may be retried: the client requested no version.
fn is_race(error: &ApiError, requested: Option<&String>) -> bool {
    error.reason == Reason::Conflict && requested.is_none()
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

/// Reports whether the budget does not count the pod, which is not ready.
fn is_exempt(pod: &Value, budget: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    if conditions.any(|c| c["type"] == "Ready" && c["status"] == "True") {
        return false;
    }
    let status = &budget["status"];
    let desired = number(status, "desiredHealthy");
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (desired > 0 && number(status, "currentHealthy") >= desired)
}

/// Returns the budget after one more disruption, or the error if it allows none.
fn with_disruption(budget: &Value, pod: &str) -> Result<Value, ApiError> {
    let name = text(budget, &["metadata", "name"]);
    let status = &budget["status"];
    let generation = number(&budget["metadata"], "generation");
    if number(status, "observedGeneration") < generation {
        return Err(still_processed(name));
    }
    let refused = |message: &str| {
        Err(ApiError::forbidden(
            "policy",
            "poddisruptionbudget",
            name,
            message,
        ))
    };
    let allowed = number(status, "disruptionsAllowed");
    if allowed < 0 {
        return refused("pdb disruptions allowed is negative");
    }
    let disrupted = status["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return refused(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 {
        return Err(would_violate(&exhausted(name, status), None));
    }
    let mut budget = budget.clone();
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = json!(allowed - 1);
    if allowed == 1 {
        set_exhausted(status);
    }
    status["disruptedPods"][pod] = json!(clock::now());
    Ok(budget)
}

/// Returns the message for a budget that allows no disruption.
fn exhausted(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array();
    let condition = conditions.into_iter().flatten().find(|condition| {
        condition["type"] == "DisruptionAllowed"
            && condition["status"] == "False"
            && !text(condition, &["message"]).is_empty()
    });
    let (reason, detail) = condition.map_or(("", ""), |condition| {
        (text(condition, &["reason"]), text(condition, &["message"]))
    });
    let (healthy, desired) = (
        number(status, "currentHealthy"),
        number(status, "desiredHealthy"),
    );
    match condition {
        Some(_) if reason == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {detail}"
        ),
        _ if healthy <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        ),
        Some(_) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {detail}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// Sets the condition of a budget that allows no further disruption.
fn set_exhausted(status: &mut Value) {
    let mut condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": clock::now(),
    });
    if let Some(generation) = status.get("observedGeneration") {
        condition["observedGeneration"] = generation.clone();
    }
    set_condition(status, condition);
}

/// Returns the pod with the `DisruptionTarget` condition.
fn with_disruption_target(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": clock::now(),
    });
    set_condition(&mut pod["status"], condition);
    pod
}

/// Sets a condition and keeps its transition time if the status is unchanged.
fn set_condition(status: &mut Value, mut condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(all) = status["conditions"].as_array_mut() else {
        return;
    };
    match all.iter_mut().find(|c| c["type"] == condition["type"]) {
        Some(known) => {
            if known["status"] == condition["status"] {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => all.push(condition),
    }
}

/// Returns the error for a budget whose status is outdated.
fn still_processed(budget: &str) -> ApiError {
    let message = format!("The disruption budget {budget} is still being processed by the server.");
    would_violate(&message, Some(RETRY_AFTER))
}

fn would_violate(detail: &str, retry_after: Option<u32>) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::new(Reason::TooManyRequests, message);
    error.retry_after = retry_after;
    error.causes = vec![Cause {
        field: String::new(),
        reason: "DisruptionBudget".to_owned(),
        message: detail.to_owned(),
    }];
    error
}
