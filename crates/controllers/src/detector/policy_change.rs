//! The effects of a new or changed policy on templates and other policies.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::claim::PolicyKey;
use super::index::Index;
use super::policy::{Policy, PolicyRecord, PolicyState};
use crate::resource_selector::Objects;
use crate::resource_type::{ResourceType, TemplateKey};

/// Reports whether a change of a policy may affect templates. A change of the metadata affects templates only if it
/// changes the state of the policy or an annotation that is copied to bindings.
pub(super) fn is_relevant(old: &PolicyRecord, new: &PolicyRecord) -> bool {
    old.uid != new.uid
        || old.generation != new.generation
        || std::mem::discriminant(&old.state) != std::mem::discriminant(&new.state)
        || copied(old) != copied(new)
}

/// Returns the values of the annotations that are copied to bindings.
fn copied(policy: &PolicyRecord) -> Option<(Option<&str>, &BTreeMap<&'static str, String>)> {
    match &policy.state {
        PolicyState::Ready(policy) => Some((policy.preemptible.as_deref(), &policy.limits)),
        _ => None,
    }
}

/// Returns the templates that a policy selects by name. A policy preempts other policies for these templates only.
pub(super) fn named_templates(
    policy: &Policy,
    types: &HashSet<Arc<ResourceType>>,
) -> Vec<TemplateKey> {
    let mut keys = Vec::new();
    for selector in &policy.selectors {
        if let Objects::Named(name) = &selector.objects {
            let types = types
                .iter()
                .filter(|resource| resource.is_version_of(&selector.api_version, &selector.kind));
            keys.extend(types.map(|resource| resource.key(&selector.namespace, name)));
        }
    }
    keys
}

/// Returns the policies that may preempt a policy after its priority fell. Their priorities are between the new and the
/// old priority of the policy. The policy with the highest priority is the first.
pub(super) fn challengers(index: &Index, policy: &Policy, old_priority: i32) -> Vec<PolicyKey> {
    let key = &policy.key;
    let mut between: Vec<(i32, PolicyKey)> = index
        .ready_policies(key.kind, &key.namespace)
        .filter(|other| {
            other.preempts()
                && other.priority() > policy.priority()
                && other.priority() < old_priority
        })
        .map(|other| (other.priority(), other.key.clone()))
        .collect();
    between.sort_by(|a, b| b.cmp(a));
    between.into_iter().map(|(_, key)| key).collect()
}
