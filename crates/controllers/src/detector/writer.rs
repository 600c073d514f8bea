//! Carries plans out. Every write names the version that it is based on, and nothing is written that says
//! what is stored already.

use std::sync::Arc;

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_events::EventRecorder;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::binding_change::{OtherOwner, change, is_version_alone, new_binding, release};
use super::claim::{Claim, PolicyKind};
use super::decision::Application;
use super::desired_binding::{DesiredBinding, binding_for};
use super::happenings;
use super::options::Gates;
use super::policy::{Policy, PolicyRecord};
use super::template::Template;
use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;
use crate::interpreter::InterpretError;

/// How often a write to a binding is tried when others write to it at the same time.
const CONFLICT_TRIES: usize = 5;

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The server refused or did not answer.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// The binding belongs to another object.
    #[error(transparent)]
    OtherOwner(#[from] OtherOwner),
    /// Replicas could not be read.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// The priority class that the policy names does not exist.
    #[error("priorityclasses.scheduling.k8s.io {0:?} not found")]
    NoPriorityClass(String),
    /// Others kept writing to the binding.
    #[error("binding {0:?} keeps changing")]
    Busy(String),
}

impl WriteError {
    /// Whether something changed meanwhile: the plan was based on an old version, and that is no failure to
    /// tell a user of.
    pub(super) fn is_stale(&self) -> bool {
        match self {
            Self::Api(error) => has_code(error, 409) || has_code(error, 404),
            Self::Busy(_) => true,
            _ => false,
        }
    }
}

/// Writes to the control plane.
#[derive(Clone)]
pub(super) struct Writer {
    /// The server.
    pub client: kube::Client,
    /// Tells users.
    pub events: EventRecorder,
    /// Feature gates.
    pub gates: Gates,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// Whether a binding is written for the version of its template alone: that tells the others that there is something
/// new in the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// The template or its policy has changed.
    Followed,
    /// It is the binding that was looked at.
    Ignored,
}

impl Writer {
    /// Applies a policy to a template, and tells of it.
    pub(super) async fn apply(
        &self,
        template: &Template,
        application: &Application,
        binding: Option<Arc<DynamicObject>>,
        versions: Versions,
    ) -> Result<(), WriteError> {
        let policy = &application.policy;
        let claimed = if application.claim {
            let claimed = self.mark(template, policy.claim().patch()).await;
            if let Some(owner) = &application.taken_from {
                self.events.record(match &claimed {
                    Ok(_) => happenings::taken(template, &policy.key, owner),
                    Err(e) => happenings::not_taken(template, &policy.key, owner, &e.to_string()),
                });
            }
            claimed
        } else {
            Ok(template.clone())
        };
        let result = match claimed {
            Ok(template) if application.bind => {
                self.bind(&template, policy, binding, versions).await
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = &result
            && !error.is_stale()
        {
            self.events.record(happenings::not_applied(
                template,
                policy,
                &error.to_string(),
            ));
        }
        result
    }

    /// Takes a claim back: from the binding first. The other way round a failure in between would leave a
    /// binding that nobody looks at again.
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
                release(claim, &binding),
                binding.metadata.resource_version.as_deref(),
            );
            let patch = json!({ "metadata": metadata });
            match self
                .bindings(&key)
                .patch(&key.name, &params(), &Patch::Merge(patch))
                .await
            {
                Ok(_) => {}
                // Gone is as good as released.
                Err(error) if has_code(&error, 404) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match self.mark(template, claim.release_patch()).await {
            Err(WriteError::Api(error)) if has_code(&error, 404) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Gives a policy what the mutating phase would have given it.
    pub(super) async fn complete(
        &self,
        policy: &PolicyRecord,
        patch: &Value,
    ) -> Result<(), WriteError> {
        let mut patch = patch.clone();
        patch["metadata"]["resourceVersion"] = json!(policy.resource_version);
        self.patch_policy(policy, patch).await
    }

    /// Lets a policy go that has nothing claimed any more.
    pub(super) async fn drop_finalizer(&self, policy: &PolicyRecord) -> Result<(), WriteError> {
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

    /// Changes the marks of a template, if it is still the version that was seen.
    async fn mark(&self, template: &Template, metadata: Value) -> Result<Template, WriteError> {
        let key = &template.key;
        let api = key.resource.api(self.client.clone(), &key.namespace);
        let version = Some(template.resource_version.as_str());
        let patch = json!({ "metadata": at_version(metadata, version) });
        let marked = api
            .patch(&key.name, &params(), &Patch::Merge(patch))
            .await?;
        Ok(Template::from_object(&key.resource, marked))
    }

    async fn bind(
        &self,
        template: &Template,
        policy: &Policy,
        binding: Option<Arc<DynamicObject>>,
        versions: Versions,
    ) -> Result<(), WriteError> {
        let priority = self.priority_of(template, policy).await?;
        let desired = match binding_for(template, policy, priority, self.gates) {
            Ok(desired) => desired,
            Err(error) => {
                let text = error.to_string();
                self.events
                    .record(happenings::not_interpreted(template, &text));
                return Err(error.into());
            }
        };
        // What is being deleted gets no new binding: it would outlive its template.
        if binding.is_none() && template.deleting {
            return Ok(());
        }
        if self.write_binding(&desired, binding, versions).await? {
            if desired.interpreted {
                self.events.record(happenings::interpreted(template));
            }
            self.events.record(happenings::applied(template, policy));
        }
        Ok(())
    }

    /// The value of the policy's priority class. ClusterResourceBindings carry none, but the class has to
    /// exist for namespaced templates only, as in Karmada.
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

    /// Creates or changes a binding; whether anything had to be written.
    async fn write_binding(
        &self,
        desired: &DesiredBinding,
        seen: Option<Arc<DynamicObject>>,
        versions: Versions,
    ) -> Result<bool, WriteError> {
        let api = self.bindings(&desired.key);
        let name = &desired.key.name;
        let mut current = seen.map(|binding| (*binding).clone());
        for _ in 0..CONFLICT_TRIES {
            let outcome = match &current {
                None => {
                    let object = new_binding(desired, &uuid::Uuid::new_v4().to_string());
                    let object: DynamicObject =
                        serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
                    api.create(&PostParams::default(), &object).await
                }
                Some(binding) => {
                    let Some(mut patch) = change(binding, desired)? else {
                        return Ok(false);
                    };
                    if versions == Versions::Ignored && is_version_alone(&patch) {
                        return Ok(false);
                    }
                    patch["metadata"]["resourceVersion"] = json!(binding.metadata.resource_version);
                    api.patch(name, &params(), &Patch::Merge(patch)).await
                }
            };
            match outcome {
                Ok(_) => return Ok(true),
                Err(error) if has_code(&error, 409) => current = api.get_opt(name).await?,
                Err(error) if has_code(&error, 404) && current.is_some() => current = None,
                Err(error) => return Err(error.into()),
            }
        }
        Err(WriteError::Busy(name.clone()))
    }

    fn bindings(&self, key: &BindingKey) -> Api<DynamicObject> {
        let resource = binding_resource(BindingKind::of(key));
        match BindingKind::of(key) {
            BindingKind::Namespaced => {
                Api::namespaced_with(self.client.clone(), &key.namespace, &resource)
            }
            BindingKind::Cluster => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// The API of a kind of policy.
pub(super) fn policy_resource(kind: PolicyKind) -> ApiResource {
    match kind {
        PolicyKind::Namespaced => ApiResource::erase::<berth_api::PropagationPolicy>(&()),
        PolicyKind::Cluster => ApiResource::erase::<berth_api::ClusterPropagationPolicy>(&()),
    }
}

/// The API of a kind of binding.
pub(super) fn binding_resource(kind: BindingKind) -> ApiResource {
    match kind {
        BindingKind::Namespaced => ApiResource::erase::<berth_api::ResourceBinding>(&()),
        BindingKind::Cluster => ApiResource::erase::<berth_api::ClusterResourceBinding>(&()),
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
