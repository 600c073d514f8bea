//! Validation of roles and their bindings.

use serde_json::Value;

use super::field::Field;
use super::selector;
use crate::error::Cause;
use crate::names;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a role or cluster role.
pub(super) fn role(value: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    for rule in Field::new(&value["rules"], "rules").each() {
        self::rule(&rule, namespaced, causes);
    }
    let aggregation = Field::new(&value["aggregationRule"], "aggregationRule");
    if !aggregation.is_set() || namespaced {
        return;
    }
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.count() == 0 {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        selectors.required(detail, causes);
    }
    for selector in selectors.each() {
        let before = causes.len();
        selector::labels(&selector, causes);
        if causes.len() > before {
            selector.invalid("invalid label selector.", causes);
        }
    }
}

fn rule(rule: &Field<'_>, namespaced: bool, causes: &mut Vec<Cause>) {
    let list = |field: &str| rule.field(field);
    if list("verbs").count() == 0 {
        list("verbs").required("verbs must contain at least one value", causes);
    }
    let paths = list("nonResourceURLs");
    if paths.count() > 0 {
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            paths.invalid(detail, causes);
        }
        let mixed = ["apiGroups", "resources", "resourceNames"];
        if mixed.iter().any(|field| list(field).count() > 0) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            paths.invalid(detail, causes);
        }
        return;
    }
    for (field, detail) in [
        (
            "apiGroups",
            "resource rules must supply at least one api group",
        ),
        (
            "resources",
            "resource rules must supply at least one resource",
        ),
    ] {
        if list(field).count() == 0 {
            list(field).required(detail, causes);
        }
    }
}

/// Checks a role binding or cluster role binding.
pub(super) fn binding(
    value: &Value,
    old: Option<&Value>,
    namespaced: bool,
    causes: &mut Vec<Cause>,
) {
    let role = Field::new(&value["roleRef"], "roleRef");
    role.field("apiGroup").one_of(&[GROUP], causes);
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    role.field("kind").exactly_one_of(kinds, causes);
    role.field("name").named(names::path_segment, causes);
    for subject in Field::new(&value["subjects"], "subjects").each() {
        self::subject(&subject, namespaced, causes);
    }
    if old.is_some_and(|old| old["roleRef"] != *role.value) {
        role.invalid("cannot change roleRef", causes);
    }
}

fn subject(subject: &Field<'_>, namespaced: bool, causes: &mut Vec<Cause>) {
    let (kind, name, group) = (
        subject.field("kind"),
        subject.field("name"),
        subject.field("apiGroup"),
    );
    name.not_empty(causes);
    match kind.text() {
        "ServiceAccount" => {
            name.optional(names::subdomain, causes);
            if !group.text().is_empty() {
                group.one_of(&[""], causes);
            }
            if !namespaced {
                subject.field("namespace").not_empty(causes);
            }
        }
        "User" | "Group" => group.one_of(&[GROUP], causes),
        _ => kind.exactly_one_of(&["ServiceAccount", "User", "Group"], causes),
    }
}
