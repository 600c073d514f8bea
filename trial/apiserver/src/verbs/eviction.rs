//! The subresource `pods/NAME/eviction`, which deletes a pod if its PodDisruptionBudget allows the disruption.
//!
//! This module must not know how the status of budgets is computed.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::delete;
use super::delete_options::DeleteOptions;
use super::pipeline::{self, Source, WriteKind};
use super::{Call, Origin, Outcome, check_body_metadata, created_status, set_condition, text};
use crate::error::{ApiError, Cause, Reason};
use crate::resource::Subresource;
use crate::selector::{compiled, label_map};
use crate::store::{Key, Stored};
use crate::table_names::{DISRUPTION_BUDGETS, PODS};
use crate::{clock, codec};

/// The delay in seconds after which a client retries while the controller has not yet processed the budget.
const RETRY_AFTER: u32 = 10;

/// A decoded request to evict a pod.
struct Eviction<'a> {
    /// The call. Its resource is `Eviction`, and its name is the name of the pod.
    call: &'a Call,
    key: Key,
    options: DeleteOptions,
}

/// Evicts a pod.
pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    let decoded = codec::typed_object(content_type, bytes, &call.resource.kind)?;
    let mut value = decoded.value;
    let warnings = pipeline::decode(call, &mut value, Source::Body, &decoded.duplicates)?;
    let key = call.key();
    check_body_metadata(&value, &key)?;
    let mut options = DeleteOptions::read(value["deleteOptions"].take())?;
    options.dry_run |= call.options.dry_run;
    let eviction = Eviction { call, key, options };
    eviction.evict().await?;
    Ok(created_status().warn(warnings))
}

impl Eviction<'_> {
    /// Creates a call with which the server writes the status of an object.
    fn internal_call(&self, table: &str, name: &str) -> Result<Call, ApiError> {
        let snapshot = self.call.shared.registry.snapshot();
        let resource = snapshot.by_table.get(table);
        let resource = resource.ok_or_else(|| ApiError::not_found("", table, name))?;
        let mut call = Call::internal(&self.call.shared, resource, &self.key.namespace, name);
        call.options.dry_run = self.options.dry_run;
        call.subresource = Some(Subresource::Status);
        Ok(call)
    }

    async fn evict(&self) -> Result<(), ApiError> {
        let mut pods = self.internal_call(PODS, &self.key.name)?;
        let stored = pods.find()?;
        let pod = stored.value();
        let phase = text(&pod, &["status", "phase"]);
        let is_idle = stored.deleting || matches!(phase, "Pending" | "Succeeded" | "Failed");
        if !is_idle
            && let Some(budget) = self.budget(&pod)?
            && !is_exempt(&pod, &budget.value())
        {
            let budgets = self.internal_call(DISRUPTION_BUDGETS, &budget.key.name)?;
            pipeline::modify(&budgets, &budget.key, WriteKind::Plain, |budget| {
                with_disruption(budget, &self.key.name)
            })
            .await?;
        }
        // This origin skips webhooks, which do not review the deletion of an evicted pod.
        pods.origin = Origin::Unreviewed;
        let mut options = self.options.clone();
        if !options.dry_run {
            let marked = pipeline::modify(&pods, &self.key, WriteKind::Unowned, |pod| {
                let [uid, version] =
                    ["uid", "resourceVersion"].map(|field| text(pod, &["metadata", field]));
                options.check(&pods, &self.key, uid, version)?;
                Ok(with_disruption_target(pod))
            })
            .await?;
            let version = marked.version.to_string();
            options.version = options.version.map(|_| version);
        }
        pods.subresource = None;
        delete::remove(&pods, &self.key, &options).await.map(drop)
    }

    /// Returns the budget that selects the pod. Fails if several budgets select the pod.
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
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

/// Reports whether a pod is not ready, and its budget allows the eviction of such a pod without counting a disruption.
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

/// Returns the budget after one more disruption, or an error if the budget allows none.
fn with_disruption(budget: &Value, pod: &str) -> Result<Value, ApiError> {
    let name = text(budget, &["metadata", "name"]);
    let status = &budget["status"];
    if number(status, "observedGeneration") < number(&budget["metadata"], "generation") {
        let detail =
            format!("The disruption budget {name} is still being processed by the server.");
        return Err(would_violate(&detail, Some(RETRY_AFTER)));
    }
    let allowed = number(status, "disruptionsAllowed");
    if allowed <= 0 {
        let [healthy, desired] =
            ["currentHealthy", "desiredHealthy"].map(|field| number(status, field));
        let detail = format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        );
        return Err(would_violate(&detail, None));
    }
    let mut budget = budget.clone();
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = json!(allowed - 1);
    status["disruptedPods"][pod] = json!(clock::now());
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": clock::now(), "observedGeneration": status["observedGeneration"],
        });
        set_condition(status, condition);
    }
    Ok(budget)
}

/// Returns the pod with the condition `DisruptionTarget`.
fn with_disruption_target(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": clock::now(),
    });
    set_condition(&mut pod["status"], condition);
    pod
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
