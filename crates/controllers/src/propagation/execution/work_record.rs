//! The record of a Work in the task of its member: the newest version of the Work, and the state of its applied
//! manifests.

use std::sync::Arc;

use berth_api::Work;

use super::drift::AppliedState;

/// The newest version of a Work, and the [`AppliedState`] of each manifest.
#[derive(Debug)]
pub(super) struct WorkRecord {
    work: Arc<Work>,
    applied: Vec<Option<AppliedState>>,
}

impl WorkRecord {
    pub(super) fn new(work: Arc<Work>) -> Self {
        let applied = vec![None; manifest_count(&work)];
        Self { work, applied }
    }

    pub(super) fn work(&self) -> &Arc<Work> {
        &self.work
    }

    /// Returns the applied state of each manifest.
    pub(super) fn applied(&self) -> &[Option<AppliedState>] {
        &self.applied
    }

    /// Stores a Work, unless a later version is stored. Reports whether the Work must be reconciled. If only the status
    /// changed, no reconciliation is needed.
    pub(super) fn update(&mut self, work: Arc<Work>) -> bool {
        if version(&work) < version(&self.work) {
            return false;
        }
        let changed = relevant_fields(&work) != relevant_fields(&self.work);
        self.applied.resize(manifest_count(&work), None);
        self.work = work;
        changed
    }

    pub(super) fn set_applied(&mut self, applied: Vec<Option<AppliedState>>) {
        self.applied = applied;
        self.applied.resize(manifest_count(&self.work), None);
    }

    /// Removes the applied states, so that every object is compared again.
    pub(super) fn clear_applied(&mut self) {
        self.applied.fill(None);
    }
}

fn manifest_count(work: &Work) -> usize {
    work.spec.workload.manifests.len()
}

/// Returns the fields whose change requires a reconciliation.
fn relevant_fields(work: &Work) -> (Option<&str>, Option<i64>, bool, Option<&[String]>) {
    let meta = &work.metadata;
    (
        meta.uid.as_deref(),
        meta.generation,
        meta.deletion_timestamp.is_some(),
        meta.finalizers.as_deref(),
    )
}

fn version(work: &Work) -> u64 {
    let version = work.metadata.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}
