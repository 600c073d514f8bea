//! Defaults of Works. They set the permanent id, and prepare the manifests for the member cluster as described in
//! [`manifest`].

use serde_json::Value;

use super::metadata::{entry, set_label};
use super::{Environment, GuardedKind};
use crate::manifest;

pub(super) fn mutate(work: &mut Value, environment: &mut dyn Environment) {
    let Some(label) = GuardedKind::Work.permanent_id_label() else {
        return;
    };
    if entry(work, "labels", label).is_none_or(str::is_empty) {
        set_label(work, label, environment.new_id());
    }
    let id = entry(work, "labels", label).unwrap_or_default().to_owned();
    let manifests = work
        .pointer_mut("/spec/workload/manifests")
        .and_then(Value::as_array_mut);
    for manifest in manifests.into_iter().flatten() {
        manifest::prune(manifest);
        manifest::mark_managed(manifest, &id);
    }
}
