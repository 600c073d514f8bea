//! What is done with one manifest in a member: it is applied, taken away, or left behind as nobody's.

use std::sync::Arc;

use kube::api::{Api, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::Status;
use serde_json::Value;

use super::decision::{Action, Settled, decide, is_managed, released};
use super::objects::{Known, Seen};
use crate::binding::sync::has_code;
use crate::interpreter::{kind_of, retain};
use crate::kinds::{KindError, Kinds};
use crate::resource_type::ResourceType;
use crate::said::said;

/// How often a write is tried when others write to the same object.
pub(super) const CONFLICT_TRIES: usize = 5;

/// Why a manifest is not in the member.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("the manifest cannot be read: {0}")]
    Shape(#[from] serde_json::Error),
    #[error(
        "resource(kind={kind}, {name}) already exists in the cluster {cluster} and did not come from here; to take it over, set conflictResolution: Overwrite in the policy, or the annotation work.karmada.io/conflict-resolution: overwrite on the resource"
    )]
    Foreign {
        kind: String,
        name: String,
        cluster: String,
    },
    #[error("the object changes all the time")]
    Busy,
}

impl ManifestError {
    pub(super) fn is_unauthorized(&self) -> bool {
        match self {
            Self::Api(error) => has_code(error, 401),
            Self::Kind(KindError::Unknown { source, .. }) => has_code(source, 401),
            _ => false,
        }
    }
}

/// What became of a manifest.
pub(super) enum Outcome {
    /// It was there.
    Unchanged(Arc<Seen>),
    /// It was written, and this is the answer.
    Written(Seen),
    /// The object of before has to be gone first.
    Leaving,
}

/// Applies a manifest, based on what is known of its object.
pub(super) async fn apply(
    member: &Kinds,
    manifest: &Value,
    known: Known,
    settled: Option<Settled>,
    cluster: &str,
) -> Result<(Arc<ResourceType>, Outcome), ManifestError> {
    let resource = find(member, manifest).await?;
    let (api, name) = handle(member, &resource, manifest);
    let look = async || -> Result<Option<Arc<Seen>>, ManifestError> {
        let object = api.get_opt(&name).await?;
        Ok(object
            .and_then(|object| Seen::new(&resource, object))
            .map(Arc::new))
    };
    let mut observed = match known {
        Known::Unknown => look().await?,
        Known::Absent => None,
        Known::Present(seen) => Some(seen),
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let action = decide(manifest, observed.as_ref().map(|seen| &seen.value), settled);
        let written = match action {
            Action::Nothing => {
                let settled = observed.filter(|seen| {
                    let leaving = seen.value.pointer("/metadata/deletionTimestamp");
                    leaving.is_none()
                });
                let outcome = settled.map_or(Outcome::Leaving, Outcome::Unchanged);
                return Ok((resource, outcome));
            }
            Action::Refuse => {
                return Err(ManifestError::Foreign {
                    kind: kind_of(manifest).1.to_owned(),
                    name: full_name(manifest),
                    cluster: cluster.to_owned(),
                });
            }
            Action::Create => {
                let object: DynamicObject = serde_json::from_value(manifest.clone())?;
                let created = api.create(&PostParams::default(), &object).await;
                if created.as_ref().is_err_and(kind_is_gone) {
                    let (api_version, kind) = kind_of(manifest);
                    return Err(member.forget(api_version, kind).into());
                }
                created
            }
            Action::Update(desired) => {
                let object: DynamicObject = serde_json::from_value(*desired)?;
                api.replace(&name, &PostParams::default(), &object).await
            }
        };
        match written {
            Ok(object) => {
                let seen = Seen::new(&resource, object).ok_or(ManifestError::Busy)?;
                return Ok((resource, Outcome::Written(seen)));
            }
            Err(error) if is_race(&error) && tries < CONFLICT_TRIES => observed = look().await?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the object has come, changed or gone since it was looked at.
fn is_race(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            let conflict = status.code == 409 && !status.message.contains("being terminated");
            conflict || status.code == 404 && !lacks_namespace(status)
        }
        _ => false,
    }
}

/// Whether the answer to a creation says that the kind is not served any more.
fn kind_is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !lacks_namespace(status))
}

fn lacks_namespace(status: &Status) -> bool {
    let of = status.details.as_ref().map(|details| details.kind.as_str());
    of == Some("namespaces") || status.message.contains("namespaces")
}

/// Deletes an object that came from here.
pub(super) async fn remove(
    member: &Kinds,
    manifest: &Value,
    known: &Known,
) -> Result<(), ManifestError> {
    let resource = match find(member, manifest).await {
        Ok(resource) => resource,
        Err(error) if error.is_unserved() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (api, name) = handle(member, &resource, manifest);
    let mut known = known.clone();
    for _ in 0..CONFLICT_TRIES {
        let object = match known {
            Known::Present(seen) => seen.value.clone(),
            // What was not seen may be there: the answer to its creation may have been lost, and the watch be late.
            Known::Absent | Known::Unknown => match api.get_opt(&name).await? {
                None => return Ok(()),
                Some(object) => serde_json::to_value(object)?,
            },
        };
        if !is_managed(&object) {
            return Ok(());
        }
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        // Jobs would leave their pods behind otherwise.
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: uid.map(str::to_owned),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&name, &params).await {
            Ok(_) => return Ok(()),
            Err(error) if has_code(&error, 404) => return Ok(()),
            Err(error) if has_code(&error, 409) => known = Known::Unknown,
            Err(error) => return Err(error.into()),
        }
    }
    Err(ManifestError::Busy)
}

/// Takes our marks off an object and leaves it where it is.
pub(super) async fn leave_behind(member: &Kinds, manifest: &Value) -> Result<(), ManifestError> {
    let resource = match find(member, manifest).await {
        Ok(resource) => resource,
        Err(error) if error.is_unserved() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (api, name) = handle(member, &resource, manifest);
    for _ in 0..CONFLICT_TRIES {
        let Some(object) = api.get_opt(&name).await? else {
            return Ok(());
        };
        let observed = serde_json::to_value(object)?;
        if !is_managed(&observed) {
            return Ok(());
        }
        let mut desired = released(manifest);
        retain(&mut desired, &observed);
        let desired: DynamicObject = serde_json::from_value(released(&desired))?;
        match api.replace(&name, &PostParams::default(), &desired).await {
            Ok(_) => return Ok(()),
            Err(error) if is_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ManifestError::Busy)
}

/// How the kind of a manifest is served.
pub(super) async fn find(member: &Kinds, manifest: &Value) -> Result<Arc<ResourceType>, KindError> {
    let (api_version, kind) = kind_of(manifest);
    member.find(api_version, kind).await
}

fn handle(
    member: &Kinds,
    resource: &ResourceType,
    manifest: &Value,
) -> (Api<DynamicObject>, String) {
    let text = |pointer: &str| {
        let value = manifest.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    let api = resource.api(member.client(), text("/metadata/namespace"));
    (api, text("/metadata/name").to_owned())
}

fn full_name(manifest: &Value) -> String {
    let text = |pointer: &str| {
        let value = manifest.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}
