//! A Work, and what its manifests have become in the member.

use std::sync::Arc;

use berth_api::Work;

use super::decision::Settled;

/// The newest that is known of a Work, and for each of its manifests what is settled.
#[derive(Debug)]
pub(super) struct WorkRecord {
    work: Arc<Work>,
    settled: Vec<Option<Settled>>,
}

impl WorkRecord {
    pub(super) fn new(work: Arc<Work>) -> Self {
        let settled = vec![None; size(&work)];
        Self { work, settled }
    }

    pub(super) fn work(&self) -> &Arc<Work> {
        &self.work
    }

    /// One for each manifest.
    pub(super) fn settled(&self) -> &[Option<Settled>] {
        &self.settled
    }

    /// Takes over a Work, unless a later version of it is known. Whether it has to be looked at: what changes nothing
    /// but its status does not count.
    pub(super) fn take(&mut self, work: Arc<Work>) -> bool {
        if version(&work) < version(&self.work) {
            return false;
        }
        let changed = outline(&work) != outline(&self.work);
        self.settled.resize(size(&work), None);
        self.work = work;
        changed
    }

    /// What became of the manifests.
    pub(super) fn settle(&mut self, settled: Vec<Option<Settled>>) {
        self.settled = settled;
        self.settled.resize(size(&self.work), None);
    }

    /// What was seen in the member does not count any more.
    pub(super) fn unsettle(&mut self) {
        self.settled.fill(None);
    }
}

fn size(work: &Work) -> usize {
    work.spec.workload.manifests.len()
}

/// What decides whether a Work has to be looked at; its status does not.
fn outline(work: &Work) -> (Option<&str>, Option<i64>, bool, Option<&[String]>) {
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
