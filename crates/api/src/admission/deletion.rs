//! Objects that carry a label against their deletion.

use serde_json::Value;

use super::metadata::entry;
use crate::well_known::DELETION_PROTECTED;

/// The object may not be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("This resource is protected, please make sure to remove the label: {DELETION_PROTECTED}")]
pub struct DeletionProtected;

/// Whether an object of any kind may be deleted; `object` is the stored one.
///
/// # Errors
/// When its label says `Always`.
pub fn check_deletion(object: &Value) -> Result<(), DeletionProtected> {
    match entry(object, "labels", DELETION_PROTECTED) {
        Some("Always") => Err(DeletionProtected),
        _ => Ok(()),
    }
}
