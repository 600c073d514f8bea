//! Validation of roles and their bindings.

use super::checks::selector;
use super::field::Field;
use super::rules::Check::{
    By, EmptyOrOneOf, ExactlyOneOf, IfSet, OneOf, OptionalText, Required, RequiredText,
};
use super::rules::{Rule, apply};
use crate::names;

const GROUP: &str = "rbac.authorization.k8s.io";

const ROLE: &[Rule] = &[("rules[].verbs", Required), ("rules[]", By(resources))];

const AGGREGATION: &[Rule] = &[(
    "aggregationRule",
    IfSet(&[
        ("clusterRoleSelectors", Required),
        ("clusterRoleSelectors[]", By(role_selector)),
    ]),
)];

const BINDING: &[Rule] = &[
    ("roleRef.apiGroup", OneOf(&[GROUP])),
    ("roleRef.name", RequiredText(names::path_segment)),
    ("roleRef", By(role_stays)),
    ("subjects[].name", Required),
    ("subjects[]", By(subject)),
];

/// Checks a role or cluster role.
pub(super) fn role(role: &Field<'_>, namespaced: bool) {
    apply(ROLE, role);
    if !namespaced {
        return apply(AGGREGATION, role);
    }
    for paths in role.items("rules").map(|rule| rule.get("nonResourceURLs")) {
        if paths.count() > 0 {
            paths.invalid("namespaced rules cannot apply to non-resource URLs");
        }
    }
}

fn role_selector(labels: &Field<'_>) {
    let before = labels.causes.borrow().len();
    selector(labels);
    if labels.causes.borrow().len() > before {
        labels.invalid("invalid label selector");
    }
}

fn resources(rule: &Field<'_>) {
    let paths = rule.get("nonResourceURLs");
    if paths.count() == 0 {
        Required.apply(&rule.get("apiGroups"));
        Required.apply(&rule.get("resources"));
    } else if ["apiGroups", "resources", "resourceNames"]
        .iter()
        .any(|list| !rule.get(list).is_empty())
    {
        paths.invalid("rules cannot apply to both resources and non-resource URLs");
    }
}

/// Checks a role binding or cluster role binding.
pub(super) fn binding(binding: &Field<'_>, namespaced: bool) {
    apply(BINDING, binding);
    let kind = binding.get("roleRef.kind");
    if namespaced {
        ExactlyOneOf(&["Role", "ClusterRole"]).apply(&kind);
        return;
    }
    ExactlyOneOf(&["ClusterRole"]).apply(&kind);
    for subject in binding.items("subjects") {
        if subject.text_of("kind") == "ServiceAccount" {
            Required.apply(&subject.get("namespace"));
        }
    }
}

fn role_stays(role: &Field<'_>) {
    if role.old.is_some_and(|old| old != role.value) {
        role.invalid("cannot change roleRef");
    }
}

fn subject(subject: &Field<'_>) {
    let (kind, group) = (subject.get("kind"), subject.get("apiGroup"));
    match kind.text() {
        "ServiceAccount" => {
            OptionalText(names::subdomain).apply(&subject.get("name"));
            EmptyOrOneOf(&[""]).apply(&group);
        }
        "User" | "Group" => OneOf(&[GROUP]).apply(&group),
        _ => kind.not_supported(&["ServiceAccount", "User", "Group"]),
    }
}
