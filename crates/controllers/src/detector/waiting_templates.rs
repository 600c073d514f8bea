//! Templates that wait for a policy, for override policies, or for a priority class.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::decision::Cause;
use super::policy::Policy;
use crate::reconciler::work_queue::Reason as _;
use crate::resource_type::{ResourceType, TemplateKey};

/// The waiting templates.
#[derive(Debug, Default)]
pub(super) struct WaitingTemplates {
    /// Templates without a policy, by resource type. For a new policy, only the templates of the selected kinds are
    /// examined.
    without_policy: HashMap<Arc<ResourceType>, HashSet<TemplateKey>>,
    /// Templates that wait for override policies, with the causes for examining them.
    blocked: HashMap<TemplateKey, Cause>,
    without_priority_class: HashSet<TemplateKey>,
}

impl WaitingTemplates {
    /// Adds a template that waits for a policy.
    pub(super) fn await_policy(&mut self, key: TemplateKey) {
        let kind = Arc::clone(&key.resource);
        self.without_policy.entry(kind).or_default().insert(key);
    }

    /// Adds a template whose policy depends on missing override policies.
    pub(super) fn await_overrides(&mut self, key: TemplateKey, cause: Cause) {
        self.blocked.entry(key).or_default().merge(cause);
    }

    /// Adds a template whose policy names a missing priority class.
    pub(super) fn await_priority_class(&mut self, key: TemplateKey) {
        self.without_priority_class.insert(key);
    }

    /// Removes a template that is examined or was deleted.
    pub(super) fn remove(&mut self, key: &TemplateKey) {
        if let Some(waiting) = self.without_policy.get_mut(&key.resource) {
            waiting.remove(key);
            if waiting.is_empty() {
                self.without_policy.remove(&key.resource);
            }
        }
        self.blocked.remove(key);
        self.without_priority_class.remove(key);
    }

    /// Returns the templates that wait for a policy and whose kind this policy selects.
    pub(super) fn with_kinds_of<'a>(
        &'a self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = &'a TemplateKey> {
        self.without_policy
            .iter()
            .filter(|(kind, _)| {
                let mut selectors = policy.selectors.iter();
                selectors.any(|s| kind.is_version_of(&s.api_version, &s.kind))
            })
            .flat_map(|(_, waiting)| waiting)
    }

    /// Removes and returns the templates that wait for override policies.
    pub(super) fn take_for_overrides(&mut self) -> Vec<(TemplateKey, Cause)> {
        self.blocked.drain().collect()
    }

    /// Removes and returns the templates that wait for a priority class.
    pub(super) fn take_for_priority_class(&mut self) -> Vec<TemplateKey> {
        self.without_priority_class.drain().collect()
    }
}
