//! Templates that wait for something to come: a policy, overrides, a priority class.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::decision::Cause;
use super::policy::Policy;
use crate::resource_type::{ResourceType, TemplateKey};

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct WaitingList {
    /// By kind, so that a new policy looks at templates of its kinds only.
    unmatched: HashMap<Arc<ResourceType>, HashSet<TemplateKey>>,
    /// With the reason for which they were looked at, which must not be lost.
    blocked: HashMap<TemplateKey, Cause>,
    classless: HashSet<TemplateKey>,
}

impl WaitingList {
    /// No policy selects the template.
    pub(super) fn await_policy(&mut self, key: TemplateKey) {
        let kind = Arc::clone(&key.resource);
        self.unmatched.entry(kind).or_default().insert(key);
    }

    /// The template's policy depends on overrides that do not exist.
    pub(super) fn await_overrides(&mut self, key: TemplateKey, cause: Cause) {
        self.blocked.entry(key).or_default().merge(cause);
    }

    /// The template's policy names a priority class that does not exist.
    pub(super) fn await_priority_class(&mut self, key: TemplateKey) {
        self.classless.insert(key);
    }

    /// The template is looked at, or gone.
    pub(super) fn forget(&mut self, key: &TemplateKey) {
        if let Some(waiting) = self.unmatched.get_mut(&key.resource) {
            waiting.remove(key);
            if waiting.is_empty() {
                self.unmatched.remove(&key.resource);
            }
        }
        self.blocked.remove(key);
        self.classless.remove(key);
    }

    /// Templates without a policy, of the kinds that a policy selects.
    pub(super) fn of_kinds_of<'a>(
        &'a self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = &'a TemplateKey> {
        self.unmatched
            .iter()
            .filter(|(kind, _)| {
                let mut selectors = policy.selectors.iter();
                selectors.any(|s| s.api_version == kind.api.api_version && s.kind == kind.api.kind)
            })
            .flat_map(|(_, waiting)| waiting)
    }

    /// Takes out what waits for overrides.
    pub(super) fn take_for_overrides(&mut self) -> Vec<(TemplateKey, Cause)> {
        self.blocked.drain().collect()
    }

    /// Takes out what waits for a priority class.
    pub(super) fn take_for_priority_class(&mut self) -> Vec<TemplateKey> {
        self.classless.drain().collect()
    }
}
