//! Carries out a plan: the result first, then the status, each with a precondition.
//!
//! Both patches name the resourceVersion that they are based on, so two writers never overwrite each
//! other unseen. The status is based on what the result patch gave back, so it records the generation
//! that our own write produced and no second cycle follows.

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
use crate::guard::Guarded;
use crate::lease::Leadership;
use crate::plan::Plan;
use crate::rate_limit::RateLimit;

/// How often the status is tried again when others write it at the same time.
const STATUS_ATTEMPTS: usize = 5;

/// How carrying out a plan ended.
#[derive(Debug)]
pub enum Report {
    /// All of it was written.
    Written(Box<Binding>),
    /// Somebody else wrote first.
    Conflict {
        /// What there is now, where it could be read.
        current: Option<Box<Binding>>,
        /// Whether the result was written before the status met the conflict.
        landed: bool,
    },
    /// The object is gone, or its namespace is going.
    Gone,
    /// The API server refused the result with an answer that the user should see.
    Refused {
        /// The answer.
        status: Box<Status>,
        /// The object as last seen.
        binding: Box<Binding>,
    },
    /// The API server could not be reached, or asked for patience.
    Unreachable {
        /// What happened.
        error: String,
        /// Whether the server answered at all.
        answered: bool,
        /// How long the server asks to be left alone.
        after: Option<Duration>,
        /// The object, where the result was written and only the status was not.
        binding: Option<Box<Binding>>,
    },
    /// A plugin stopped it before anything was written.
    Stopped(PluginError),
    /// We do not lead any more; nothing was sent.
    NotLeading,
}

impl Report {
    /// Whether the clusters of the plan are stored now.
    pub fn result_landed(&self) -> bool {
        match self {
            Self::Written(_) => true,
            Self::Conflict { landed, .. } => *landed,
            Self::Unreachable { binding, .. } => binding.is_some(),
            Self::Gone | Self::Refused { .. } | Self::Stopped(_) | Self::NotLeading => false,
        }
    }
}

/// Writes plans.
#[derive(Clone)]
pub struct Writer {
    /// For both kinds of binding.
    pub client: kube::Client,
    /// The client's own limit.
    pub limit: Arc<RateLimit>,
    /// Checked before each request.
    pub leadership: Leadership,
    /// How long an answer may take.
    pub patience: Duration,
    /// Cancelled when the service ends: no plan is begun any more, and those begun are finished at once.
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
    /// Carries out a plan for a binding.
    pub async fn write(&self, binding: Arc<Binding>, plan: &Plan) -> Report {
        let client = self.client.clone();
        if let Some(namespace) = binding.key.namespace.clone() {
            let api: Api<Guarded<berth_api::ResourceBinding>> = Api::namespaced(client, &namespace);
            self.write_to(&api, binding, plan).await
        } else {
            let api: Api<Guarded<berth_api::ClusterResourceBinding>> = Api::all(client);
            self.write_to(&api, binding, plan).await
        }
    }

    /// Carries out what is left of a plan when somebody else has stored its clusters.
    pub async fn complete(&self, binding: Arc<Binding>, plan: &Plan) -> Report {
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
            let found = self.answer(api.get_opt(&key.name)).await?;
            Ok(found.map(Into::into))
        } else {
            let api: Api<berth_api::ClusterResourceBinding> = Api::all(self.client.clone());
            let found = self.answer(api.get_opt(&key.name)).await?;
            Ok(found.map(Into::into))
        }
    }

    async fn write_to<K>(&self, api: &Api<Guarded<K>>, binding: Arc<Binding>, plan: &Plan) -> Report
    where
        K: DeserializeOwned + Debug + Clone + Into<Binding>,
    {
        let name = binding.key.name.clone();
        let mut latest = Latest {
            base: binding,
            answer: None,
        };
        if let Some(result) = &plan.result {
            if !self.may_begin().await {
                return Report::NotLeading;
            }
            let patch = Patch::Merge(with_precondition(result, latest.resource_version()));
            let parameters = PatchParams::default();
            let sent = api.patch(&name, &parameters, &patch);
            match self.answer(sent).await {
                Ok(object) => latest.answer = Some(object),
                Err(error) => return self.failed(api, latest.base, error).await,
            }
        }
        let Some(status) = &plan.status else {
            return Report::Written(latest.read());
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
            // The result does not change the status, so the base still says what that is.
            let patch = Patch::Merge(with_precondition(
                &status.patch(&latest.base.status, generation, now),
                latest.resource_version(),
            ));
            let parameters = PatchParams::default();
            let sent = api.patch_status(&name, &parameters, &patch);
            match self.answer(sent).await {
                Ok(object) => {
                    latest.answer = Some(object);
                    return Report::Written(latest.read());
                }
                Err(error) if !has_code(&error, 409) => {
                    return after_result(latest.read(), error, plan.result.is_some());
                }
                Err(_) => match self.answer(api.get_opt(&name)).await {
                    Ok(None) => return Report::Gone,
                    Ok(Some(object)) => {
                        latest.answer = Some(object);
                        let current = latest.read();
                        // The spec moved on: the next cycle decides on the new one.
                        if current.generation() != generation {
                            return Report::Conflict {
                                current: Some(current),
                                landed: plan.result.is_some(),
                            };
                        }
                        latest = Latest {
                            base: Arc::from(current),
                            answer: None,
                        };
                    }
                    Err(error) => {
                        return after_result(latest.read(), error, plan.result.is_some());
                    }
                },
            }
        }
        Report::Conflict {
            current: Some(latest.read()),
            landed: plan.result.is_some(),
        }
    }

    /// Whether the first request of a plan may be sent, after its turn has come.
    async fn may_begin(&self) -> bool {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => false,
            () = self.limit.acquire() => self.leadership.holds(),
        }
    }

    /// Whether a further request of a plan may be sent. At the end it does not wait for its turn.
    async fn may_go_on(&self) -> bool {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => {}
            () = self.limit.acquire() => {}
        }
        self.leadership.holds()
    }

    /// The answer to a request, unless it takes too long.
    async fn answer<T>(
        &self,
        sent: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        in_time(self.patience, sent).await
    }

    async fn failed<K>(
        &self,
        api: &Api<Guarded<K>>,
        binding: Arc<Binding>,
        error: kube::Error,
    ) -> Report
    where
        K: DeserializeOwned + Debug + Clone + Into<Binding>,
    {
        if !has_code(&error, 409) {
            return after_result(unshare(binding), error, false);
        }
        let current = match self.answer(api.get_opt(&binding.key.name)).await {
            Ok(Some(object)) => object.read().ok().map(|object| Box::new(object.into())),
            Ok(None) => return Report::Gone,
            Err(_) => None,
        };
        Report::Conflict {
            current,
            landed: false,
        }
    }
}

/// A binding while its plan is carried out: what the plan was made for, and the newest answer about it.
struct Latest<K> {
    base: Arc<Binding>,
    answer: Option<Guarded<K>>,
}

impl<K: DeserializeOwned + Into<Binding>> Latest<K> {
    fn resource_version(&self) -> &str {
        match &self.answer {
            Some(answer) => answer
                .metadata()
                .resource_version
                .as_deref()
                .unwrap_or_default(),
            None => self.base.resource_version(),
        }
    }

    fn generation(&self) -> i64 {
        match &self.answer {
            Some(answer) => answer.metadata().generation.unwrap_or(0),
            None => self.base.generation(),
        }
    }

    /// The binding as the server gave it last. An answer that cannot be read leaves it as it was; the watch
    /// will say the same again, and that is where malformed objects are dealt with.
    fn read(self) -> Box<Binding> {
        match self.answer.map(|answer| answer.read()) {
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

/// The answer to a request; an error when it takes longer than this.
pub(crate) async fn in_time<T>(
    patience: Duration,
    sent: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    match tokio::time::timeout(patience, sent).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(
            format!("no answer within {patience:?}").into(),
        )),
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

/// API times have whole seconds.
fn whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time)
}
