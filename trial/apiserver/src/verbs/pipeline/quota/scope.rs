//! Scopes of ResourceQuotas. A quota with scopes counts only the pods that match all its scopes.

use serde_json::Value;

/// A scope of a quota: a condition on pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// The QoS class of the pod is `BestEffort`, or is another class if the value is false.
    BestEffort(bool),
    /// The pod has an active deadline, or has no deadline if the value is false.
    Terminating(bool),
    /// The priority class of the pod is in `names` if `among` is true, and is not in `names` if `among` is false.
    Class { among: bool, names: Vec<String> },
    /// The pod has a priority class.
    SomeClass,
    /// The pod has an affinity to pods of other namespaces.
    CrossNamespaceAffinity,
    /// No pod matches. The server uses this variant for scopes of volumes, unknown scopes and unsupported operators.
    Never,
}

impl Scope {
    /// Returns the scopes in the fields `scopes` and `scopeSelector` of a quota.
    pub(super) fn all_of(spec: &Value) -> Vec<Self> {
        let listed = spec["scopes"].as_array().into_iter().flatten();
        let listed = listed
            .filter_map(Value::as_str)
            .map(|name| Self::of(name, "Exists", Vec::new()));
        let selected = spec["scopeSelector"]["matchExpressions"].as_array();
        let selected = selected.into_iter().flatten().map(|expression| {
            let text = |field: &str| expression[field].as_str().unwrap_or_default();
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect();
            Self::of(text("scopeName"), text("operator"), values)
        });
        listed.chain(selected).collect()
    }

    fn of(name: &str, operator: &str, names: Vec<String>) -> Self {
        match (name, operator) {
            ("BestEffort", _) => Self::BestEffort(true),
            ("NotBestEffort", _) => Self::BestEffort(false),
            ("Terminating", _) => Self::Terminating(true),
            ("NotTerminating", _) => Self::Terminating(false),
            ("PriorityClass", "Exists") => Self::SomeClass,
            ("PriorityClass", "In") => Self::Class { among: true, names },
            ("PriorityClass", "NotIn") => Self::Class {
                among: false,
                names,
            },
            ("CrossNamespacePodAffinity", _) => Self::CrossNamespaceAffinity,
            _ => Self::Never,
        }
    }

    /// Reports whether the pod matches this scope.
    pub(super) fn matches(&self, pod: &Value) -> bool {
        let spec = &pod["spec"];
        let class = spec["priorityClassName"].as_str().unwrap_or_default();
        match self {
            Self::BestEffort(wanted) => (pod["status"]["qosClass"] == "BestEffort") == *wanted,
            Self::Terminating(wanted) => spec.get("activeDeadlineSeconds").is_some() == *wanted,
            Self::Class { among, names } => names.iter().any(|name| name == class) == *among,
            Self::SomeClass => !class.is_empty(),
            Self::CrossNamespaceAffinity => crosses_namespaces(&spec["affinity"]),
            Self::Never => false,
        }
    }
}

/// Reports whether a pod affinity or anti-affinity refers to pods of other namespaces.
fn crosses_namespaces(affinity: &Value) -> bool {
    let list =
        |kind: &str, list: &str| affinity[kind][list].as_array().cloned().unwrap_or_default();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let required = list(kind, "requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = list(kind, "preferredDuringSchedulingIgnoredDuringExecution");
        let preferred = preferred.iter().map(|p| &p["podAffinityTerm"]);
        required.iter().chain(preferred).any(|term| {
            let named = term["namespaces"].as_array().is_some_and(|n| !n.is_empty());
            named || term["namespaceSelector"].is_object()
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_match_pods() {
        let urgent = json!({"spec": {"priorityClassName": "urgent", "activeDeadlineSeconds": 5}});
        let plain = json!({"spec": {"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}]}}}});
        let class = |operator: &str, values: Value| {
            json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
        };
        for (spec, of_urgent, of_plain) in [
            (json!({}), true, true),
            (json!({"scopes": ["PriorityClass"]}), true, false),
            (class("Exists", Value::Null), true, false),
            (class("In", json!(["urgent"])), true, false),
            (class("In", json!(["other"])), false, false),
            (class("NotIn", json!(["urgent"])), false, true),
            (
                json!({"scopes": ["Terminating", "PriorityClass"]}),
                true,
                false,
            ),
            (json!({"scopes": ["NotTerminating"]}), false, true),
            (
                json!({"scopes": ["CrossNamespacePodAffinity"]}),
                false,
                true,
            ),
        ] {
            let scopes = Scope::all_of(&spec);
            let has = |pod: &Value| scopes.iter().all(|scope| scope.matches(pod));
            assert_eq!((has(&urgent), has(&plain)), (of_urgent, of_plain), "{spec}");
        }
    }
}
