//! Works that a controller writes without a binding, for example for a Namespace. Another object owns such a Work, and
//! the Work is deleted together with its owner.

pub(crate) mod ensure_queue;

use berth_api::Work;
use berth_apimachinery::api_error::{api_error_message, is_stale};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde_json::{Value, json};

use crate::propagation::binding::desired_work::DesiredWork;
use crate::propagation::binding::work_patch;

/// A desired Work and its owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedWork {
    /// The content of the Work.
    pub(crate) work: DesiredWork,
    owner: OwnerReference,
}

/// The outcome of writing a Work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ensured {
    /// The Work is up to date.
    Unchanged,
    /// The Work was written.
    Written,
    /// The Work cannot be written yet.
    Unfinished,
}

/// An error of writing a Work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The content cannot be read as a Work.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The request failed.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
}

impl OwnedWork {
    /// Creates a Work that `owner` controls.
    pub(crate) fn new(work: DesiredWork, owner: &impl Resource<DynamicType = ()>) -> Self {
        let owner = owner.controller_owner_ref(&()).unwrap_or_default();
        Self {
            work,
            owner: OwnerReference {
                block_owner_deletion: Some(true),
                ..owner
            },
        }
    }

    /// Returns the content of a new Work with this permanent id.
    pub(crate) fn new_work(&self, id: &str) -> Value {
        let mut work = work_patch::new_work(&self.work, id);
        work["metadata"]["ownerReferences"] = json!([self.owner]);
        work
    }

    /// Reports whether a stored Work has this owner. An earlier owner of the same name has another UID.
    pub(crate) fn owns(&self, work: &Work) -> bool {
        let owners = work.owner_references();
        owners.iter().any(|owner| owner.uid == self.owner.uid)
    }

    async fn ensure(&self, client: &Client) -> Result<Ensured, WriteError> {
        let works: Api<Work> = Api::namespaced(client.clone(), &self.work.namespace());
        let name = &self.work.name;
        let written = match works.get_opt(name).await? {
            None => {
                let new = self.new_work(&uuid::Uuid::new_v4().to_string());
                let new: Work = serde_json::from_value(new)?;
                works.create(&PostParams::default(), &new).await.map(drop)
            }
            // A terminating Work, and a Work of an earlier owner, must be deleted first.
            Some(work) if work.metadata.deletion_timestamp.is_some() => {
                return Ok(Ensured::Unfinished);
            }
            Some(work) if !self.owns(&work) => return Ok(Ensured::Unfinished),
            Some(work) => match work_patch::patch_for(&work, &self.work) {
                None => return Ok(Ensured::Unchanged),
                Some(patch) => {
                    let patch = Patch::Merge(patch);
                    let parameters = PatchParams::default();
                    works.patch(name, &parameters, &patch).await.map(drop)
                }
            },
        };
        match written {
            Ok(()) => Ok(Ensured::Written),
            // The execution namespace does not exist yet, or the Work has changed.
            Err(error) if is_stale(&error) => Ok(Ensured::Unfinished),
            Err(error) => Err(error.into()),
        }
    }
}

/// Writes the Works that differ from the stored Works.
pub(crate) async fn ensure(client: &Client, works: &[OwnedWork]) -> Result<Ensured, WriteError> {
    let mut ensured = Ensured::Unchanged;
    for work in works {
        match work.ensure(client).await? {
            Ensured::Unchanged => {}
            Ensured::Written => ensured = Ensured::Written,
            Ensured::Unfinished => return Ok(Ensured::Unfinished),
        }
    }
    Ok(ensured)
}
