//! Validation of the scheduling fields of pods: affinity, tolerations and topology spread.

use super::checks::{operator, positive, qualified, selector};
use super::field::Field;
use super::rules::Check::{By, EmptyOrOneOf, ExactlyOneOf, IfSet, OneOf, Required};
use super::rules::{Rule, apply};
use crate::text_rules;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BAD_OPERATOR: &str = "not a valid selector operator";

/// The effects of taints.
pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The rules for the fields that restrict the nodes of a pod.
pub(super) const POD: &[Rule] = &[
    ("affinity.nodeAffinity", By(nodes)),
    ("affinity.podAffinity affinity.podAntiAffinity", By(pods)),
    ("tolerations[]", By(toleration)),
    ("topologySpreadConstraints[]", By(spread)),
];

fn nodes(affinity: &Field<'_>) {
    let required = affinity.get(REQUIRED);
    if required.is_set() {
        Required.apply(&required.get("nodeSelectorTerms"));
    }
    for term in required.items("nodeSelectorTerms") {
        node_term(&term);
    }
    for preferred in affinity.items(PREFERRED) {
        weight(&preferred);
        node_term(&preferred.get("preference"));
    }
}

/// Checks a weight, which must be set.
fn weight(preferred: &Field<'_>) {
    let weight = preferred.get("weight");
    if !weight.number().is_some_and(|n| (1..=100).contains(&n)) {
        weight.invalid("must be in the range 1-100");
    }
}

fn node_term(term: &Field<'_>) {
    for expression in term.items("matchExpressions") {
        operator(&expression, |operator, values| match operator.text() {
            "Gt" | "Lt" if values.count() == 1 => {}
            "Gt" | "Lt" => values.required("must be a single value for 'Lt' and 'Gt'"),
            _ => operator.invalid(BAD_OPERATOR),
        });
    }
    for field in term.items("matchFields") {
        let (operator, key) = (field.get("operator"), field.get("key"));
        match operator.text() {
            "In" | "NotIn" if field.get("values").count() == 1 => {}
            "In" | "NotIn" => field.get("values").required("must be a single value"),
            _ => operator.invalid(BAD_OPERATOR),
        }
        if key.text() != "metadata.name" {
            key.invalid("not a valid field selector key");
        }
    }
}

fn pods(affinity: &Field<'_>) {
    for term in affinity.items(REQUIRED) {
        apply(POD_TERM, &term);
    }
    for preferred in affinity.items(PREFERRED) {
        weight(&preferred);
        apply(POD_TERM, &preferred.get("podAffinityTerm"));
    }
}

const POD_TERM: &[Rule] = &[
    ("labelSelector namespaceSelector", By(selector)),
    ("topologyKey", Required),
    ("topologyKey", By(qualified)),
    ("", By(label_keys)),
];

/// Checks that a term with label keys has a label selector.
fn label_keys(term: &Field<'_>) {
    for keys in ["matchLabelKeys", "mismatchLabelKeys"].map(|list| term.get(list)) {
        if keys.count() > 0 && !term.get("labelSelector").is_set() {
            keys.forbidden("must not be specified when labelSelector is not set");
        }
    }
}

fn toleration(toleration: &Field<'_>) {
    let (key, operator) = (toleration.get("key"), toleration.get("operator"));
    let (value, effect) = (toleration.get("value"), toleration.get("effect"));
    if !key.is_empty() {
        qualified(&key);
    } else if operator.text() != "Exists" {
        operator.invalid("must be Exists when `key` is empty, which matches all keys");
    }
    if toleration.get("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        effect.invalid("must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.text() {
        "" | "Equal" => operator.problem(text_rules::label_value(value.text())),
        "Exists" if !value.is_empty() => operator.invalid("requires an empty `value`"),
        "Exists" => {}
        _ => operator.not_supported(&["Equal", "Exists"]),
    }
    EmptyOrOneOf(EFFECTS).apply(&effect);
}

fn spread(constraint: &Field<'_>) {
    const CONSTRAINT: &[Rule] = &[
        ("maxSkew", By(positive)),
        ("topologyKey", Required),
        (
            "whenUnsatisfiable",
            ExactlyOneOf(&["DoNotSchedule", "ScheduleAnyway"]),
        ),
        ("minDomains", IfSet(&[("", By(positive))])),
        (
            "nodeAffinityPolicy nodeTaintsPolicy",
            OneOf(&["Honor", "Ignore"]),
        ),
        ("labelSelector", By(selector)),
        ("", By(label_keys)),
    ];
    apply(CONSTRAINT, constraint);
    let domains = constraint.get("minDomains");
    if domains.is_set() && constraint.text_of("whenUnsatisfiable") != "DoNotSchedule" {
        domains.invalid("requires whenUnsatisfiable=DoNotSchedule");
    }
}
