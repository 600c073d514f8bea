//! What the Work of a binding in a cluster says.

use std::collections::BTreeMap;

use berth_api::binding::TargetCluster;
use berth_api::placement::ReplicaSchedulingType;
use berth_api::policy::ConflictResolution;
use berth_api::well_known::{
    APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES, CONFLICT_RESOLUTION, MANAGED, MANAGED_VALUE,
    TEMPLATE_GENERATION, TEMPLATE_UID, WORK_NAME, WORK_NAMESPACE,
};
use berth_api::{Cluster, manifest, names};
use serde_json::{Map, Value, json};

use super::completions;
use super::record::Binding;
use super::targets::is_suspended;
use crate::interpreter::{kind_of, revise_completions, revise_replicas};
use crate::overrides::{Applied, OverrideError, OverrideSet};

/// What a Work should say. The manifest lacks the marks that come with the id of the Work.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredWork {
    /// The cluster.
    pub cluster: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The resource.
    pub manifest: Value,
    /// Whether nothing is sent to the cluster for now.
    pub suspended: bool,
    /// Whether the resource stays in the cluster when the Work goes.
    pub preserved: bool,
}

impl DesiredWork {
    /// The namespace of the Work.
    pub fn namespace(&self) -> String {
        names::execution_namespace(&self.cluster)
    }

    /// Gives the resource more labels.
    pub fn add_labels(&mut self, labels: BTreeMap<String, String>) {
        add(&mut self.manifest, "labels", labels);
    }
}

/// The completions of a Job in each cluster, where they are to be divided.
pub fn divided_completions(
    binding: &Binding,
    template: &Value,
    targets: &[TargetCluster],
) -> BTreeMap<String, i32> {
    let spec = &binding.spec;
    let divided = spec.replicas > 0
        && spec
            .placement
            .as_ref()
            .is_some_and(|placement| placement.scheduling_type() == ReplicaSchedulingType::Divided);
    let completions = template.pointer("/spec/completions");
    let completions = completions.and_then(Value::as_i64);
    match (kind_of(template).1, completions) {
        ("Job", Some(completions)) if divided => {
            let uid = template.pointer("/metadata/uid").and_then(Value::as_str);
            let completions = i32::try_from(completions).unwrap_or(i32::MAX);
            completions::divide(completions, targets, uid.unwrap_or_default())
        }
        _ => BTreeMap::new(),
    }
}

/// The Work of a binding in a cluster, and the overrides that went into it.
///
/// # Errors
/// When an override does not fit the template.
pub fn desired_work(
    binding: &Binding,
    template: &Value,
    target: &TargetCluster,
    completions: Option<i32>,
    overrides: &OverrideSet,
    cluster: &Cluster,
) -> Result<(DesiredWork, Applied), OverrideError> {
    let mut manifest = template.clone();
    // What the scheduler decided counts, whatever the template says by now: it has checked quotas and room.
    if binding.spec.is_workload() {
        revise_replicas(&mut manifest, target.replicas);
    }
    if let Some(completions) = completions {
        revise_completions(&mut manifest, completions);
    }
    // Last, so that overrides have the last word.
    let applied = overrides.apply(&mut manifest, cluster)?;
    let text = |pointer: &str| {
        let value = manifest.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let name = names::work_name(
        kind_of(&manifest).1,
        &text("/metadata/name"),
        &text("/metadata/namespace"),
    );
    let conflict = conflict_resolution(binding, &manifest);
    let mut annotations: BTreeMap<String, String> = binding
        .back_pointers()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    annotations.insert(CONFLICT_RESOLUTION.to_owned(), conflict.to_owned());
    let mut marks = annotations.clone();
    marks.insert(TEMPLATE_UID.to_owned(), text("/metadata/uid"));
    marks.insert(WORK_NAME.to_owned(), name.clone());
    marks.insert(
        WORK_NAMESPACE.to_owned(),
        names::execution_namespace(&target.name),
    );
    let generation = manifest.pointer("/metadata/generation");
    if let Some(generation) = generation.and_then(Value::as_i64).filter(|g| *g > 0) {
        marks.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string());
    }
    for (key, json) in [
        (APPLIED_CLUSTER_OVERRIDES, &applied.cluster),
        (APPLIED_OVERRIDES, &applied.namespaced),
    ] {
        if let Some(json) = json {
            annotations.insert(key.to_owned(), json.clone());
        }
    }
    let labels = BTreeMap::from([(binding.id_label().to_owned(), binding.id.clone())]);
    let mut given = labels.clone();
    given.insert(MANAGED.to_owned(), MANAGED_VALUE.to_owned());
    add(&mut manifest, "labels", given);
    add(&mut manifest, "annotations", marks);
    manifest::prune(&mut manifest);
    let work = DesiredWork {
        cluster: target.name.clone(),
        name,
        labels,
        annotations,
        manifest,
        suspended: is_suspended(&binding.spec, &target.name),
        preserved: binding.spec.preserve_resources_on_deletion == Some(true),
    };
    Ok((work, applied))
}

/// What a user wrote on the template counts, then what the policy says.
fn conflict_resolution(binding: &Binding, manifest: &Value) -> &'static str {
    let annotations = manifest.pointer("/metadata/annotations");
    let written =
        annotations.and_then(|annotations| annotations.get(CONFLICT_RESOLUTION)?.as_str());
    match (written, &binding.spec.conflict_resolution) {
        (Some("abort"), _) => "abort",
        (Some("overwrite"), _) | (_, Some(ConflictResolution::Overwrite)) => "overwrite",
        _ => "abort",
    }
}

fn add(manifest: &mut Value, map: &str, entries: BTreeMap<String, String>) {
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let slot = metadata.entry(map).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    if let Some(present) = slot.as_object_mut() {
        present.extend(entries.into_iter().map(|(key, value)| (key, json!(value))));
    }
}

#[cfg(test)]
#[path = "desired_work_tests.rs"]
mod tests;
