//! The index of the detector: the observed templates, policies, override policies and bindings.
//!
//! ```text
//!               resource selectors
//! Propagation- ────────────────────> template ──┐
//! Policy, Cluster- <─────────────────           │ kind and name of the template
//! PropagationPolicy   claim: labels             │ are the name of the binding
//!     │     ^         and annotations           v
//!     │     │                            ResourceBinding,
//!     │     └─────────────────────────── ClusterResourceBinding
//!     │ dependentOverrides   claim
//!     v
//! OverridePolicy, ClusterOverridePolicy
//! ```
//!
//! An arrow is a reference in an object. A selector may match any number of templates, but a template has one claim. The
//! index therefore follows claims backwards, from a policy to its templates, and finds the policy of an unclaimed
//! template by a search among the policies of its namespace.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::BindingKey;
use kube::api::DynamicObject;

use super::claim::{PolicyKey, PolicyKind};
use super::policy::{Policy, PolicyRecord, winner};
use super::template::Template;
use crate::resource_type::TemplateKey;

/// The observed objects.
#[derive(Debug, Default)]
pub struct Index {
    templates: HashMap<TemplateKey, Arc<Template>>,
    policies: HashMap<PolicyKey, Arc<PolicyRecord>>,
    /// The policies by kind and namespace. The namespace of a ClusterPropagationPolicy is empty.
    by_namespace: HashMap<(PolicyKind, String), BTreeSet<PolicyKey>>,
    claimed: HashMap<PolicyKey, HashSet<TemplateKey>>,
    bindings: HashMap<BindingKey, Arc<DynamicObject>>,
    overrides: HashSet<PolicyKey>,
}

impl Index {
    /// Returns a template.
    pub fn template(&self, key: &TemplateKey) -> Option<&Arc<Template>> {
        self.templates.get(key)
    }

    /// Stores a template. Returns the replaced template.
    pub fn put_template(&mut self, template: &Arc<Template>) -> Option<Arc<Template>> {
        if let Some(claim) = &template.claim {
            let claimed = self.claimed.entry(claim.policy.clone()).or_default();
            claimed.insert(template.key.clone());
        }
        let old = self
            .templates
            .insert(template.key.clone(), Arc::clone(template));
        if let Some(old) = &old {
            let is_kept = |claim: &super::claim::Claim| {
                template
                    .claim
                    .as_ref()
                    .is_some_and(|new| new.policy == claim.policy)
            };
            if old.claim.as_ref().is_some_and(|claim| !is_kept(claim)) {
                self.remove_claim(old);
            }
        }
        old
    }

    /// Removes and returns a template.
    pub fn remove_template(&mut self, key: &TemplateKey) -> Option<Arc<Template>> {
        let old = self.templates.remove(key)?;
        self.remove_claim(&old);
        Some(old)
    }

    fn remove_claim(&mut self, template: &Template) {
        if let Some(claim) = &template.claim
            && let Some(claimed) = self.claimed.get_mut(&claim.policy)
        {
            claimed.remove(&template.key);
            if claimed.is_empty() {
                self.claimed.remove(&claim.policy);
            }
        }
    }

    /// Returns the templates that the policy with this key has claimed.
    pub fn claimed_by(&self, policy: &PolicyKey) -> impl Iterator<Item = &TemplateKey> {
        self.claimed.get(policy).into_iter().flatten()
    }

    /// Returns the keys of all templates.
    pub fn template_keys(&self) -> impl Iterator<Item = &TemplateKey> {
        self.templates.keys()
    }

    /// Returns a policy.
    pub fn policy(&self, key: &PolicyKey) -> Option<&Arc<PolicyRecord>> {
        self.policies.get(key)
    }

    /// Returns all policies.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<PolicyRecord>> {
        self.policies.values()
    }

    /// Stores a policy. Returns the replaced policy.
    pub fn put_policy(&mut self, record: Arc<PolicyRecord>) -> Option<Arc<PolicyRecord>> {
        let key = record.key.clone();
        self.by_namespace
            .entry((key.kind, key.namespace.clone()))
            .or_default()
            .insert(key.clone());
        self.policies.insert(key, record)
    }

    /// Removes and returns a policy.
    pub fn remove_policy(&mut self, key: &PolicyKey) -> Option<Arc<PolicyRecord>> {
        let namespace = (key.kind, key.namespace.clone());
        if let Some(policies) = self.by_namespace.get_mut(&namespace) {
            policies.remove(key);
            if policies.is_empty() {
                self.by_namespace.remove(&namespace);
            }
        }
        self.policies.remove(key)
    }

    /// Returns the ready policies of a kind and namespace.
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

    /// Returns the policy that must claim an unclaimed template. Every PropagationPolicy in the template's namespace
    /// precedes every ClusterPropagationPolicy.
    pub fn best_policy(&self, template: &Template) -> Option<&Arc<Policy>> {
        let namespace = &template.key.namespace;
        let namespaced = (!namespace.is_empty())
            .then(|| {
                winner(
                    self.ready_policies(PolicyKind::Namespaced, namespace),
                    template,
                )
            })
            .flatten();
        namespaced.or_else(|| winner(self.ready_policies(PolicyKind::Cluster, ""), template))
    }

    /// Reports whether all override policies that a policy depends on exist.
    pub fn has_overrides_of(&self, policy: &Policy) -> bool {
        policy.spec.dependent_overrides.iter().all(|name| {
            self.overrides.contains(&PolicyKey {
                name: name.clone(),
                ..policy.key.clone()
            })
        })
    }

    /// Stores an override policy. Reports whether it is new.
    pub fn put_override(&mut self, key: PolicyKey) -> bool {
        self.overrides.insert(key)
    }

    /// Removes an override policy.
    pub fn remove_override(&mut self, key: &PolicyKey) {
        self.overrides.remove(key);
    }

    /// Returns the override policies of a kind.
    pub fn overrides(&self, kind: PolicyKind) -> impl Iterator<Item = &PolicyKey> {
        self.overrides.iter().filter(move |key| key.kind == kind)
    }

    /// Returns a binding.
    pub fn binding(&self, key: &BindingKey) -> Option<&Arc<DynamicObject>> {
        self.bindings.get(key)
    }

    /// Returns the keys of all bindings.
    pub fn binding_keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.bindings.keys()
    }

    /// Stores a binding.
    pub fn put_binding(&mut self, key: BindingKey, binding: DynamicObject) {
        self.bindings.insert(key, Arc::new(binding));
    }

    /// Removes a binding. Reports whether the index contained the binding.
    pub fn remove_binding(&mut self, key: &BindingKey) -> bool {
        self.bindings.remove(key).is_some()
    }
}
