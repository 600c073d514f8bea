//! The application of one manifest to a member: the requests that create, update or compare the object.
//!
//! [`decide`] chooses the action. A conflict with another client's write reads the object again, and the action is
//! decided again.

use std::sync::Arc;

use berth_apimachinery::conflict_retry::CONFLICT_ATTEMPTS;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::Value;

use super::applied_state::AppliedState;
use super::difference::{changed_fields, field_names};
use super::drift::{Action, decide};
use super::member_object::{
    ObjectError, Ownership, WriteCounter, api_for, full_name, is_namespace_missing, is_race,
    resource_type,
};
use super::object_cache::{Cached, MemberObject, RevertedScale};
use crate::monitor::MemberWrite;
use crate::resource_interpreter::ResourceInterpreter;
use crate::resource_type::ResourceType;
use crate::rest_mapper::RestMapper;
use berth_apimachinery::json_fields::{is_deleting, kind_of};

/// The result of applying a manifest.
pub(super) enum Applied {
    /// The object was up to date.
    Unchanged(Arc<MemberObject>),
    /// The object was written.
    Written {
        /// The object that the member returned.
        object: MemberObject,
        /// The change of the replicas that the write has undone.
        reverted: Option<RevertedScale>,
        /// The names of the fields that other clients had changed. `None` if the write corrected no drift.
        corrected: Option<String>,
    },
    /// The object differs from its manifest, which asks to report drift.
    Drifted {
        /// The object in the member.
        object: Arc<MemberObject>,
        /// The names of the fields that differ.
        fields: String,
    },
    /// The former object is still being deleted.
    Terminating,
}

impl Applied {
    /// Returns the object in the member, or `None` while a former object is being deleted.
    pub(super) fn object(&self) -> Option<&MemberObject> {
        match self {
            Self::Unchanged(object) | Self::Drifted { object, .. } => Some(object),
            Self::Written { object, .. } => Some(object),
            Self::Terminating => None,
        }
    }
}

/// A manifest, and the place of its object in a member.
struct Application<'a> {
    member: &'a RestMapper,
    resource: Arc<ResourceType>,
    api: Api<DynamicObject>,
    name: String,
    manifest: &'a Value,
    ownership: Ownership<'a>,
    counter: &'a WriteCounter<'a>,
}

/// An attempt to write an object. After a conflict with the write of another client, the write is repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Repeatable,
    /// A conflict counts as a failure.
    Last,
}

/// Applies a manifest. The object is read from the member only if its kind is not cached yet, or after a conflict.
pub(super) async fn apply(
    member: &RestMapper,
    manifest: &Value,
    cached: Cached,
    ownership: Ownership<'_>,
    interpreter: &ResourceInterpreter,
    counter: &WriteCounter<'_>,
) -> Result<(Arc<ResourceType>, Applied), ObjectError> {
    let resource = resource_type(member, manifest).await?;
    let (api, name) = api_for(member, &resource, manifest);
    let application = Application {
        member,
        resource: Arc::clone(&resource),
        api,
        name,
        manifest,
        ownership,
        counter,
    };
    let mut observed = match cached {
        Cached::Unknown => application.read().await?,
        Cached::Absent => None,
        Cached::Present(object) => Some(object),
    };
    let Ownership { applied, id } = ownership;
    let mut tries = 0;
    loop {
        tries += 1;
        let observed_value = observed.as_ref().map(|object| &object.value);
        let action = interpreter
            .interpret(|rules| decide(manifest, observed_value, applied, id, rules))
            .await?;
        let attempt = if tries == CONFLICT_ATTEMPTS {
            Attempt::Last
        } else {
            Attempt::Repeatable
        };
        match application.execute(action, observed, attempt).await {
            Err(ObjectError::Api(error)) if is_race(&error) && attempt != Attempt::Last => {
                observed = application.read().await?;
            }
            other => return other.map(|outcome| (resource, outcome)),
        }
    }
}

impl Application<'_> {
    async fn read(&self) -> Result<Option<Arc<MemberObject>>, ObjectError> {
        let object = self.api.get_opt(&self.name).await?;
        Ok(object
            .and_then(|object| MemberObject::new(&self.resource, object))
            .map(Arc::new))
    }

    /// Executes an action.
    async fn execute(
        &self,
        action: Action,
        observed: Option<Arc<MemberObject>>,
        attempt: Attempt,
    ) -> Result<Applied, ObjectError> {
        match (action, observed) {
            (Action::Compare(desired), Some(observed)) => {
                self.compare(*desired, observed, attempt).await
            }
            (Action::None | Action::Compare(_), observed) => {
                let current = observed.filter(|object| !is_deleting(&object.value));
                Ok(current.map_or(Applied::Terminating, Applied::Unchanged))
            }
            (Action::Reject, _) => Err(ObjectError::Unmanaged {
                kind: kind_of(self.manifest).1.to_owned(),
                name: full_name(self.manifest),
                cluster: self.counter.of.cluster.to_owned(),
            }),
            (Action::Conflict(owner), _) => Err(ObjectError::OtherControlPlane {
                kind: kind_of(self.manifest).1.to_owned(),
                name: full_name(self.manifest),
                cluster: self.counter.of.cluster.to_owned(),
                owner,
            }),
            (Action::Create(desired), _) => self.create(*desired, attempt).await,
            (Action::Update(desired), observed) => {
                self.update(*desired, observed.as_deref(), attempt).await
            }
        }
    }

    async fn create(&self, desired: Value, attempt: Attempt) -> Result<Applied, ObjectError> {
        let object: DynamicObject = serde_json::from_value(desired)?;
        let created = self.api.create(&PostParams::default(), &object).await;
        if created.as_ref().is_err_and(is_kind_unserved) {
            let (api_version, kind) = kind_of(self.manifest);
            return Err(self.member.forget(api_version, kind).into());
        }
        let write = match self.ownership.applied {
            None => MemberWrite::Create,
            Some(_) => MemberWrite::Recreate,
        };
        Ok(Applied::Written {
            object: self.written(write, created, attempt)?,
            reverted: None,
            corrected: None,
        })
    }

    async fn update(
        &self,
        desired: Value,
        observed: Option<&MemberObject>,
        attempt: Attempt,
    ) -> Result<Applied, ObjectError> {
        let reverted = observed.and_then(|observed| observed.reverted_scale(&desired));
        let object: DynamicObject = serde_json::from_value(desired)?;
        let params = PostParams::default();
        let replaced = self.api.replace(&self.name, &params, &object).await;
        let object = self.written(MemberWrite::Update, replaced, attempt)?;
        let corrected = observed.and_then(|observed| self.corrected_fields(observed, &object));
        if corrected.is_some() {
            self.counter.monitor.drift_corrected(self.counter.of);
        }
        Ok(Applied::Written {
            object,
            reverted,
            corrected,
        })
    }

    /// Compares an object with the result of an update, which the member computes in a dry run: only its server knows
    /// the defaults. Updates an object that differs in its marks only.
    async fn compare(
        &self,
        desired: Value,
        observed: Arc<MemberObject>,
        attempt: Attempt,
    ) -> Result<Applied, ObjectError> {
        let object: DynamicObject = serde_json::from_value(desired.clone())?;
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let result = self.api.replace(&self.name, &dry_run, &object).await?;
        let result = MemberObject::new(&self.resource, result).ok_or(ObjectError::Conflicts)?;
        let changes = changed_fields(&result.value, &observed.value);
        if changes.is_empty() {
            let state = |object: &MemberObject| AppliedState::of(self.manifest, &object.value);
            return if state(&result) == state(&observed) {
                Ok(Applied::Unchanged(observed))
            } else {
                self.update(desired, Some(&observed), attempt).await
            };
        }
        let fields = field_names(&changes);
        // An object of another owner is not reported as a copy of this control plane.
        if self.ownership.covers(&observed.value, self.manifest) {
            return Ok(Applied::Drifted {
                object: observed,
                fields,
            });
        }
        Err(ObjectError::Differs {
            kind: kind_of(self.manifest).1.to_owned(),
            name: full_name(self.manifest),
            cluster: self.counter.of.cluster.to_owned(),
            fields,
        })
    }

    /// Counts a write, and returns the object that the member returned.
    fn written(
        &self,
        write: MemberWrite,
        response: Result<DynamicObject, kube::Error>,
        attempt: Attempt,
    ) -> Result<MemberObject, ObjectError> {
        if attempt == Attempt::Last || !response.as_ref().is_err_and(is_race) {
            self.counter.count(write, &response);
        }
        MemberObject::new(&self.resource, response?).ok_or(ObjectError::Conflicts)
    }

    /// Returns the names of the fields that an update has set back. Returns `None` if the update applied a new manifest,
    /// or if this process has not applied the manifest before.
    fn corrected_fields(&self, observed: &MemberObject, written: &MemberObject) -> Option<String> {
        let applied = self.ownership.applied?;
        if !applied.is_of_manifest(self.manifest) {
            return None;
        }
        let changes = changed_fields(&written.value, &observed.value);
        (!changes.is_empty()).then(|| field_names(&changes))
    }
}

/// Reports whether a request to create an object failed because the member no longer serves the kind.
fn is_kind_unserved(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !is_namespace_missing(status))
}
