//! The outcome of applying one manifest, for the status of its Work and for events.

use super::object_cache::RevertedScale;

/// The outcome of applying one manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ManifestOutcome {
    /// The object was up to date.
    Unchanged,
    /// The object was written.
    Written {
        /// The change of the replicas that the write has undone.
        reverted: Option<RevertedScale>,
        /// The names of the fields that other clients had changed. `None` if the write corrected no drift.
        corrected: Option<String>,
    },
    /// The object is being deleted, and is created again when it is gone.
    Terminating,
    /// The object differs from its manifest in these fields, and is left.
    Drifted(String),
    /// The object could not be written, with the error.
    Failed(String),
}
