//! Policies as the detector reads them. [`PolicyRecord`] is any stored policy. [`Policy`] is a valid and complete
//! policy, which selects templates.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::admission::{self, SystemEnvironment};
use berth_api::policy::{ActivationPreference, Preemption, PropagationSpec};
use berth_api::well_known::{POLICY_LIMITS, PREEMPTIBLE};
use berth_apimachinery::merge_diff::merge_diff;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use super::claim::{Claim, PolicyKey, PolicyKind};
use super::invalid_selectors::invalid_cluster_selectors;
use super::template::Template;
use crate::resource_selector::{Precision, Selector};

/// A valid and complete policy, which can be applied to templates.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The key.
    pub key: PolicyKey,
    /// The permanent id.
    pub id: String,
    /// The parsed spec.
    pub spec: PropagationSpec,
    /// The spec as stored. Bindings are built from the stored spec, because it also contains unknown fields.
    pub raw_spec: Value,
    /// The compiled resource selectors.
    pub selectors: Vec<Selector>,
    /// The value of the annotation `scheduling.berth/preemptible`, which is copied to bindings.
    pub preemptible: Option<String>,
    /// The values of the annotations that limit workloads, which are copied to bindings.
    pub limits: BTreeMap<&'static str, String>,
}

impl Policy {
    /// Creates a policy from its object, its parsed spec and its valid selectors.
    pub fn new(
        key: PolicyKey,
        object: &DynamicObject,
        spec: PropagationSpec,
        selectors: Vec<Selector>,
    ) -> Self {
        let label = key.kind.guarded().permanent_id_label();
        let id = label.and_then(|label| object.metadata.labels.as_ref()?.get(label));
        let annotations = object.metadata.annotations.as_ref();
        Self {
            id: id.cloned().unwrap_or_default(),
            raw_spec: object.data.get("spec").cloned().unwrap_or_default(),
            preemptible: annotations.and_then(|all| all.get(PREEMPTIBLE)).cloned(),
            limits: POLICY_LIMITS
                .into_iter()
                .filter_map(|name| Some((name, annotations?.get(name)?.clone())))
                .collect(),
            key,
            spec,
            selectors,
        }
    }

    /// Returns the claim that the policy makes on templates.
    pub fn claim(&self) -> Claim {
        Claim {
            policy: self.key.clone(),
            id: self.id.clone(),
        }
    }

    /// Reports whether a change of the policy takes effect for a template only when this template changes next.
    pub fn is_lazy(&self) -> bool {
        self.spec.activation_preference == Some(ActivationPreference::Lazy)
    }

    /// Returns the explicit priority.
    pub fn priority(&self) -> i32 {
        self.spec.priority.unwrap_or(0)
    }

    /// Reports whether the policy may preempt other policies.
    pub fn preempts(&self) -> bool {
        self.spec.preemption == Some(Preemption::Always)
    }

    /// Returns the highest precision with which the policy's selectors match a template, or `None` if no selector
    /// matches.
    pub fn precision(&self, template: &Template) -> Option<Precision> {
        let resource = template.identity();
        let selectors = self.selectors.iter();
        selectors.filter_map(|s| s.precision_of(&resource)).max()
    }

    /// Reports whether the policy selects a template.
    pub fn selects(&self, template: &Template) -> bool {
        self.precision(template).is_some()
    }
}

/// Returns the policy that wins a template among policies of one kind. The highest explicit priority wins, then the
/// highest precision, then the smallest name.
pub(super) fn winner<'a>(
    candidates: impl Iterator<Item = &'a Arc<Policy>>,
    template: &Template,
) -> Option<&'a Arc<Policy>> {
    candidates
        .filter_map(|policy| Some((policy, policy.precision(template)?)))
        .max_by_key(|(policy, precision)| {
            (policy.priority(), *precision, Reverse(&policy.key.name))
        })
        .map(|(policy, _)| policy)
}

/// The state of a stored policy.
#[derive(Clone, Debug)]
pub enum PolicyState {
    /// The policy can be applied.
    Ready(Arc<Policy>),
    /// The policy lacks its permanent id, its finalizer or default values. This merge patch adds the missing fields.
    Incomplete(Value),
    /// The policy is invalid, for this reason. It claims no new template, and existing bindings stay unchanged.
    Invalid(String),
    /// The policy is being deleted, and its templates are released.
    Terminating,
}

/// A stored policy.
#[derive(Clone, Debug)]
pub struct PolicyRecord {
    /// The key.
    pub key: PolicyKey,
    /// The UID.
    pub uid: String,
    /// The resource version.
    pub resource_version: String,
    /// The generation.
    pub generation: Option<i64>,
    /// The finalizers.
    pub finalizers: Vec<String>,
    /// The state.
    pub state: PolicyState,
    /// The API version and kind of each resource selector.
    pub kinds: Vec<(String, String)>,
    /// Errors about invalid selectors, which match nothing.
    pub invalid_selectors: Vec<String>,
}

impl PolicyRecord {
    /// Reads a policy. A policy that cannot be parsed is [invalid](PolicyState::Invalid).
    pub fn from_object(kind: PolicyKind, object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        let key = PolicyKey {
            kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        };
        let mut invalid_selectors = Vec::new();
        let state = if meta.deletion_timestamp.is_some() {
            PolicyState::Terminating
        } else {
            state_of(&key, object, &mut invalid_selectors)
        };
        Self {
            key,
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            state,
            kinds: kinds_of(object),
            invalid_selectors,
        }
    }

    /// Returns the policy if it can be applied.
    pub fn ready(&self) -> Option<&Arc<Policy>> {
        match &self.state {
            PolicyState::Ready(policy) => Some(policy),
            _ => None,
        }
    }

    /// Reports whether the policy has the finalizer for policies of its kind.
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

fn state_of(
    key: &PolicyKey,
    object: &DynamicObject,
    invalid_selectors: &mut Vec<String>,
) -> PolicyState {
    let kind = key.kind.guarded();
    let stored = match serde_json::to_value(object) {
        Ok(stored) => stored,
        Err(error) => return PolicyState::Invalid(error.to_string()),
    };
    let mut complete = stored.clone();
    admission::complete_policy(kind, &mut complete, &mut SystemEnvironment);
    if let Err(errors) = admission::validate_stored(kind, &complete) {
        let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return PolicyState::Invalid(reasons.join("; "));
    }
    if let Some(patch) = merge_diff(&stored, &complete) {
        return PolicyState::Incomplete(patch);
    }
    let spec = match PropagationSpec::deserialize(&stored["spec"]) {
        Ok(spec) => spec,
        Err(error) => return PolicyState::Invalid(format!("spec: {error}")),
    };
    let mut selectors = Vec::with_capacity(spec.resource_selectors.len());
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        match Selector::compile(selector) {
            Ok(selector) => selectors.push(selector),
            Err(error) => invalid_selectors.push(format!(
                "spec.resourceSelectors[{index}].labelSelector matches nothing: {error}"
            )),
        }
    }
    invalid_selectors.extend(invalid_cluster_selectors(&spec.placement));
    PolicyState::Ready(Arc::new(Policy::new(key.clone(), object, spec, selectors)))
}
