//! The API requests that write a plan to a binding. The writer first patches the result of the plan, which consists of
//! the clusters and an annotation, and then the status.
//!
//! Each patch carries the resourceVersion of the object that it changes. The API server therefore rejects the patch if
//! another client has changed the object. The status patch is based on the response to the result patch. It records the
//! generation that the result patch produced, so that no second cycle follows.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use berth_api::cluster_queue::ClusterQueueStatus;
use berth_api::{Binding, BindingKey, ClusterQueue};
use berth_apimachinery::api_error::{api_error_message, has_code, is_unreachable};
use berth_apimachinery::conflict_retry::CONFLICT_ATTEMPTS;
use berth_apimachinery::timestamp;
use berth_engine::PluginError;
use kube::api::{Api, Patch, PatchParams};
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lazy_object::LazyObject;
use crate::rules::plan::Plan;
use berth_component_base::kube_client::RateLimit;
use berth_component_base::kube_client::within;
use berth_component_base::leader_election::Leadership;

/// Result of writing a plan.
#[derive(Debug)]
pub enum Report {
    /// All patches of the plan were written.
    Written(Box<Binding>),
    /// Another client changed the binding first.
    Conflict {
        /// The current binding, if it could be read.
        current: Option<Box<Binding>>,
        /// The writes before the conflict.
        progress: Progress,
    },
    /// The binding was deleted, or its namespace is terminating.
    Gone,
    /// The API server rejected the first patch of the plan. A condition should report the reason to users.
    Refused {
        /// The response of the API server.
        status: Box<Status>,
        /// The last known state of the binding.
        binding: Box<Binding>,
        /// The writes before the rejection.
        progress: Progress,
    },
    /// The API server did not respond, is overloaded, or failed to write the status after the result.
    Failed {
        /// The error.
        error: String,
        /// True if the API server responded.
        answered: bool,
        /// Retry delay that the API server requested.
        after: Option<Duration>,
        /// The writes before the failure.
        progress: Progress,
        /// The last known state of the binding, if its clusters were stored before the failure.
        binding: Option<Box<Binding>>,
    },
    /// A plugin stopped the decision before the first patch was sent.
    Stopped(PluginError),
    /// This process is not the leader or is shutting down, so the next patch of the plan was not sent.
    NotLeading {
        /// The writes before the leadership was lost.
        progress: Progress,
    },
}

impl Report {
    /// Reports whether the API server stored the clusters of the plan.
    pub fn result_landed(&self) -> bool {
        match self {
            Self::Written(_) => true,
            Self::Conflict { progress, .. }
            | Self::Refused { progress, .. }
            | Self::Failed { progress, .. }
            | Self::NotLeading { progress } => progress.has_landed(),
            Self::Gone | Self::Stopped(_) => false,
        }
    }

    /// Reports whether the report contains the binding with the clusters of the plan, or the clusters can no longer be
    /// stored. Otherwise they may be stored: the report does not contain the binding, or a request has no response.
    pub(crate) fn is_conclusive(&self) -> bool {
        match self {
            Self::Written(_) | Self::Gone | Self::Stopped(_) => true,
            Self::Conflict { current, .. } => current.is_some(),
            Self::Failed { binding, .. } => binding.is_some(),
            // The present write has not been sent.
            Self::Refused { progress, .. } | Self::NotLeading { progress } => {
                !progress.has_landed()
            }
        }
    }
}

/// The writes of a plan that have succeeded so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// None.
    Nothing,
    /// A Bind plugin has stored the clusters. The writer has written nothing.
    ClustersByPlugin,
    /// The writer has written the result.
    Result,
}

impl Progress {
    /// Reports whether the API server has stored the clusters of the plan.
    pub fn has_landed(self) -> bool {
        self != Self::Nothing
    }
}

/// The writer of plans. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Writer {
    /// Client of the control plane.
    pub client: kube::Client,
    /// Client-side rate limit of requests.
    pub limit: Arc<RateLimit>,
    /// The leadership of this process, which the writer checks before each patch.
    pub leadership: Leadership,
    /// Time limit for a response.
    pub timeout: Duration,
    /// Token that is cancelled on shutdown. The writer then starts no new plan, and sends the remaining patches of a
    /// started plan without the rate limit.
    pub stopping: CancellationToken,
}

impl Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("leadership", &self.leadership)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Writes a plan for a binding.
    pub(crate) async fn write(&self, binding: Arc<Binding>, plan: &Plan) -> Report {
        self.write_from(Progress::Nothing, binding, plan).await
    }

    async fn write_from(&self, progress: Progress, binding: Arc<Binding>, plan: &Plan) -> Report {
        let client = self.client.clone();
        if let Some(namespace) = binding.key.namespace.clone() {
            let api: Api<LazyObject<berth_api::ResourceBinding>> =
                Api::namespaced(client, &namespace);
            self.write_to(&api, progress, binding, plan).await
        } else {
            let api: Api<LazyObject<berth_api::ClusterResourceBinding>> = Api::all(client);
            self.write_to(&api, progress, binding, plan).await
        }
    }

    /// Writes the rest of a plan after a Bind plugin has written the clusters.
    pub(crate) async fn complete(&self, binding: Arc<Binding>, plan: &Plan) -> Report {
        match self.read(&binding.key).await {
            Ok(Some(stored)) => {
                let rest = plan.without_clusters();
                self.write_from(Progress::ClustersByPlugin, Arc::new(stored), &rest)
                    .await
            }
            Ok(None) => Report::Gone,
            // A failed read is retried. It is not a rejection of the plan.
            Err(error) => unfinished(unshare(binding), error, Progress::ClustersByPlugin),
        }
    }

    async fn read(&self, key: &BindingKey) -> Result<Option<Binding>, kube::Error> {
        if let Some(namespace) = &key.namespace {
            let api: Api<berth_api::ResourceBinding> =
                Api::namespaced(self.client.clone(), namespace);
            let found = self.send(api.get_opt(&key.name)).await?;
            Ok(found.map(Into::into))
        } else {
            let api: Api<berth_api::ClusterResourceBinding> = Api::all(self.client.clone());
            let found = self.send(api.get_opt(&key.name)).await?;
            Ok(found.map(Into::into))
        }
    }

    async fn write_to<K>(
        &self,
        api: &Api<LazyObject<K>>,
        mut progress: Progress,
        binding: Arc<Binding>,
        plan: &Plan,
    ) -> Report
    where
        K: DeserializeOwned + Debug + Clone + Into<Binding>,
    {
        let name = binding.key.name.clone();
        let mut latest = Latest {
            base: binding,
            response: None,
        };
        if let Some(result) = &plan.result {
            if !self.may_send(progress).await {
                return Report::NotLeading { progress };
            }
            let patch = Patch::Merge(with_precondition(result, latest.resource_version()));
            let parameters = PatchParams::default();
            let sent = api.patch(&name, &parameters, &patch);
            match self.send(sent).await {
                Ok(object) => {
                    latest.response = Some(object);
                    progress = Progress::Result;
                }
                Err(error) => return self.failed(api, latest.base, error, progress).await,
            }
        }
        let Some(status) = &plan.status else {
            return Report::Written(latest.binding());
        };
        let generation = latest.generation();
        for _ in 0..CONFLICT_ATTEMPTS {
            if !self.may_send(progress).await {
                return Report::NotLeading { progress };
            }
            let now = timestamp::now();
            // The result patch does not change the status, so the status of the base is current.
            let patch = Patch::Merge(with_precondition(
                &status.patch(&latest.base.status, generation, now),
                latest.resource_version(),
            ));
            let parameters = PatchParams::default();
            let sent = api.patch_status(&name, &parameters, &patch);
            match self.send(sent).await {
                Ok(object) => {
                    latest.response = Some(object);
                    return Report::Written(latest.binding());
                }
                Err(error) if !has_code(&error, 409) => {
                    return failure(latest.binding(), error, progress);
                }
                Err(_) => match self.send(api.get_opt(&name)).await {
                    Ok(None) => return Report::Gone,
                    Ok(Some(object)) => {
                        latest.response = Some(object);
                        let current = latest.binding();
                        // Another client changed the spec. The next cycle decides about the new spec.
                        if current.generation() != generation {
                            return Report::Conflict {
                                current: Some(current),
                                progress,
                            };
                        }
                        latest = Latest {
                            base: Arc::from(current),
                            response: None,
                        };
                    }
                    Err(error) => {
                        return failure(latest.binding(), error, progress);
                    }
                },
            }
        }
        Report::Conflict {
            current: Some(latest.binding()),
            progress,
        }
    }

    /// Waits for a token of the rate limit, and reports whether the next patch of a plan may be sent. During shutdown,
    /// no plan is begun. The rest of a plan is then sent without a token.
    async fn may_send(&self, progress: Progress) -> bool {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => progress.has_landed() && self.leadership.holds(),
            () = self.limit.acquire() => self.leadership.holds(),
        }
    }

    /// Writes the status of ClusterQueues, one after the other. A status that cannot be written is written by a later
    /// report.
    pub(crate) async fn write_queue_statuses(&self, statuses: Vec<(String, ClusterQueueStatus)>) {
        let api: Api<ClusterQueue> = Api::all(self.client.clone());
        for (name, status) in statuses {
            if self.stopping.is_cancelled() || !self.may_send(Progress::Nothing).await {
                return;
            }
            let mut body = json!({ "status": status });
            // An empty list is not serialised, but must replace the old one.
            body["status"]["usage"] = json!(status.usage);
            let patch = Patch::Merge(body);
            let parameters = PatchParams::default();
            let sent = self
                .send(api.patch_status(&name, &parameters, &patch))
                .await;
            match sent {
                Err(error) if !has_code(&error, 404) => {
                    let error = api_error_message(&error);
                    tracing::warn!(
                        cluster_queue = name,
                        error,
                        "cannot write the status of a ClusterQueue"
                    );
                }
                _ => {}
            }
        }
    }

    /// Sends a request. Returns an error if no response arrives within the time limit.
    async fn send<T>(
        &self,
        sent: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        within(self.timeout, sent).await
    }

    async fn failed<K>(
        &self,
        api: &Api<LazyObject<K>>,
        binding: Arc<Binding>,
        error: kube::Error,
        progress: Progress,
    ) -> Report
    where
        K: DeserializeOwned + Debug + Clone + Into<Binding>,
    {
        if !has_code(&error, 409) {
            return failure(unshare(binding), error, progress);
        }
        let current = match self.send(api.get_opt(&binding.key.name)).await {
            Ok(Some(object)) => object.decode().ok().map(|object| Box::new(object.into())),
            Ok(None) => return Report::Gone,
            Err(_) => None,
        };
        Report::Conflict { current, progress }
    }
}

/// The states of a binding during its write: the base of the plan, and the newest response of the API server.
struct Latest<K> {
    base: Arc<Binding>,
    response: Option<LazyObject<K>>,
}

impl<K: DeserializeOwned + Into<Binding>> Latest<K> {
    fn resource_version(&self) -> &str {
        match &self.response {
            Some(response) => response
                .metadata()
                .resource_version
                .as_deref()
                .unwrap_or_default(),
            None => self.base.resource_version(),
        }
    }

    fn generation(&self) -> i64 {
        match &self.response {
            Some(response) => response.metadata().generation.unwrap_or(0),
            None => self.base.generation(),
        }
    }

    /// Returns the newest state of the binding. If the response is malformed, returns the base. The watch reports
    /// malformed bindings.
    fn binding(self) -> Box<Binding> {
        match self.response.map(|response| response.decode()) {
            Some(Ok(object)) => Box::new(object.into()),
            _ => unshare(self.base),
        }
    }
}

/// Returns the report for a failed patch. Only the first patch of a plan can be refused.
fn failure(binding: Box<Binding>, error: kube::Error, progress: Progress) -> Report {
    match error {
        kube::Error::Api(status) if is_refusal(&status) && progress != Progress::Result => {
            Report::Refused {
                status,
                binding,
                progress,
            }
        }
        error => unfinished(binding, error, progress),
    }
}

/// Returns the report for a request whose failure says nothing about the plan.
fn unfinished(binding: Box<Binding>, error: kube::Error, progress: Progress) -> Report {
    match error {
        kube::Error::Api(status) if is_gone(&status) => Report::Gone,
        error => Report::Failed {
            after: retry_after(&error),
            answered: !is_unreachable(&error),
            error: api_error_message(&error),
            progress,
            binding: progress.has_landed().then_some(binding),
        },
    }
}

/// Reports whether the API server rejected the content of a request.
fn is_refusal(status: &Status) -> bool {
    (400..500).contains(&status.code) && status.code != 429 && !is_gone(status)
}

/// Reports whether a response shows that the binding was deleted, or that its namespace is terminating.
fn is_gone(status: &Status) -> bool {
    status.code == 404 || namespace_is_going(status)
}

fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

fn namespace_is_going(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| {
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
    })
}

fn with_precondition(patch: &Value, resource_version: &str) -> Value {
    let mut patch = patch.clone();
    if let Some(object) = patch.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        metadata["resourceVersion"] = json!(resource_version);
    }
    patch
}

fn unshare(binding: Arc<Binding>) -> Box<Binding> {
    Box::new(Arc::unwrap_or_clone(binding))
}

#[cfg(test)]
mod tests;
