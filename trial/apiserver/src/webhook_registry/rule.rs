//! One parsed rule of a webhook, and the check whether it matches the operation and the resource of a request.

use serde_json::Value;

use crate::resource::Resource;

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

/// A rule of a webhook. A request must match all fields of the rule.
#[derive(Debug)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
}

/// The operation and the subresource of a request. [`Rule::matches`] receives the resource of the request separately.
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

    pub(super) fn matches(&self, request: RequestMatch<'_>, resource: &Resource) -> bool {
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

    pub(super) fn names(&self, request: RequestMatch<'_>, resource: &str) -> bool {
        self.resources.iter().any(|pattern| {
            let (plural, part) = pattern.split_once('/').unwrap_or((pattern, ""));
            (plural == "*" || plural == resource) && (part == "*" || part == request.subresource)
        })
    }
}
