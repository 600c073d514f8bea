//! The protection of objects from deletion, by a label.

use serde_json::Value;

use super::metadata::entry;
use crate::well_known::DELETION_PROTECTED;

/// An error for the deletion of a protected object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("This resource is protected, please make sure to remove the label: {DELETION_PROTECTED}")]
pub struct DeletionProtected;

/// Checks whether a stored object of any kind may be deleted.
///
/// # Errors
/// When the protection label of the object has the value `Always`.
pub fn check_deletion(object: &Value) -> Result<(), DeletionProtected> {
    match entry(object, "labels", DELETION_PROTECTED) {
        Some("Always") => Err(DeletionProtected),
        _ => Ok(()),
    }
}
