//! The content of the Work that a binding has for one cluster. [`desired_work`] renders the Work from the template: it
//! sets the replicas, applies the overrides, and adds the marks. Marks are the labels and annotations that identify a
//! managed object and its origin.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::binding::TargetCluster;
use berth_api::placement::ReplicaSchedulingType;
use berth_api::policy::ConflictResolution;
use berth_api::well_known::{
    APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES, CONFLICT_RESOLUTION, MANAGED, MANAGED_VALUE,
    TEMPLATE_GENERATION, TEMPLATE_UID, TRACEPARENT, WORK_NAME, WORK_NAMESPACE,
};
use berth_api::{Binding, Cluster, Work, manifest, names};
use berth_interpreter::{InterpretError, Interpreter, revise_completions};
use serde_json::{Map, Value, json};

use super::completions;
use super::{back_pointers, trace};
use crate::overrides::{AppliedOverrides, OverrideError, OverrideSet};
use crate::suspension::is_suspended;
use berth_apimachinery::json_fields::{generation, kind_of, text_at};

/// An error of rendering a Work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    /// The interpreter cannot set the replicas.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// An override policy cannot be applied to the template.
    #[error(transparent)]
    Override(#[from] OverrideError),
}

/// A rendered Work. Its manifest lacks the marks that depend on the permanent id of the Work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredWork {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The object to apply in the cluster.
    pub(crate) manifest: Value,
    /// True if dispatching to the cluster is suspended.
    pub(crate) suspended: bool,
    /// True if the object stays in the cluster when the template is deleted.
    pub(crate) preserved: bool,
}

impl DesiredWork {
    /// Returns the namespace of the Work.
    pub(crate) fn namespace(&self) -> String {
        names::execution_namespace(&self.cluster)
    }

    /// Adds labels to the manifest.
    pub(crate) fn add_labels(&mut self, labels: BTreeMap<String, String>) {
        add_metadata(&mut self.manifest, "labels", labels);
    }
}

/// Returns the completions of a Job in each cluster. Returns an empty map for other kinds, for a Job without
/// completions, and if the binding's replicas are not divided. `works` are the stored Works of each cluster.
pub(crate) fn divided_completions(
    binding: &Binding,
    template: &Value,
    targets: &[TargetCluster],
    works: &BTreeMap<String, Vec<Arc<Work>>>,
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
            let completions = i32::try_from(completions).unwrap_or(i32::MAX);
            let uid = text_at(template, "/metadata/uid");
            let existing = works.iter().filter_map(|(cluster, works)| {
                let share = works.iter().find_map(|work| completions_of(work, uid))?;
                Some((cluster.clone(), share))
            });
            let indexed = text_at(template, "/spec/completionMode") == "Indexed";
            completions::divide_rest(completions, targets, uid, &existing.collect(), {
                // An Indexed Job can change its completions together with its parallelism.
                |target, share| indexed && share == target.replicas
            })
        }
        _ => BTreeMap::new(),
    }
}

/// Returns the number of completions that no cluster has, because existing Jobs keep their completions.
pub(crate) fn missing_completions(template: &Value, shares: &BTreeMap<String, i32>) -> i64 {
    let completions = template.pointer("/spec/completions");
    let completions = completions.and_then(Value::as_i64).unwrap_or(0);
    let divided: i64 = shares.values().map(|share| i64::from(*share)).sum();
    if shares.is_empty() {
        0
    } else {
        completions - divided
    }
}

/// Returns the completions of the Job in a Work, if the Job was rendered from the template with this UID.
fn completions_of(work: &Work, template_uid: &str) -> Option<i32> {
    let mut manifests = work.spec.workload.manifests.iter();
    let job = manifests.find(|manifest| {
        let annotations = manifest.pointer("/metadata/annotations");
        let uid = annotations.and_then(|annotations| annotations.get(TEMPLATE_UID)?.as_str());
        kind_of(manifest).1 == "Job" && uid == Some(template_uid)
    })?;
    let completions = job.pointer("/spec/completions")?.as_i64()?;
    i32::try_from(completions).ok()
}

/// Renders the Work of a binding for a cluster. Returns the Work and the applied overrides.
///
/// # Errors
/// When the replicas cannot be set, or when an override policy cannot be applied to the template.
pub(crate) fn desired_work(
    binding: &Binding,
    template: &Value,
    target: &TargetCluster,
    completions: Option<i32>,
    overrides: &OverrideSet,
    cluster: &Cluster,
    interpreter: &Interpreter,
) -> Result<(DesiredWork, AppliedOverrides), RenderError> {
    let mut manifest = template.clone();
    // The manifest gets the scheduled number of replicas instead of the template's number, because quota and
    // capacity were checked for the scheduled number.
    if binding.spec.is_workload() {
        interpreter.revise_replicas(&mut manifest, target.replicas)?;
    }
    if let Some(completions) = completions {
        revise_completions(&mut manifest, completions);
    }
    // Overrides are applied last, so that they can also change the replicas.
    let applied = overrides.apply(&mut manifest, cluster)?;
    let name = names::work_name(
        kind_of(&manifest).1,
        text_at(&manifest, "/metadata/name"),
        text_at(&manifest, "/metadata/namespace"),
    );
    let conflict_resolution = conflict_resolution(binding, &manifest);
    let mut annotations: BTreeMap<String, String> = back_pointers(&binding.key)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    annotations.insert(
        CONFLICT_RESOLUTION.to_owned(),
        conflict_resolution.to_owned(),
    );
    let mut marks = annotations.clone();
    marks.insert(
        TEMPLATE_UID.to_owned(),
        text_at(&manifest, "/metadata/uid").to_owned(),
    );
    marks.insert(WORK_NAME.to_owned(), name.clone());
    marks.insert(
        WORK_NAMESPACE.to_owned(),
        names::execution_namespace(&target.name),
    );
    let generation = generation(&manifest);
    if generation > 0 {
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
    if let Some(trace) = trace(binding) {
        annotations.insert(TRACEPARENT.to_owned(), trace.clone());
    }
    let labels = BTreeMap::from([(
        binding.key.kind().id_label().to_owned(),
        binding.permanent_id().to_owned(),
    )]);
    let mut manifest_labels = labels.clone();
    manifest_labels.insert(MANAGED.to_owned(), MANAGED_VALUE.to_owned());
    add_metadata(&mut manifest, "labels", manifest_labels);
    add_metadata(&mut manifest, "annotations", marks);
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

/// Returns the conflict resolution. The annotation of the template takes precedence over the policy.
fn conflict_resolution(binding: &Binding, manifest: &Value) -> &'static str {
    let annotations = manifest.pointer("/metadata/annotations");
    let annotation =
        annotations.and_then(|annotations| annotations.get(CONFLICT_RESOLUTION)?.as_str());
    match (annotation, &binding.spec.conflict_resolution) {
        (Some("abort"), _) => "abort",
        (Some("overwrite"), _) | (_, Some(ConflictResolution::Overwrite)) => "overwrite",
        _ => "abort",
    }
}

fn add_metadata(manifest: &mut Value, map: &str, entries: BTreeMap<String, String>) {
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
mod tests;
