//! Requests that read, delete or release one object in a member. A released object stays in the member without Karmada's
//! marks. [`apply_object`](super::apply_object) creates and updates objects.

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_apimachinery::conflict_retry::CONFLICT_ATTEMPTS;
use std::sync::Arc;

use berth_api::Work;
use berth_api::well_known::{DRIFT_MODE, DRIFT_MODE_REPORT, WORK_NAME, WORK_NAMESPACE};
use berth_interpreter::{InterpretError, Interpreter};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::Status;
use serde_json::Value;

use super::applied_state::AppliedState;
use super::difference::without_marks;
use super::object_cache::{Cached, MemberObject};
use super::ownership::is_managed;
use super::ownership::{OtherOwner, other_owner};
use crate::monitor::{MemberKind, MemberWrite, Monitor, Outcome};
use crate::resource_interpreter::ResourceInterpreter;
use crate::resource_type::ResourceType;
use crate::rest_mapper::{KindError, RestMapper};
use berth_apimachinery::json_fields::{is_deleting, kind_of, text_at};

/// An error of a request about an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectError {
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("cannot decode the manifest: {0}")]
    Manifest(#[from] serde_json::Error),
    #[error(
        "resource(kind={kind}, {name}) already exists in the cluster {cluster} and is not managed by this control plane; to take it over, set conflictResolution: Overwrite in the policy, or the annotation work.karmada.io/conflict-resolution: overwrite on the resource"
    )]
    Unmanaged {
        kind: String,
        name: String,
        cluster: String,
    },
    #[error(
        "resource(kind={kind}, {name}) in the cluster {cluster} is managed by {owner}; remove it from one of the two control planes, or, to take it over, set conflictResolution: Overwrite in the policy, or the annotation work.karmada.io/conflict-resolution: overwrite on the resource"
    )]
    OtherControlPlane {
        kind: String,
        name: String,
        cluster: String,
        owner: OtherOwner,
    },
    #[error(
        "resource(kind={kind}, {name}) already exists in the cluster {cluster}, is not managed by this control plane, and differs in {fields}; because of the annotation {DRIFT_MODE}={DRIFT_MODE_REPORT}, it is taken over only without differences"
    )]
    Differs {
        kind: String,
        name: String,
        cluster: String,
        fields: String,
    },
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    #[error("gave up after repeated conflicts on the object")]
    Conflicts,
}

impl ObjectError {
    /// Reports whether another control plane owns the object.
    pub(super) fn is_of_other_control_plane(&self) -> bool {
        matches!(self, Self::OtherControlPlane { .. })
    }

    pub(super) fn is_unauthorized(&self) -> bool {
        match self {
            Self::Api(error) => has_code(error, 401),
            Self::Kind(KindError::Unknown { source, .. }) => has_code(source, 401),
            _ => false,
        }
    }
}

/// The control plane's knowledge of its ownership of an object.
#[derive(Clone, Copy)]
pub(super) struct Ownership<'a> {
    /// The state after the last write of this process.
    pub(super) applied: Option<AppliedState>,
    /// The id of the control plane.
    pub(super) id: Option<&'a str>,
}

impl Ownership<'_> {
    /// Reports whether the control plane may delete or release an object.
    pub(super) fn covers(self, object: &Value, manifest: &Value) -> bool {
        is_managed(object) && other_owner(object, manifest, self.applied, self.id).is_none()
    }
}

/// A counter for the writes of one object.
pub(super) struct WriteCounter<'a> {
    pub(super) monitor: &'a Monitor,
    pub(super) of: MemberKind<'a>,
}

impl WriteCounter<'_> {
    pub(super) fn count<T, E>(&self, write: MemberWrite, written: &Result<T, E>) {
        let outcome = Outcome::of(written);
        self.monitor.member_write(write, self.of, outcome);
    }
}

/// Reports whether the error means that the object was created, changed or deleted since it was read.
pub(super) fn is_race(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            let conflict = status.code == 409 && !status.message.contains("being terminated");
            conflict || status.code == 404 && !is_namespace_missing(status)
        }
        _ => false,
    }
}

pub(super) fn is_namespace_missing(status: &Status) -> bool {
    let kind = status.details.as_ref().map(|details| details.kind.as_str());
    kind == Some("namespaces") || status.message.contains("namespaces")
}

/// The result of a deletion.
#[derive(Debug)]
pub(super) enum Deletion {
    /// The member has no managed object of this name.
    Gone,
    /// The deletion is requested. The object still exists, because it has finalizers or a grace period.
    Requested(Arc<ResourceType>),
}

/// Deletes the object of a manifest if this control plane manages the object.
pub(super) async fn delete(
    member: &RestMapper,
    manifest: &Value,
    cached: &Cached,
    ownership: Ownership<'_>,
    counter: &WriteCounter<'_>,
) -> Result<Deletion, ObjectError> {
    let resource = match resource_type(member, manifest).await {
        Ok(resource) => resource,
        Err(error) if error.is_unserved() => return Ok(Deletion::Gone),
        Err(error) => return Err(error.into()),
    };
    let (api, name) = api_for(member, &resource, manifest);
    let mut cached = cached.clone();
    for _ in 0..CONFLICT_ATTEMPTS {
        let is_cached = matches!(cached, Cached::Present(_));
        let object = match cached {
            Cached::Present(object) => object.value.clone(),
            // An object that is missing in the cache may exist: the response to its creation may be lost, and its watch
            // event may be late.
            Cached::Absent | Cached::Unknown => match api.get_opt(&name).await? {
                None => return Ok(Deletion::Gone),
                Some(object) => serde_json::to_value(object)?,
            },
        };
        if !ownership.covers(&object, manifest) {
            return Ok(Deletion::Gone);
        }
        // The response is not enough to know whether the object is gone, so it is read again.
        cached = Cached::Unknown;
        if is_deleting(&object) {
            if is_cached {
                continue;
            }
            return Ok(Deletion::Requested(resource));
        }
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        // Background propagation also deletes the pods of Jobs.
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: uid.map(str::to_owned),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let deleted = match api.delete(&name, &params).await {
            Err(error) if has_code(&error, 409) => continue,
            Err(error) if has_code(&error, 404) => Ok(true),
            // kube-apiserver returns the object while it exists, and for some kinds also afterwards.
            other => other.map(|response| response.is_right()),
        };
        counter.count(MemberWrite::Delete, &deleted);
        if deleted? {
            return Ok(Deletion::Gone);
        }
    }
    Err(ObjectError::Conflicts)
}

/// Deletes an object that its Work no longer contains. If the Work preserves its objects, the object stays and loses
/// only Karmada's marks. Nothing happens to an object that another Work has applied, and to an object with one of the
/// UIDs in `kept`, which the Work applies under another API group.
pub(super) async fn remove(
    member: &RestMapper,
    manifest: &Value,
    work: &Work,
    kept: &[&str],
    own_id: Option<&str>,
    counter: &WriteCounter<'_>,
) -> Result<(), ObjectError> {
    let resource = match resource_type(member, manifest).await {
        Ok(resource) => resource,
        Err(error) if error.is_unserved() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (api, name) = api_for(member, &resource, manifest);
    for _ in 0..CONFLICT_ATTEMPTS {
        let Some(object) = api.get_opt(&name).await? else {
            return Ok(());
        };
        let observed = serde_json::to_value(object)?;
        let uid = text_at(&observed, "/metadata/uid");
        if !is_managed(&observed)
            || !is_of_work(&observed, work)
            || other_owner(&observed, manifest, None, own_id).is_some()
            || is_deleting(&observed)
            || kept.contains(&uid)
        {
            return Ok(());
        }
        let removed = if work.spec.preserve_resources_on_deletion == Some(true) {
            let released: DynamicObject = serde_json::from_value(without_marks(&observed))?;
            let replaced = api.replace(&name, &PostParams::default(), &released).await;
            replaced.map(drop)
        } else {
            let version = text_at(&observed, "/metadata/resourceVersion");
            // With the version as a precondition, an object that another Work takes over stays.
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.to_owned()),
                    resource_version: Some(version.to_owned()),
                }),
                ..DeleteParams::background()
            };
            let deleted = api.delete(&name, &params).await.map(drop);
            if !deleted.as_ref().is_err_and(is_race) {
                counter.count(MemberWrite::Delete, &deleted);
            }
            deleted
        };
        match removed {
            Err(error) if is_race(&error) => {}
            other => return Ok(other?),
        }
    }
    Err(ObjectError::Conflicts)
}

/// Reports whether the marks of an object name this Work.
fn is_of_work(object: &Value, work: &Work) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let mark = |key: &str| annotations.and_then(|all| all.get(key)?.as_str());
    mark(WORK_NAMESPACE) == work.metadata.namespace.as_deref()
        && mark(WORK_NAME) == work.metadata.name.as_deref()
}

/// Returns the resource type of a manifest, and the managed object in the member.
pub(super) async fn observe(
    member: &RestMapper,
    manifest: &Value,
    cached: &Cached,
) -> Result<(Arc<ResourceType>, Option<Arc<MemberObject>>), ObjectError> {
    let resource = resource_type(member, manifest).await?;
    let object = match cached {
        Cached::Present(object) => Some(Arc::clone(object)),
        Cached::Absent => None,
        Cached::Unknown => {
            let (api, name) = api_for(member, &resource, manifest);
            let object = api.get_opt(&name).await?;
            let object = object.and_then(|object| MemberObject::new(&resource, object));
            object
                .filter(|object| is_managed(&object.value))
                .map(Arc::new)
        }
    };
    Ok((resource, object))
}

/// Removes Karmada's marks from an object, which stays in the member.
pub(super) async fn release(
    member: &RestMapper,
    manifest: &Value,
    ownership: Ownership<'_>,
    interpreter: &ResourceInterpreter,
) -> Result<(), ObjectError> {
    let resource = match resource_type(member, manifest).await {
        Ok(resource) => resource,
        Err(error) if error.is_unserved() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (api, name) = api_for(member, &resource, manifest);
    for _ in 0..CONFLICT_ATTEMPTS {
        let Some(object) = api.get_opt(&name).await? else {
            return Ok(());
        };
        let observed = serde_json::to_value(object)?;
        if !ownership.covers(&observed, manifest) {
            return Ok(());
        }
        let unmarked = without_marks(manifest);
        let retain = |rules: &Interpreter| {
            let mut desired = unmarked.clone();
            rules.retain(&mut desired, &observed).map(|()| desired)
        };
        let desired = interpreter.interpret(retain).await?;
        let desired: DynamicObject = serde_json::from_value(without_marks(&desired))?;
        match api.replace(&name, &PostParams::default(), &desired).await {
            Ok(_) => return Ok(()),
            Err(error) if is_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ObjectError::Conflicts)
}

/// Returns the resource type of a manifest.
pub(super) async fn resource_type(
    member: &RestMapper,
    manifest: &Value,
) -> Result<Arc<ResourceType>, KindError> {
    let (api_version, kind) = kind_of(manifest);
    member.find(api_version, kind).await
}

pub(super) fn api_for(
    member: &RestMapper,
    resource: &ResourceType,
    manifest: &Value,
) -> (Api<DynamicObject>, String) {
    let api = resource.api(member.client(), text_at(manifest, "/metadata/namespace"));
    (api, text_at(manifest, "/metadata/name").to_owned())
}

/// Returns the kind and the name of an object for messages, such as `Deployment default/web`.
pub(super) fn title(manifest: &Value) -> String {
    format!("{} {}", kind_of(manifest).1, full_name(manifest))
}

pub(super) fn full_name(manifest: &Value) -> String {
    let name = text_at(manifest, "/metadata/name");
    match text_at(manifest, "/metadata/namespace") {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}
