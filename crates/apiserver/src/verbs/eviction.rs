//! `pods/NAME/eviction`: a pod is to leave its node, if the budgets for disruptions have something left for it.
//!
//! Who keeps the status of budgets is none of its business: it takes from what is allowed, and says for whom.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::delete::{self, Options};
use super::pipeline::{self, Sent, Write};
use super::{Call, Origin, Subresource, text};
use crate::clock;
use crate::error::{ApiError, Cause, Reason};
use crate::go_text::printed;
use crate::http::{body, respond};
use crate::selector::{compiled, label_map};
use crate::store::{Key, Stored};
use crate::tasks;

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// How often a pod is looked at again that changes while it is evicted.
const ATTEMPTS: usize = 20;
/// So many evicted pods a budget remembers.
const MOST_DISRUPTED: usize = 2000;
/// What is told to those who ask too soon, in seconds.
const LATER: u32 = 10;

/// What came of looking at a pod and evicting it.
enum Attempt {
    Done,
    /// The pod has changed meanwhile.
    TooSlow(ApiError),
}

/// What a pod is evicted with.
struct Eviction<'a> {
    /// Of the resource `Eviction`, and the pod that it is about.
    call: &'a Call,
    key: Key,
    dry_run: bool,
    options: Value,
}

pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let (eviction, warnings) = Eviction::read(call, content_type, bytes).await?;
    let mut attempt = eviction.evict().await?;
    for _ in 1..ATTEMPTS {
        if let Attempt::TooSlow(_) = attempt {
            attempt = eviction.evict().await?;
        }
    }
    if let Attempt::TooSlow(error) = attempt {
        return Err(error);
    }
    let answer = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    let answer = respond::json_value(StatusCode::CREATED, &answer);
    Ok(respond::warn(answer, &warnings))
}

impl<'a> Eviction<'a> {
    async fn read(
        call: &'a Call,
        content_type: &str,
        bytes: &Bytes,
    ) -> Result<(Self, Vec<String>), ApiError> {
        let decoded = body::typed(content_type, bytes, &call.resource.kind)?;
        let mut value = decoded.value;
        // The older version has the same fields.
        if value["apiVersion"] == "policy/v1beta1" {
            value["apiVersion"] = json!(call.resource.api_version());
        }
        let warnings = pipeline::decode(call, &mut value, Sent::Body(bytes), &decoded.duplicates)?;
        let key = call.key();
        if !["", &*key.namespace].contains(&text(&value, &["metadata", "namespace"])) {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(why));
        }
        if text(&value, &["metadata", "name"]) != &*key.name {
            let why = "name in URL does not match name in Eviction object";
            return Err(ApiError::bad_request(why));
        }
        let part = pipeline::Part::new("pods", "eviction", ("policy", "v1", "Eviction"));
        pipeline::review_part(call, &part, &mut value).await?;
        let options = value["deleteOptions"].take();
        let reckless = "ignoreStoreReadErrorWithClusterBreakingPotential";
        if options[reckless] == true {
            let cause = Cause::invalid(
                format!("deleteOptions.{reckless}"),
                &json!(true),
                "can not be set for pod eviction, try after removing the option",
            );
            let (group, kind) = (&call.resource.group, &call.resource.kind);
            return Err(ApiError::invalid(group, kind, &key.name, vec![cause]));
        }
        let trial = &options["dryRun"];
        let asks = trial.as_array().is_some_and(|trial| !trial.is_empty());
        if asks && call.options.dry_run && *trial != json!(["All"]) {
            let trial = printed(trial);
            return Err(ApiError::unknown(format!(
                "Non-matching dry-run options in request and content: [All] and {trial}"
            )));
        }
        let eviction = Self {
            call,
            key,
            dry_run: asks || call.options.dry_run,
            options,
        };
        Ok((eviction, warnings))
    }

    /// A request of the server to itself about an object of a table.
    fn about(&self, table: &str, name: &str) -> Result<Call, ApiError> {
        let snapshot = self.call.shared.registry.snapshot();
        let resource = snapshot.by_table.get(table);
        let resource = resource.ok_or_else(|| ApiError::not_found("", table, name))?;
        let mut call = tasks::internal(&self.call.shared, resource, &self.key.namespace, name);
        call.options.dry_run = self.dry_run;
        call.subresource = Some(Subresource::Status);
        // Webhooks have seen the eviction.
        call.origin = Origin::Step;
        Ok(call)
    }

    async fn evict(&self) -> Result<Attempt, ApiError> {
        let pods = self.about("pods", &self.key.name)?;
        let pod = pods.find()?;
        let mut options = Options::read(&self.options)?;
        options.dry_run = self.dry_run;
        let asked = options.version.clone();
        let seen = asked.clone().or_else(|| Some(pod.version.to_string()));
        let value = pod.value();
        let phase = text(&value, &["status", "phase"]);
        if pod.deleting || matches!(phase, "Succeeded" | "Failed") {
            return self.remove(&pods, options).await;
        }
        if phase == "Pending" {
            options.version = seen;
            return match self.remove(&pods, options).await {
                Err(error) if is_race(&error, asked.as_ref()) => Ok(Attempt::TooSlow(error)),
                done => done,
            };
        }
        let Some(budget) = self.budget(&value)? else {
            return self.remove(&pods, options).await;
        };
        if is_free(&value, &budget.value()) {
            // It must not have become ready meanwhile.
            options.version = seen;
            return match self.remove(&pods, options).await {
                Err(error) if is_race(&error, asked.as_ref()) => Err(processed(&budget.key.name)),
                done => done,
            };
        }
        let mut budgets = self.about(BUDGETS, &budget.key.name)?;
        budgets.origin = Origin::Task;
        pipeline::modify(&budgets, &budget.key, Write::Plain, |budget| {
            taken(budget, &self.key.name)
        })
        .await?;
        self.remove(&pods, options).await
    }

    /// The budget that the pod belongs to.
    fn budget(&self, pod: &Value) -> Result<Option<Arc<Stored>>, ApiError> {
        let store = &self.call.shared.store;
        let mut all = store.list(BUDGETS, Some(&self.key.namespace)).items;
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

    /// Says of the pod why it goes, and lets it go.
    async fn remove(&self, pods: &Call, mut options: Options) -> Result<Attempt, ApiError> {
        if !self.dry_run {
            let marked = pipeline::modify(pods, &self.key, Write::Unowned, |pod| {
                let uid = text(pod, &["metadata", "uid"]);
                let version = text(pod, &["metadata", "resourceVersion"]);
                options.check(pods, &self.key, uid, version)?;
                Ok(marked(pod))
            })
            .await?;
            if options.version.is_some() {
                options.version = Some(marked.object.version.to_string());
            }
        }
        let mut pods = self.about("pods", &self.key.name)?;
        pods.subresource = None;
        let removed = delete::remove(&pods, &self.key, &options).await;
        removed.map(|_| Attempt::Done)
    }
}

/// Whether somebody else was faster, who is not the one that the client is waiting for.
fn is_race(error: &ApiError, asked: Option<&String>) -> bool {
    error.reason == Reason::Conflict && asked.is_none()
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

/// Whether a pod may go without the budget: it is not ready, and so does not count.
fn is_free(pod: &Value, budget: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    if conditions.any(|c| c["type"] == "Ready" && c["status"] == "True") {
        return false;
    }
    let status = &budget["status"];
    let wanted = number(status, "desiredHealthy");
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (wanted > 0 && number(status, "currentHealthy") >= wanted)
}

/// The budget when one more pod has gone, or why none may go.
fn taken(budget: &Value, pod: &str) -> Result<Value, ApiError> {
    let name = text(budget, &["metadata", "name"]);
    let status = &budget["status"];
    let generation = number(&budget["metadata"], "generation");
    if number(status, "observedGeneration") < generation {
        return Err(processed(name));
    }
    let refused = |why: &str| {
        Err(ApiError::forbidden(
            "policy",
            "poddisruptionbudget",
            name,
            why,
        ))
    };
    let allowed = number(status, "disruptionsAllowed");
    if allowed < 0 {
        return refused("pdb disruptions allowed is negative");
    }
    let disrupted = status["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return refused(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 {
        return Err(violated(&exhausted(name, status), None));
    }
    let mut budget = budget.clone();
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = json!(allowed - 1);
    if allowed == 1 {
        note_exhaustion(status);
    }
    status["disruptedPods"][pod] = json!(clock::now());
    Ok(budget)
}

/// Why a budget has nothing left.
fn exhausted(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array();
    let said = conditions.into_iter().flatten().find(|condition| {
        condition["type"] == "DisruptionAllowed"
            && condition["status"] == "False"
            && !text(condition, &["message"]).is_empty()
    });
    let (reason, why) = said.map_or(("", ""), |condition| {
        (text(condition, &["reason"]), text(condition, &["message"]))
    });
    let (healthy, wanted) = (
        number(status, "currentHealthy"),
        number(status, "desiredHealthy"),
    );
    match said {
        Some(_) if reason == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        ),
        _ if healthy <= wanted => format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        ),
        Some(_) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {why}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// The condition of a budget that allows nothing any more.
fn note_exhaustion(status: &mut Value) {
    let mut condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": clock::now(),
    });
    if let Some(generation) = status.get("observedGeneration") {
        condition["observedGeneration"] = generation.clone();
    }
    set_condition(status, condition);
}

/// A pod with the reason why it goes.
fn marked(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": clock::now(),
    });
    set_condition(&mut pod["status"], condition);
    pod
}

/// Sets a condition, which keeps its time if it does not change.
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

/// Nobody has looked at the budget yet since something changed.
fn processed(budget: &str) -> ApiError {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    violated(&why, Some(LATER))
}

fn violated(why: &str, later: Option<u32>) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::new(Reason::TooManyRequests, message);
    error.retry_after = later;
    error.causes = vec![Cause {
        field: String::new(),
        reason: "DisruptionBudget".to_owned(),
        message: why.to_owned(),
    }];
    error
}
