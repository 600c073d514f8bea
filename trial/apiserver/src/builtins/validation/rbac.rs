//! Validation of roles and role bindings.

use super::checks::selector;
use super::field::Field;
use super::rules::Check::{
    By, EmptyOrOneOf, ExactlyOneOf, IfSet, OneOf, OptionalText, Required, RequiredText,
};
use super::rules::{Rule, apply};
use crate::text_rules;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const ROLE: &[Rule] = &[
    ("rules[].verbs", Required),
    ("rules[]", By(resources)),
    ("rules[].nonResourceURLs", By(no_paths)),
];

pub(super) const CLUSTER_ROLE: &[Rule] = &[
    ("rules[].verbs", Required),
    ("rules[]", By(resources)),
    (
        "aggregationRule",
        IfSet(&[
            ("clusterRoleSelectors", Required),
            ("clusterRoleSelectors[]", By(selector)),
        ]),
    ),
];

const BINDING: &[Rule] = &[
    ("roleRef.apiGroup", OneOf(&[GROUP])),
    ("roleRef.name", RequiredText(text_rules::path_segment)),
    ("roleRef", By(role_stays)),
    ("subjects[].name", Required),
    ("subjects[]", By(subject)),
];

fn no_paths(paths: &Field<'_>) {
    if paths.count() > 0 {
        paths.invalid("namespaced rules cannot apply to non-resource URLs");
    }
}

fn resources(rule: &Field<'_>) {
    let paths = rule.get("nonResourceURLs");
    let lists = ["apiGroups", "resources", "resourceNames"].map(|list| rule.get(list));
    if paths.count() == 0 {
        Required.apply(&lists[0]);
        Required.apply(&lists[1]);
    } else if lists.iter().any(|list| !list.is_empty()) {
        paths.invalid("rules cannot apply to both resources and non-resource URLs");
    }
}

/// Checks a RoleBinding, or a ClusterRoleBinding if `namespaced` is false.
pub(super) fn binding(binding: &Field<'_>, namespaced: bool) {
    apply(BINDING, binding);
    let kind = binding.get("roleRef.kind");
    if namespaced {
        return ExactlyOneOf(&["Role", "ClusterRole"]).apply(&kind);
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
            OptionalText(text_rules::subdomain).apply(&subject.get("name"));
            EmptyOrOneOf(&[""]).apply(&group);
        }
        "User" | "Group" => OneOf(&[GROUP]).apply(&group),
        _ => kind.not_supported(&["ServiceAccount", "User", "Group"]),
    }
}
