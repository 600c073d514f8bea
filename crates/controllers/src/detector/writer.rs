//! The detector's writes to the control plane. Each patch contains the resource version on which it is based. Objects
//! that are up to date are not written.

use berth_api::feature_gates::FeatureGates;
use berth_apimachinery::api_error::{api_error_message, has_code, is_stale, is_unreachable};
use berth_apimachinery::conflict_retry::Attempts;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use berth_api::names::check_derived_names;
use berth_api::well_known::TRACEPARENT;
use berth_events::EventRecorder;
use berth_interpreter::{InterpretError, Operation};
use berth_telemetry::Span;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, TypeMeta};
use serde_json::{Value, json};

use super::binding_patch::{
    OtherOwner, binding_patch, changes_only_version, new_binding, release_metadata,
};
use super::claim::{Claim, PolicyKind};
use super::decision::Application;
use super::desired_binding::{DesiredBinding, Interpreted, binding_for};
use super::policy::{Policy, PolicyRecord};
use super::recorded_events;
use super::template::Template;
use crate::binding_api::binding_api;
use crate::monitor::{Monitor, Outcome};
use crate::reconciler::work_queue::RetryableError;
use crate::resource_interpreter::ResourceInterpreter;

/// An error of a write.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// A request failed.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// The binding belongs to another object.
    #[error(transparent)]
    OtherOwner(#[from] OtherOwner),
    /// The interpreter cannot read the template.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// The priority class that the policy names does not exist.
    #[error("priorityclasses.scheduling.k8s.io {0:?} not found")]
    NoPriorityClass(String),
    /// Other clients kept changing the binding.
    #[error("gave up after repeated conflicts on binding {0:?}")]
    Conflicts(String),
}

impl RetryableError for WriteError {
    fn is_stale(&self) -> bool {
        match self {
            Self::Api(error) => is_stale(error),
            Self::Conflicts(_) => true,
            _ => false,
        }
    }

    fn is_outage(&self) -> bool {
        matches!(self, Self::Api(error) if is_unreachable(error))
    }
}

/// A client that writes the detector's decisions to the control plane.
#[derive(Clone)]
pub(super) struct Writer {
    /// The client.
    pub client: kube::Client,
    /// The recorder of events.
    pub events: EventRecorder,
    /// The interpreter of templates.
    pub interpreter: ResourceInterpreter,
    /// Feature gates.
    pub gates: FeatureGates,
    /// The metrics.
    pub monitor: Monitor,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// The handling of a binding in which only the resource version of the template is outdated. A new version in the
/// binding notifies other controllers of a change of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionChanges {
    /// Write the new version, because the template or its policy changed.
    Written,
    /// Keep the outdated version, because neither the template nor its policy changed.
    Ignored,
}

impl Writer {
    /// Applies a policy to a template, and records events. Returns the binding if it was written.
    pub(super) async fn apply(
        &self,
        template: &Template,
        application: &Application,
        binding: Option<Arc<DynamicObject>>,
        version_changes: VersionChanges,
    ) -> Result<Option<Box<DynamicObject>>, WriteError> {
        let (policy, since) = (&application.policy, Instant::now());
        let key = &template.key;
        if let Err(error) = check_derived_names(key.kind(), &key.name, &key.namespace) {
            // A retry cannot help: the name of the template never changes.
            let event = recorded_events::apply_failed(template, policy, &error.to_string());
            self.events.record(event);
            return Ok(None);
        }
        let claimed = if application.claim {
            let claimed = self.patch_claim(template, policy.claim().patch()).await;
            if let Some(owner) = &application.preempted {
                self.monitor.policy_preempted(Outcome::of(&claimed));
                self.events.record(match &claimed {
                    Ok(_) => recorded_events::preempted(template, &policy.key, owner),
                    Err(e) => recorded_events::preempt_failed(
                        template,
                        &policy.key,
                        owner,
                        &e.to_string(),
                    ),
                });
            }
            claimed
        } else {
            Ok(template.clone())
        };
        let result = match claimed {
            Ok(template) if application.bind => {
                self.bind(&template, policy, binding, version_changes).await
            }
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        self.monitor
            .policy_applied(Outcome::of(&result), since.elapsed());
        if let Err(error) = &result
            && !error.is_stale()
        {
            self.events.record(recorded_events::apply_failed(
                template,
                policy,
                &error.to_string(),
            ));
        }
        result
    }

    /// Removes a claim from the binding and then from the template. In the opposite order, a failure after the first
    /// write would leave a claimed binding that is never examined again.
    pub(super) async fn release(
        &self,
        template: &Template,
        claim: &Claim,
        binding: Option<Arc<DynamicObject>>,
    ) -> Result<(), WriteError> {
        if let Some(binding) = binding
            && let Some(labels) = &binding.metadata.labels
            && claim.is_on(labels)
        {
            let key = template.key.binding();
            let metadata = at_version(
                release_metadata(claim, &binding),
                binding.metadata.resource_version.as_deref(),
            );
            let patch = json!({ "metadata": metadata });
            match binding_api(self.client.clone(), &key)
                .patch(&key.name, &params(), &Patch::Merge(patch))
                .await
            {
                Ok(_) => {}
                // A deleted binding needs no release.
                Err(error) if has_code(&error, 404) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match self.patch_claim(template, claim.release_patch()).await {
            Err(WriteError::Api(error)) if has_code(&error, 404) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Adds the defaults, the permanent id and the finalizer that a policy lacks on a server without Karmada's mutating
    /// webhook.
    pub(super) async fn complete_policy(
        &self,
        policy: &PolicyRecord,
        patch: &Value,
    ) -> Result<(), WriteError> {
        let mut patch = patch.clone();
        patch["metadata"]["resourceVersion"] = json!(policy.resource_version);
        self.patch_policy(policy, patch).await
    }

    /// Removes the finalizer of a policy that has no claims.
    pub(super) async fn remove_finalizer(&self, policy: &PolicyRecord) -> Result<(), WriteError> {
        let own = policy.key.kind.guarded().policy_finalizer();
        let others: Vec<&String> = policy
            .finalizers
            .iter()
            .filter(|name| Some(name.as_str()) != own)
            .collect();
        let patch = json!({ "metadata": {
            "finalizers": others,
            "resourceVersion": policy.resource_version,
        } });
        self.patch_policy(policy, patch).await
    }

    async fn patch_policy(&self, policy: &PolicyRecord, patch: Value) -> Result<(), WriteError> {
        let resource = policy_resource(policy.key.kind);
        let client = self.client.clone();
        let api: Api<DynamicObject> = match policy.key.kind {
            PolicyKind::Namespaced => {
                Api::namespaced_with(client, &policy.key.namespace, &resource)
            }
            PolicyKind::Cluster => Api::all_with(client, &resource),
        };
        let patched = api
            .patch(&policy.key.name, &params(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes the claim of a template. The server rejects the patch if the template has changed. Returns the new
    /// template.
    async fn patch_claim(
        &self,
        template: &Template,
        metadata: Value,
    ) -> Result<Template, WriteError> {
        let key = &template.key;
        let api = key.resource.api(self.client.clone(), &key.namespace);
        let version = Some(template.resource_version.as_str());
        let patch = json!({ "metadata": at_version(metadata, version) });
        let patched = api
            .patch(&key.name, &params(), &Patch::Merge(patch))
            .await?;
        Ok(Template::from_object(&key.resource, patched))
    }

    async fn bind(
        &self,
        template: &Template,
        policy: &Policy,
        binding: Option<Arc<DynamicObject>>,
        version_changes: VersionChanges,
    ) -> Result<Option<Box<DynamicObject>>, WriteError> {
        let priority = self.priority_of(template, policy).await?;
        let Some(content) = self.with_content(template).await? else {
            return Ok(None);
        };
        let desired = self
            .interpreter
            .interpret(|rules| binding_for(&content, policy, priority, self.gates, rules))
            .await;
        let desired = match desired {
            Ok(desired) => desired,
            Err(error) => {
                self.events
                    .record(recorded_events::interpret_failed(template, &error));
                return Err(error.into());
            }
        };
        // A template that is being deleted gets no new binding, because the binding might outlive the template.
        if binding.is_none() && template.deleting {
            return Ok(None);
        }
        let written = self
            .write_binding(&desired, binding, version_changes)
            .await?;
        if written.is_some() {
            if desired.interpreted != Interpreted::Nothing {
                self.events
                    .record_routine(recorded_events::interpreted(template, desired.interpreted));
            }
            self.events
                .record(recorded_events::applied(template, policy));
        }
        Ok(written)
    }

    /// Returns the template with the content that scripts and webhooks read, or `None` if the template does not exist.
    /// If there is such a script or webhook, the content is read from the server, because the detector stores only a
    /// part of it.
    async fn with_content<'a>(
        &self,
        template: &'a Template,
    ) -> Result<Option<Cow<'a, Template>>, WriteError> {
        let key = &template.key;
        let is_scripted = |operation| {
            self.interpreter
                .rules()
                .is_customized(key.api_version(), key.kind(), operation)
        };
        if !is_scripted(Operation::InterpretReplica) && !is_scripted(Operation::InterpretComponent)
        {
            return Ok(Some(Cow::Borrowed(template)));
        }
        let api = key.resource.api(self.client.clone(), &key.namespace);
        let Some(mut object) = api.get_opt(&key.name).await? else {
            return Ok(None);
        };
        // Responses may lack `apiVersion` and `kind`.
        object.types = Some(TypeMeta {
            api_version: key.api_version().to_owned(),
            kind: key.kind().to_owned(),
        });
        let body = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
        Ok(Some(Cow::Owned(Template {
            body: Some(Arc::new(body)),
            ..template.clone()
        })))
    }

    /// Returns the value of the policy's priority class. As in Karmada, only bindings of namespaced templates have a
    /// priority.
    async fn priority_of(
        &self,
        template: &Template,
        policy: &Policy,
    ) -> Result<Option<i32>, WriteError> {
        let Some(wanted) = &policy.spec.schedule_priority else {
            return Ok(None);
        };
        if !self.gates.priority_based_scheduling || template.key.namespace.is_empty() {
            return Ok(None);
        }
        let api: Api<PriorityClass> = Api::all(self.client.clone());
        match api.get_opt(&wanted.priority_class_name).await? {
            Some(class) => Ok(Some(class.value.unwrap_or(0))),
            None => Err(WriteError::NoPriorityClass(
                wanted.priority_class_name.clone(),
            )),
        }
    }

    /// Creates or patches a binding. Returns the written binding, or `None` if the binding was up to date.
    async fn write_binding(
        &self,
        desired: &DesiredBinding,
        observed: Option<Arc<DynamicObject>>,
        version_changes: VersionChanges,
    ) -> Result<Option<Box<DynamicObject>>, WriteError> {
        let api = binding_api(self.client.clone(), &desired.key);
        let name = &desired.key.name;
        let start = SystemTime::now();
        let mut attempts = Attempts::new(observed);
        while attempts.begin() {
            let response = match attempts.known() {
                None => {
                    let mut object = new_binding(desired, &uuid::Uuid::new_v4().to_string());
                    let _span = traced(&mut object, desired, start);
                    let object: DynamicObject =
                        serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
                    api.create(&PostParams::default(), &object).await
                }
                Some(binding) => {
                    let Some(mut patch) = binding_patch(binding, desired)? else {
                        return Ok(None);
                    };
                    if version_changes == VersionChanges::Ignored && changes_only_version(&patch) {
                        return Ok(None);
                    }
                    patch["metadata"]["resourceVersion"] = json!(binding.metadata.resource_version);
                    let _span = traced(&mut patch, desired, start);
                    api.patch(name, &params(), &Patch::Merge(patch)).await
                }
            };
            let read = async { Ok::<_, WriteError>(api.get_opt(name).await?.map(Arc::new)) };
            if let Some(written) = attempts.end(response, read).await? {
                return Ok(Some(Box::new(written)));
            }
        }
        Err(WriteError::Conflicts(name.to_string()))
    }
}

/// Starts the trace of a write of a binding, and adds the trace context to the annotations of the object or patch.
fn traced(object: &mut Value, desired: &DesiredBinding, start: SystemTime) -> Span {
    let mut span = Span::start("apply_policy", None, start);
    if let Some(context) = span.context() {
        object["metadata"]["annotations"][TRACEPARENT] = json!(context.to_string());
        let (namespace, name) = (desired.key.namespace_or_empty(), &desired.key.name);
        span.set("binding", format!("{namespace}/{name}"));
    }
    span
}

/// Returns the API resource of a kind of policy.
pub(super) fn policy_resource(kind: PolicyKind) -> ApiResource {
    match kind {
        PolicyKind::Namespaced => ApiResource::erase::<berth_api::PropagationPolicy>(&()),
        PolicyKind::Cluster => ApiResource::erase::<berth_api::ClusterPropagationPolicy>(&()),
    }
}

fn at_version(mut metadata: Value, version: Option<&str>) -> Value {
    metadata["resourceVersion"] = json!(version);
    metadata
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some("berth-detector".to_owned()),
        ..PatchParams::default()
    }
}
