//! The desired binding of a template to which a policy is applied. [`binding_for`] computes the desired binding. The
//! module `binding_patch` compares it with the stored binding.

use std::collections::BTreeMap;

use berth_api::admission::drop_empty_values;
use berth_api::binding::ReplicaRequirements;
use berth_api::cluster_queue::QUEUE_NAME;
use berth_api::feature_gates::FeatureGates;
use berth_api::placement::WorkloadGroupTerm;
use berth_api::well_known::{PREEMPTIBLE, PREEMPTIBLE_COPIED, REPLICA_LIMITS};
use berth_api::{BindingKey, BindingKind};
use berth_interpreter::{InterpretError, Interpreter};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::policy::Policy;
use super::template::Template;

/// The fields of a binding that the detector determines.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredBinding {
    /// The key of the binding.
    pub key: BindingKey,
    /// The UID of the template, which owns the binding.
    pub owner_uid: String,
    /// The owner reference to the template. The binding has no other owner reference.
    pub owner: Value,
    /// The labels that identify the policy, and the name of the ClusterQueue.
    pub labels: Map<String, Value>,
    /// The annotations that identify the policy, and the annotations that are copied from the policy.
    pub annotations: Map<String, Value>,
    /// The spec fields that the policy and the template determine. `binding_patch` removes such a field from the stored
    /// binding if it is missing here, and keeps all other fields.
    pub spec: Map<String, Value>,
    /// The kind of values that the interpreter read from the template.
    pub interpreted: Interpreted,
}

/// The kind of values that the interpreter read from a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpreted {
    /// No values, because the interpreter has no rule for replicas or components of the template's kind.
    Nothing,
    /// The replicas and their requirements.
    Replicas,
    /// The components.
    Components,
}

impl DesiredBinding {
    /// Returns the kind of the binding.
    pub fn kind(&self) -> BindingKind {
        self.key.kind()
    }
}

/// Returns the desired binding of a template to which a policy is applied. `priority` is the value of the policy's
/// priority class.
///
/// # Errors
/// When the interpreter cannot read the template's replicas or components.
pub fn binding_for(
    template: &Template,
    policy: &Policy,
    priority: Option<i32>,
    gates: FeatureGates,
    interpreter: &Interpreter,
) -> Result<DesiredBinding, InterpretError> {
    let key = template.key.binding();
    let kind = key.kind();
    let mut spec = policy_fields(policy);
    spec.insert("resource".to_owned(), reference(template));
    let read = read_template(template, gates, interpreter, &mut spec)?;
    if kind == BindingKind::Namespaced {
        if let Some(priority) = priority {
            spec.insert(
                "schedulePriority".to_owned(),
                json!({ "priority": priority }),
            );
        }
        if gates.engine.workload_affinity
            && let Some(groups) = affinity_groups(&template.labels, policy)
        {
            spec.insert("workloadAffinityGroups".to_owned(), groups);
        }
    }
    let claim = policy.claim();
    let mut annotations = claim.annotations();
    if let Some(value) = &policy.preemptible {
        annotations.insert(PREEMPTIBLE.to_owned(), json!(value));
        annotations.insert(PREEMPTIBLE_COPIED.to_owned(), json!("true"));
    }
    for (name, value) in &policy.limits {
        annotations.insert((*name).to_owned(), json!(value));
    }
    if let Some(limits) = &template.replica_limits {
        annotations.insert(REPLICA_LIMITS.to_owned(), json!(limits));
    }
    let mut labels = claim.labels();
    if let Some(queue) = template.labels.get(QUEUE_NAME) {
        labels.insert(QUEUE_NAME.to_owned(), json!(queue));
    }
    Ok(DesiredBinding {
        key,
        owner_uid: template.uid.clone(),
        owner: json!({
            "apiVersion": template.key.api_version(),
            "kind": template.key.kind(),
            "name": template.key.name,
            "uid": template.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }),
        labels,
        annotations,
        spec,
        interpreted: read,
    })
}

fn policy_fields(policy: &Policy) -> Map<String, Value> {
    let mut raw = policy.raw_spec.clone();
    drop_empty_values(&mut raw, &policy.spec);
    let mut spec = Map::new();
    for field in [
        "schedulerName",
        "failover",
        "conflictResolution",
        "preserveResourcesOnDeletion",
        "suspension",
    ] {
        if let Some(value) = raw.get(field).filter(|value| !value.is_null()) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    let placement = raw.get("placement").filter(|value| value.is_object());
    let placement = placement.cloned().unwrap_or_else(|| json!({}));
    spec.insert("placement".to_owned(), placement);
    if policy.spec.propagate_deps {
        spec.insert("propagateDeps".to_owned(), json!(true));
    }
    spec
}

fn reference(template: &Template) -> Value {
    let key = &template.key;
    let mut reference = json!({
        "apiVersion": key.api_version(),
        "kind": key.kind(),
        "name": key.name,
        "uid": template.uid,
        "resourceVersion": template.resource_version,
    });
    if !key.namespace.is_empty() {
        reference["namespace"] = json!(key.namespace);
    }
    reference
}

/// Adds the components of a template to `spec`, or the replicas and their requirements if there is no rule for
/// components.
fn read_template(
    template: &Template,
    gates: FeatureGates,
    interpreter: &Interpreter,
    spec: &mut Map<String, Value>,
) -> Result<Interpreted, InterpretError> {
    let Some(body) = &template.body else {
        return Ok(Interpreted::Nothing);
    };
    let key = &template.key;
    let (api_version, kind) = (key.api_version(), key.kind());
    if gates.engine.multiple_pod_templates_scheduling
        && let Some(components) = interpreter.components(api_version, kind, body)?
    {
        if !components.is_empty() {
            spec.insert("components".to_owned(), json!(components));
        }
        return Ok(Interpreted::Components);
    }
    let Some(workload) = interpreter.replicas(api_version, kind, body)? else {
        return Ok(Interpreted::Nothing);
    };
    if workload.replicas != 0 {
        spec.insert("replicas".to_owned(), json!(workload.replicas));
    }
    if let Some(mut requirements) = workload.requirements {
        // As in Karmada, empty values of the template are omitted, for example in tolerations.
        if let Ok(typed) = ReplicaRequirements::deserialize(&requirements) {
            drop_empty_values(&mut requirements, &typed);
        }
        if gates.controllers.resource_quota_estimate {
            if !key.namespace.is_empty() && requirements["namespace"].is_null() {
                requirements["namespace"] = json!(key.namespace);
            }
            if let Some(class) = workload
                .priority_class_name
                .filter(|class| !class.is_empty())
            {
                requirements["priorityClassName"] = json!(class);
            }
        }
        spec.insert("replicaRequirements".to_owned(), requirements);
    }
    Ok(Interpreted::Replicas)
}

fn affinity_groups(labels: &BTreeMap<String, String>, policy: &Policy) -> Option<Value> {
    let affinity = policy.spec.placement.workload_affinity.as_ref()?;
    let group = |term: &Option<WorkloadGroupTerm>| {
        let key = &term.as_ref()?.group_by_label_key;
        labels.get(key).map(|value| format!("{key}={value}"))
    };
    let mut groups = Map::new();
    for (field, term) in [
        ("affinityGroup", &affinity.affinity),
        ("antiAffinityGroup", &affinity.anti_affinity),
    ] {
        if let Some(group) = group(term) {
            groups.insert(field.to_owned(), json!(group));
        }
    }
    (!groups.is_empty()).then_some(Value::Object(groups))
}

#[cfg(test)]
mod tests;
