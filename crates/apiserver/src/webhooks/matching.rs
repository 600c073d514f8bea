//! Matching of requests: the rules, selectors and match conditions of a webhook.

use berth_apimachinery::label_selector::CompiledSelector;
use serde_json::Value;

use super::configuration::{FailurePolicy, Webhook};
use crate::cel::ConditionInput;
use crate::resource::Resource;
use crate::selector::label_map;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

/// A rule, whose lists all have to match.
#[derive(Debug)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
}

/// The parts of a request that rules match, besides its resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestMatch<'a> {
    pub(crate) operation: Operation,
    pub(crate) subresource: &'a str,
}

impl Rule {
    pub(super) fn of(rule: &Value) -> Self {
        let list = |field: &str| {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            scope: match rule["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::Any,
            },
        }
    }

    fn matches(&self, request: RequestMatch<'_>, resource: &Resource) -> bool {
        let includes = |list: &[String], text: &str| list.iter().any(|i| i == "*" || i == text);
        let scope = match self.scope {
            Scope::Any => true,
            Scope::Cluster => !resource.namespaced(),
            Scope::Namespaced => resource.namespaced(),
        };
        scope
            && includes(&self.operations, request.operation.name())
            && includes(&self.groups, &resource.group)
            && includes(&self.versions, &resource.version)
            && self.names(request, &resource.plural)
    }

    fn names(&self, request: RequestMatch<'_>, resource: &str) -> bool {
        self.resources.iter().any(|pattern| {
            let (plural, part) = pattern.split_once('/').unwrap_or((pattern, ""));
            (plural == "*" || plural == resource) && (part == "*" || part == request.subresource)
        })
    }
}

impl Webhook {
    /// Reports whether a rule matches the resource.
    pub(crate) fn matches(&self, request: RequestMatch<'_>, resource: &Resource) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.matches(request, resource))
    }

    /// Reports whether a rule may match another version of the resource.
    pub(crate) fn may_match_equivalent(&self, request: RequestMatch<'_>, plural: &str) -> bool {
        self.equivalent && self.rules.iter().any(|rule| rule.names(request, plural))
    }

    /// Returns the first of `equivalents` that a rule matches, in the order of the rules.
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

    /// Reports whether a namespace with these labels is selected.
    pub(crate) fn selects_namespace(&self, labels: &Value) -> bool {
        let selector = self.namespaces.as_ref();
        selector.is_some_and(|selector| selector.matches(&label_map(labels)))
    }

    /// Reports whether the new or the old object is selected.
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

    /// Reports whether all match conditions are true. A false condition takes precedence over errors of others. Otherwise
    /// the failure policy decides about errors.
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
