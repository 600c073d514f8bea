//! Writer of plans: patches the result, then the status, each with a precondition.
//!
//! Both patches carry the resourceVersion that they are based on, so concurrent writers never overwrite each
//! other. The status patch is based on the response to the result patch. It therefore records the generation
//! that our own write produced, and no second cycle follows.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use berth_apimachinery::api_error::{has_code, is_unreachable};
use berth_core::PluginError;
use kube::api::{Api, Patch, PatchParams};
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::binding::{Binding, BindingKey};
use crate::connect::RateLimit;
use crate::connect::within;
use crate::lazy_object::LazyObject;
use crate::lease::Leadership;
use crate::rules::plan::Plan;

/// Attempts to write the status while other writers cause conflicts.
const STATUS_ATTEMPTS: usize = 5;

/// Result of writing a plan.
#[derive(Debug)]
pub enum Report {
    /// Everything was written.
    Written(Box<Binding>),
    /// Another writer was first.
    Conflict {
        /// The current object, if it could be read.
        current: Option<Box<Binding>>,
        /// True if the result was written before the conflict.
        landed: bool,
    },
    /// The object was deleted, or its namespace is terminating.
    Gone,
    /// The API server rejected the result, and the user should see why.
    Refused {
        /// The response.
        status: Box<Status>,
        /// The object as last seen.
        binding: Box<Binding>,
    },
    /// The API server did not respond, or is overloaded.
    Unreachable {
        /// The error.
        error: String,
        /// True if the server responded at all.
        answered: bool,
        /// Retry delay that the server requested.
        after: Option<Duration>,
        /// The object, if the result was written but the status was not.
        binding: Option<Box<Binding>>,
    },
    /// A plugin stopped the decision before anything was written.
    Stopped(PluginError),
    /// This process no longer leads. Nothing was sent.
    NotLeading,
}

impl Report {
    /// Reports whether the clusters of the plan are stored.
    pub fn result_landed(&self) -> bool {
        match self {
            Self::Written(_) => true,
            Self::Conflict { landed, .. } => *landed,
            Self::Unreachable { binding, .. } => binding.is_some(),
            Self::Gone | Self::Refused { .. } | Self::Stopped(_) | Self::NotLeading => false,
        }
    }
}

/// Writer of plans. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Writer {
    /// Client of the control plane.
    pub client: kube::Client,
    /// Client-side request limit.
    pub limit: Arc<RateLimit>,
    /// Checked before each request.
    pub leadership: Leadership,
    /// Time limit for a response.
    pub timeout: Duration,
    /// Cancelled on shutdown: new plans are not started, and pending ones finish without waiting.
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
        let client = self.client.clone();
        if let Some(namespace) = binding.key.namespace.clone() {
            let api: Api<LazyObject<berth_api::ResourceBinding>> =
                Api::namespaced(client, &namespace);
            self.write_to(&api, binding, plan).await
        } else {
            let api: Api<LazyObject<berth_api::ClusterResourceBinding>> = Api::all(client);
            self.write_to(&api, binding, plan).await
        }
    }

    /// Writes the rest of a plan after a Bind plugin has stored the clusters.
    pub(crate) async fn complete(&self, binding: Arc<Binding>, plan: &Plan) -> Report {
        match self.read(&binding.key).await {
            Ok(Some(stored)) => self.write(Arc::new(stored), &plan.without_clusters()).await,
            Ok(None) => Report::Gone,
            Err(error) => after_result(unshare(binding), error, true),
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
            if !self.may_begin().await {
                return Report::NotLeading;
            }
            let patch = Patch::Merge(with_precondition(result, latest.resource_version()));
            let parameters = PatchParams::default();
            let sent = api.patch(&name, &parameters, &patch);
            match self.send(sent).await {
                Ok(object) => latest.response = Some(object),
                Err(error) => return self.failed(api, latest.base, error).await,
            }
        }
        let Some(status) = &plan.status else {
            return Report::Written(latest.binding());
        };
        let generation = latest.generation();
        for _ in 0..STATUS_ATTEMPTS {
            let may_send = if plan.result.is_some() {
                self.may_go_on().await
            } else {
                self.may_begin().await
            };
            if !may_send {
                return Report::NotLeading;
            }
            let now = whole_seconds(jiff::Timestamp::now());
            // The result does not change the status, so the base has the current one.
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
                    return after_result(latest.binding(), error, plan.result.is_some());
                }
                Err(_) => match self.send(api.get_opt(&name)).await {
                    Ok(None) => return Report::Gone,
                    Ok(Some(object)) => {
                        latest.response = Some(object);
                        let current = latest.binding();
                        // The spec changed: the next cycle decides on the new one.
                        if current.generation() != generation {
                            return Report::Conflict {
                                current: Some(current),
                                landed: plan.result.is_some(),
                            };
                        }
                        latest = Latest {
                            base: Arc::from(current),
                            response: None,
                        };
                    }
                    Err(error) => {
                        return after_result(latest.binding(), error, plan.result.is_some());
                    }
                },
            }
        }
        Report::Conflict {
            current: Some(latest.binding()),
            landed: plan.result.is_some(),
        }
    }

    /// Waits for a token and reports whether the first request of a plan may be sent.
    async fn may_begin(&self) -> bool {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => false,
            () = self.limit.acquire() => self.leadership.holds(),
        }
    }

    /// Reports whether a further request of a plan may be sent. During shutdown, it does not wait for a token.
    async fn may_go_on(&self) -> bool {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => {}
            () = self.limit.acquire() => {}
        }
        self.leadership.holds()
    }

    /// Sends a request with the time limit.
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
    ) -> Report
    where
        K: DeserializeOwned + Debug + Clone + Into<Binding>,
    {
        if !has_code(&error, 409) {
            return after_result(unshare(binding), error, false);
        }
        let current = match self.send(api.get_opt(&binding.key.name)).await {
            Ok(Some(object)) => object.decode().ok().map(|object| Box::new(object.into())),
            Ok(None) => return Report::Gone,
            Err(_) => None,
        };
        Report::Conflict {
            current,
            landed: false,
        }
    }
}

/// A binding during its write: the base of the plan, and the newest response.
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

    /// Returns the newest state of the binding. If the response is malformed, returns the base; the watch
    /// reports malformed objects.
    fn binding(self) -> Box<Binding> {
        match self.response.map(|response| response.decode()) {
            Some(Ok(object)) => Box::new(object.into()),
            _ => unshare(self.base),
        }
    }
}

fn after_result(binding: Box<Binding>, error: kube::Error, result_written: bool) -> Report {
    match error {
        kube::Error::Api(status) if status.code == 404 || namespace_is_going(&status) => {
            Report::Gone
        }
        kube::Error::Api(status)
            if (400..500).contains(&status.code) && status.code != 429 && !result_written =>
        {
            Report::Refused { status, binding }
        }
        other => Report::Unreachable {
            after: retry_after(&other),
            answered: !is_unreachable(&other),
            error: other.to_string(),
            binding: result_written.then_some(binding),
        },
    }
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

/// Truncates to whole seconds, as required in API objects.
fn whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time)
}
