//! A policy as the detector sees it: ready to be applied, or why it is not.

use std::sync::Arc;

use berth_api::admission::{self, Operation, SystemEnvironment};
use berth_api::policy::{ActivationPreference, Preemption, PropagationSpec};
use berth_api::well_known::PREEMPTIBLE;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use super::affinity_faults::affinity_faults;
use super::claim::{Claim, PolicyKey, PolicyKind};
use crate::merge_diff::merge_diff;
use crate::resource_selector::Selector;

/// A policy that can be applied.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What it is called.
    pub key: PolicyKey,
    /// Its permanent id.
    pub id: String,
    /// The spec, for decisions.
    pub spec: PropagationSpec,
    /// The spec as stored: what is copied to bindings comes from here, so that fields which this version
    /// does not know arrive there too.
    pub raw_spec: Value,
    /// Its selectors, ready to match.
    pub selectors: Vec<Selector>,
    /// The value of its annotation `scheduling.berth/preemptible`, which its bindings get.
    pub preemptible: Option<String>,
}

impl Policy {
    /// The claim that it makes on templates.
    pub fn claim(&self) -> Claim {
        Claim {
            policy: self.key.clone(),
            id: self.id.clone(),
        }
    }

    /// Whether its changes wait for the next change of the template.
    pub fn is_lazy(&self) -> bool {
        self.spec.activation_preference == Some(ActivationPreference::Lazy)
    }

    /// Its explicit priority.
    pub fn priority(&self) -> i32 {
        self.spec.priority.unwrap_or(0)
    }

    /// Whether it may take templates from other policies.
    pub fn preempts(&self) -> bool {
        self.spec.preemption == Some(Preemption::Always)
    }
}

/// Where a policy stands.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It can be applied.
    Ready(Arc<Policy>),
    /// It was stored without its id, finalizer or defaults; this merge patch completes it.
    Incomplete(Value),
    /// It breaks a rule: nothing new is bound by it, and what is bound stays as it is.
    Refused(String),
    /// It is being deleted: what it has claimed is released.
    Leaving,
}

/// A stored policy.
#[derive(Clone, Debug)]
pub struct PolicyRecord {
    /// What it is called.
    pub key: PolicyKey,
    /// Its UID.
    pub uid: String,
    /// The version that was seen.
    pub resource_version: String,
    /// Counts changes of the spec.
    pub generation: Option<i64>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// What can be done with it.
    pub standing: Standing,
    /// The kinds that it names, as `apiVersion` and `kind`.
    pub kinds: Vec<(String, String)>,
    /// Selectors that match nothing because they are not valid, with the reason.
    pub faults: Vec<String>,
}

impl PolicyRecord {
    /// Reads a policy. There is no policy that cannot be read: what is wrong with it becomes its standing.
    pub fn from_object(kind: PolicyKind, object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        let key = PolicyKey {
            kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        };
        let mut faults = Vec::new();
        let standing = if meta.deletion_timestamp.is_some() {
            Standing::Leaving
        } else {
            stand(&key, object, &mut faults)
        };
        Self {
            key,
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            standing,
            kinds: kinds_of(object),
            faults,
        }
    }

    /// The policy, where it can be applied.
    pub fn ready(&self) -> Option<&Arc<Policy>> {
        match &self.standing {
            Standing::Ready(policy) => Some(policy),
            _ => None,
        }
    }

    /// Whether the finalizer of its kind is on it.
    pub fn has_finalizer(&self) -> bool {
        let own = self.key.kind.guarded().policy_finalizer();
        self.finalizers
            .iter()
            .any(|name| Some(name.as_str()) == own)
    }
}

fn kinds_of(object: &DynamicObject) -> Vec<(String, String)> {
    let selectors = object.data.pointer("/spec/resourceSelectors");
    let selectors = selectors.and_then(Value::as_array).into_iter().flatten();
    selectors
        .filter_map(|selector| {
            let text = |field: &str| Some(selector.get(field)?.as_str()?.to_owned());
            Some((text("apiVersion")?, text("kind")?))
        })
        .collect()
}

fn stand(key: &PolicyKey, object: &DynamicObject, faults: &mut Vec<String>) -> Standing {
    let kind = key.kind.guarded();
    let stored = match serde_json::to_value(object) {
        Ok(stored) => stored,
        Err(error) => return Standing::Refused(error.to_string()),
    };
    let mut complete = stored.clone();
    admission::complete_policy(kind, &mut complete, &mut SystemEnvironment);
    if let Err(errors) = admission::validate(kind, Operation::Create, None, &complete) {
        let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Standing::Refused(reasons.join("; "));
    }
    if let Some(patch) = merge_diff(&stored, &complete) {
        return Standing::Incomplete(patch);
    }
    let raw_spec = stored.get("spec").cloned().unwrap_or_default();
    let spec = match PropagationSpec::deserialize(&raw_spec) {
        Ok(spec) => spec,
        Err(error) => return Standing::Refused(format!("spec: {error}")),
    };
    let mut selectors = Vec::with_capacity(spec.resource_selectors.len());
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        match Selector::compile(selector) {
            Ok(selector) => selectors.push(selector),
            Err(error) => faults.push(format!(
                "spec.resourceSelectors[{index}].labelSelector matches nothing: {error}"
            )),
        }
    }
    faults.extend(affinity_faults(&spec.placement));
    let id = kind
        .permanent_id_label()
        .and_then(|label| object.metadata.labels.as_ref()?.get(label))
        .cloned()
        .unwrap_or_default();
    Standing::Ready(Arc::new(Policy {
        key: key.clone(),
        id,
        spec,
        raw_spec,
        selectors,
        preemptible: object
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(PREEMPTIBLE))
            .cloned(),
    }))
}
