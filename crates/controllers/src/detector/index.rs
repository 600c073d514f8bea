//! What the detector knows of the control plane: templates, policies, overrides, bindings.
//!
//! The index answers questions about what was seen. It decides nothing, and it is owned by one task.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kube::api::DynamicObject;

use super::claim::{PolicyKey, PolicyKind};
use super::policy::{Policy, PolicyRecord};
use super::selection::winner;
use super::template::Template;
use crate::binding_key::BindingKey;
use crate::resource_type::TemplateKey;

/// The name of an override policy: kind, namespace, name.
pub type OverrideKey = (PolicyKind, String, String);

/// What was seen of the control plane.
#[derive(Debug, Default)]
pub struct Index {
    templates: HashMap<TemplateKey, Arc<Template>>,
    policies: HashMap<PolicyKey, Arc<PolicyRecord>>,
    /// The policies of each namespace; ClusterPropagationPolicies under the empty one.
    by_namespace: HashMap<(PolicyKind, String), BTreeSet<PolicyKey>>,
    claimed: HashMap<PolicyKey, HashSet<TemplateKey>>,
    bindings: HashMap<BindingKey, Arc<DynamicObject>>,
    overrides: HashSet<OverrideKey>,
}

impl Index {
    /// A template.
    pub fn template(&self, key: &TemplateKey) -> Option<&Arc<Template>> {
        self.templates.get(key)
    }

    /// Takes in a template; returns what it replaces.
    pub fn put_template(&mut self, template: &Arc<Template>) -> Option<Arc<Template>> {
        if let Some(claim) = &template.claim {
            let claimed = self.claimed.entry(claim.policy.clone()).or_default();
            claimed.insert(template.key.clone());
        }
        let old = self
            .templates
            .insert(template.key.clone(), Arc::clone(template));
        if let Some(old) = &old {
            let stays = |claim: &super::claim::Claim| {
                template
                    .claim
                    .as_ref()
                    .is_some_and(|new| new.policy == claim.policy)
            };
            if old.claim.as_ref().is_some_and(|claim| !stays(claim)) {
                self.unclaim(old);
            }
        }
        old
    }

    /// Forgets a template; returns it.
    pub fn remove_template(&mut self, key: &TemplateKey) -> Option<Arc<Template>> {
        let old = self.templates.remove(key)?;
        self.unclaim(&old);
        Some(old)
    }

    fn unclaim(&mut self, template: &Template) {
        if let Some(claim) = &template.claim
            && let Some(claimed) = self.claimed.get_mut(&claim.policy)
        {
            claimed.remove(&template.key);
            if claimed.is_empty() {
                self.claimed.remove(&claim.policy);
            }
        }
    }

    /// The templates that a policy of this name has claimed.
    pub fn claimed_by(&self, policy: &PolicyKey) -> impl Iterator<Item = &TemplateKey> {
        self.claimed.get(policy).into_iter().flatten()
    }

    /// The keys of all templates.
    pub fn template_keys(&self) -> impl Iterator<Item = &TemplateKey> {
        self.templates.keys()
    }

    /// A policy as it was seen.
    pub fn policy(&self, key: &PolicyKey) -> Option<&Arc<PolicyRecord>> {
        self.policies.get(key)
    }

    /// All policies.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<PolicyRecord>> {
        self.policies.values()
    }

    /// Takes in a policy; returns what it replaces.
    pub fn put_policy(&mut self, record: Arc<PolicyRecord>) -> Option<Arc<PolicyRecord>> {
        let key = record.key.clone();
        self.by_namespace
            .entry((key.kind, key.namespace.clone()))
            .or_default()
            .insert(key.clone());
        self.policies.insert(key, record)
    }

    /// Forgets a policy; returns it.
    pub fn remove_policy(&mut self, key: &PolicyKey) -> Option<Arc<PolicyRecord>> {
        let place = (key.kind, key.namespace.clone());
        if let Some(neighbours) = self.by_namespace.get_mut(&place) {
            neighbours.remove(key);
            if neighbours.is_empty() {
                self.by_namespace.remove(&place);
            }
        }
        self.policies.remove(key)
    }

    /// The policies that can be applied, of one kind and namespace.
    pub fn ready_policies(
        &self,
        kind: PolicyKind,
        namespace: &str,
    ) -> impl Iterator<Item = &Arc<Policy>> {
        let keys = self.by_namespace.get(&(kind, namespace.to_owned()));
        keys.into_iter()
            .flatten()
            .filter_map(|key| self.policies.get(key)?.ready())
    }

    /// The policy that wins an unclaimed template: any PropagationPolicy of its namespace comes before
    /// every ClusterPropagationPolicy.
    pub fn best_policy(&self, template: &Template) -> Option<&Arc<Policy>> {
        let namespace = &template.key.namespace;
        let near = (!namespace.is_empty())
            .then(|| {
                winner(
                    self.ready_policies(PolicyKind::Namespaced, namespace),
                    template,
                )
            })
            .flatten();
        near.or_else(|| winner(self.ready_policies(PolicyKind::Cluster, ""), template))
    }

    /// Whether all overrides exist on which a policy depends.
    pub fn has_overrides_of(&self, policy: &Policy) -> bool {
        policy.spec.dependent_overrides.iter().all(|name| {
            let key = &policy.key;
            self.overrides
                .contains(&(key.kind, key.namespace.clone(), name.clone()))
        })
    }

    /// Takes in an override policy.
    pub fn put_override(&mut self, key: OverrideKey) -> bool {
        self.overrides.insert(key)
    }

    /// Forgets an override policy.
    pub fn remove_override(&mut self, key: &OverrideKey) {
        self.overrides.remove(key);
    }

    /// The override policies of a kind.
    pub fn overrides(&self, kind: PolicyKind) -> impl Iterator<Item = &OverrideKey> {
        self.overrides.iter().filter(move |key| key.0 == kind)
    }

    /// A binding.
    pub fn binding(&self, key: &BindingKey) -> Option<&Arc<DynamicObject>> {
        self.bindings.get(key)
    }

    /// The keys of all bindings.
    pub fn binding_keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.bindings.keys()
    }

    /// Takes in a binding.
    pub fn put_binding(&mut self, key: BindingKey, binding: DynamicObject) {
        self.bindings.insert(key, Arc::new(binding));
    }

    /// Forgets a binding.
    pub fn remove_binding(&mut self, key: &BindingKey) -> bool {
        self.bindings.remove(key).is_some()
    }
}
