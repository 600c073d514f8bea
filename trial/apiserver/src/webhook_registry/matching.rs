//! The check whether a webhook reviews a request: its rules, selectors and match conditions together.

use berth_apimachinery::label_selector::CompiledSelector;
use serde_json::Value;

use super::configuration::{FailurePolicy, Webhook};
use super::rule::{RequestMatch, Rule};
use crate::cel::ConditionInput;
use crate::resource::Resource;
use crate::selector::label_map;

impl Webhook {
    /// Reports whether a rule of the webhook matches a request on `resource`.
    pub(crate) fn matches(&self, request: RequestMatch<'_>, resource: &Resource) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.matches(request, resource))
    }

    /// Reports whether a rule may match the request in another version or group of the requested resource.
    pub(crate) fn may_match_equivalent(&self, request: RequestMatch<'_>, plural: &str) -> bool {
        self.equivalent && self.rules.iter().any(|rule| rule.names(request, plural))
    }

    /// Returns the first resource in `equivalents` that a rule matches. Earlier rules take precedence. The list
    /// contains the requested resource in other versions and groups.
    pub(crate) fn match_equivalent<T: AsRef<Resource> + Clone>(
        &self,
        request: RequestMatch<'_>,
        equivalents: &[T],
    ) -> Option<T> {
        let matching = |rule: &Rule| {
            let mut all = equivalents.iter();
            all.find(|other| rule.matches(request, (*other).as_ref()))
        };
        self.rules.iter().find_map(matching).cloned()
    }

    /// Reports whether the webhook selects all namespaces.
    pub(crate) fn selects_all_namespaces(&self) -> bool {
        let selector = self.namespaces.as_ref();
        selector.is_some_and(CompiledSelector::is_empty)
    }

    /// Reports whether the webhook selects a namespace with these labels.
    pub(crate) fn selects_namespace(&self, labels: &Value) -> bool {
        let selector = self.namespaces.as_ref();
        selector.is_some_and(|selector| selector.matches(&label_map(labels)))
    }

    /// Reports whether the webhook selects the new or the old object of a request.
    pub(crate) fn selects_object(&self, objects: [&Value; 2]) -> bool {
        let Some(selector) = &self.objects else {
            return false;
        };
        let selects = |object: &Value| {
            let metadata = &object["metadata"];
            metadata.is_object() && selector.matches(&label_map(&metadata["labels"]))
        };
        selector.is_empty() || objects.into_iter().any(selects)
    }

    /// Reports whether all match conditions are true. The evaluation of a condition may also end with an error. Such
    /// errors matter only if no condition is false: the failure policy `Ignore` then returns false, and `Fail` returns
    /// the errors.
    pub(crate) fn evaluate_conditions(&self, input: ConditionInput<'_>) -> Result<bool, String> {
        let mut problems = Vec::new();
        for condition in &self.conditions {
            let found = condition.as_ref().map_err(Clone::clone);
            match found.and_then(|condition| condition.holds(input)) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(problem) => problems.push(problem),
            }
        }
        match self.failure_policy {
            _ if problems.is_empty() => Ok(true),
            FailurePolicy::Ignore => Ok(false),
            FailurePolicy::Fail => Err(problems.join(", ")),
        }
    }

    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }
}
