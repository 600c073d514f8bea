//! The record of a Work in the task of its member: the newest version of the Work, the state of its applied manifests,
//! and the objects that former versions contained.

use std::sync::Arc;

use berth_api::Work;
use berth_api::work::ResourceIdentifier;

use super::applied_state::AppliedState;
use super::pod_looks::LookSchedule;
use super::removed_objects::{contains, identifier, is_same_object, removed_objects};

/// The newest version of a Work, the [`AppliedState`] of each manifest, and the objects of former versions.
#[derive(Debug)]
pub(super) struct WorkRecord {
    work: Arc<Work>,
    applied: Vec<Option<AppliedState>>,
    /// The objects that former versions of the Work contained, and that may exist in the member.
    former: Vec<ResourceIdentifier>,
    /// The looks at the pods of the workload.
    pub(super) looks: LookSchedule,
}

impl WorkRecord {
    pub(super) fn new(work: Arc<Work>) -> Self {
        let applied = vec![None; manifest_count(&work)];
        Self {
            work,
            applied,
            former: Vec::new(),
            looks: LookSchedule::default(),
        }
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
        if changed {
            self.add_former(&work);
            self.looks.restart();
        }
        self.work = work;
        changed
    }

    /// Adds the objects of the stored version that the next version lacks. A new Work of the same name has no former
    /// versions.
    fn add_former(&mut self, next: &Work) {
        if next.metadata.uid != self.work.metadata.uid {
            self.former.clear();
            return;
        }
        let manifests = self.work.spec.workload.manifests.iter();
        let objects = manifests.filter_map(|manifest| identifier(0, manifest));
        self.former
            .extend(objects.filter(|object| !contains(next, object)));
    }

    /// Returns the objects that the Work has applied and no longer contains.
    pub(super) fn removed_objects(&self) -> Vec<ResourceIdentifier> {
        removed_objects(&self.work, &self.former)
    }

    /// Drops objects that no longer exist in the member.
    pub(super) fn forget_former(&mut self, objects: &[ResourceIdentifier]) {
        let is_forgotten =
            |former: &ResourceIdentifier| objects.iter().any(|gone| is_same_object(gone, former));
        self.former.retain(|former| !is_forgotten(former));
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn work(uid: &str, version: u64, names: &[&str]) -> Arc<Work> {
        let manifests: Vec<Value> = names
            .iter()
            .map(
                |name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}),
            )
            .collect();
        let work = json!({
            "metadata": {"name": "w", "uid": uid, "resourceVersion": version.to_string(), "generation": version},
            "spec": {"workload": {"manifests": manifests}},
        });
        Arc::new(serde_json::from_value(work).unwrap())
    }

    #[test]
    fn objects_of_former_versions_are_removed_until_they_are_forgotten() {
        let names = |record: &WorkRecord| -> Vec<String> {
            let removed = record.removed_objects().into_iter();
            removed.map(|object| object.name).collect()
        };
        let mut record = WorkRecord::new(work("1", 1, &["a", "b"]));
        assert!(names(&record).is_empty());
        record.update(work("1", 2, &["b"]));
        record.update(work("1", 3, &["c"]));
        assert_eq!(names(&record), ["a", "b"]);
        record.update(work("1", 4, &["a"]));
        assert_eq!(names(&record), ["b", "c"]);
        let removed = record.removed_objects();
        record.forget_former(&removed);
        assert!(names(&record).is_empty());
        record.update(work("2", 5, &["d"]));
        assert!(
            names(&record).is_empty(),
            "a new work has no former versions"
        );
    }
}
