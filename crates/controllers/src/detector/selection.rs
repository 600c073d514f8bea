//! Which templates a policy selects, and which of several policies wins.

use std::cmp::Reverse;
use std::sync::Arc;

use super::policy::Policy;
use super::template::Template;
use crate::resource_selector::Precision;

impl Policy {
    /// How precisely the best of its selectors matches a template, if any does.
    pub fn precision(&self, template: &Template) -> Option<Precision> {
        let resource = template.identity();
        let selectors = self.selectors.iter();
        selectors.filter_map(|s| s.precision_of(&resource)).max()
    }

    /// Whether it selects a template.
    pub fn selects(&self, template: &Template) -> bool {
        self.precision(template).is_some()
    }
}

/// The policy that wins a template among policies of one kind: explicit priority, then precision, then the
/// smallest name.
pub fn winner<'a>(
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
