//! The control plane that owns an object in a member. Several control planes may share a member.
//!
//! Berth writes the id of its control plane, the annotation [`CONTROL_PLANE`], with each object that it writes. An
//! object without the annotation is taken over without a write: Karmada and older versions of Berth do not write the
//! annotation. Karmada also writes the permanent id of the Work. If an object no longer has the permanent id that this
//! process has written, a control plane without an id has replaced the object.

use std::sync::Arc;

use berth_api::well_known::{CONTROL_PLANE, MANAGED, MANAGED_VALUE, WORK_PERMANENT_ID};
use berth_apimachinery::api_error::has_code;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::applied_state::AppliedState;

/// Namespace whose UID is the id of a control plane.
const KUBE_SYSTEM: &str = "kube-system";

/// The id of the control plane, which is read once.
#[derive(Clone)]
pub(crate) struct ControlPlaneId {
    client: Client,
    id: Arc<OnceCell<Option<String>>>,
}

impl ControlPlaneId {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            id: Arc::default(),
        }
    }

    /// Returns the id. Returns `None` if the namespace is missing, or if the controllers may not read it.
    ///
    /// # Errors
    /// When the request fails for another reason.
    pub(super) async fn read(&self) -> Result<Option<&str>, kube::Error> {
        let read = self.id.get_or_try_init(|| async {
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            match namespaces.get_metadata_opt(KUBE_SYSTEM).await {
                Ok(namespace) => Ok(namespace.and_then(|namespace| namespace.uid())),
                Err(error) if has_code(&error, 403) => {
                    tracing::warn!(
                        "cannot read the namespace kube-system, whose UID is the id of the control plane: objects that other control planes own are overwritten; allow `get` of namespaces"
                    );
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        });
        Ok(read.await?.as_deref())
    }
}

/// Another control plane that owns an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OtherOwner {
    /// The control plane with this id.
    #[error("the control plane whose namespace kube-system has the UID {0}")]
    Identified(String),
    /// A control plane that writes no id.
    #[error("another control plane, which has replaced the object")]
    Unidentified,
}

/// Reports whether a control plane manages an object, so that the object may be changed and deleted.
pub fn is_managed(object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(MANAGED)) == Some(&json!(MANAGED_VALUE))
}

/// Returns the other control plane that owns an object, or `None` if no other control plane is known to own it.
/// `applied` is the state after the last write of this process.
pub(crate) fn other_owner(
    observed: &Value,
    manifest: &Value,
    applied: Option<AppliedState>,
    own_id: Option<&str>,
) -> Option<OtherOwner> {
    if !is_managed(observed) {
        return None;
    }
    if let (Some(id), Some(own_id)) = (control_plane(observed), own_id)
        && id != own_id
    {
        return Some(OtherOwner::Identified(id.to_owned()));
    }
    let work = observed.pointer("/metadata/labels")?.get(WORK_PERMANENT_ID);
    let own_work = manifest.pointer("/metadata/labels");
    let own_work = own_work.and_then(|labels| labels.get(WORK_PERMANENT_ID));
    let is_replaced = work.is_some()
        && work != own_work
        && applied.is_some_and(|applied| !applied.is_of_work(work));
    is_replaced.then_some(OtherOwner::Unidentified)
}

fn control_plane(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?;
    annotations.get(CONTROL_PLANE)?.as_str()
}

/// Copies the id of the control plane from the observed object, so that the id is no difference between both objects.
pub(super) fn retain_id(desired: &mut Value, observed: &Value) {
    write_id(desired, control_plane(observed));
}

/// Writes the id of a control plane into an object, or removes the id.
pub(super) fn write_id(object: &mut Value, id: Option<&str>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(id) = id {
        metadata.entry("annotations").or_insert_with(|| json!({}))[CONTROL_PLANE] = json!(id);
        return;
    }
    let annotations = metadata.get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut)
        && annotations.remove(CONTROL_PLANE).is_some()
        && annotations.is_empty()
    {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: Option<&str>, work: &str) -> Value {
        let mut object = json!({ "metadata": { "name": "c",
            "labels": { (MANAGED): MANAGED_VALUE, (WORK_PERMANENT_ID): work } } });
        write_id(&mut object, id);
        object
    }

    #[test]
    fn the_id_decides_the_owner_and_an_object_without_id_is_free() {
        let manifest = object(None, "w");
        let applied = Some(AppliedState::of(&manifest, &object(Some("this"), "w")));
        let other = Some(OtherOwner::Identified("other".to_owned()));
        for (id, work, applied, expected) in [
            (Some("this"), "w", None, None),
            (Some("other"), "w", None, other.clone()),
            (Some("other"), "w", applied, other),
            // Karmada's object, or that of an older version, also of a Work that was created again.
            (None, "w", None, None),
            (None, "former", None, None),
            (None, "w", applied, None),
            // A control plane without an id keeps the annotation when it replaces the object.
            (
                Some("this"),
                "theirs",
                applied,
                Some(OtherOwner::Unidentified),
            ),
            (None, "theirs", applied, Some(OtherOwner::Unidentified)),
        ] {
            let found = other_owner(&object(id, work), &manifest, applied, Some("this"));
            assert_eq!(found, expected, "{id:?} {work}");
        }
        // Objects of a Work that was deleted and created again since the last write.
        let recreated = object(None, "new");
        assert_eq!(
            other_owner(&object(None, "w"), &recreated, applied, None),
            None
        );
    }

    #[test]
    fn an_unmanaged_object_belongs_to_no_control_plane() {
        let mut observed = object(Some("other"), "w");
        observed["metadata"]["labels"] = json!({});
        assert_eq!(other_owner(&observed, &observed, None, Some("this")), None);
    }

    #[test]
    fn the_id_is_written_and_removed() {
        let mut object = json!({ "metadata": { "name": "c" } });
        write_id(&mut object, Some("this"));
        assert_eq!(
            object["metadata"]["annotations"],
            json!({ (CONTROL_PLANE): "this" })
        );
        write_id(&mut object, None);
        assert_eq!(object, json!({ "metadata": { "name": "c" } }));
    }
}
