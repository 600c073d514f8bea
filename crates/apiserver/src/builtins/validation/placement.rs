//! Validation of affinity, tolerations and topology spread.

use serde_json::json;

use super::checks::{operator, positive, qualified, selector};
use super::field::Field;
use super::rules::Check::{By, EmptyOrOneOf, ExactlyOneOf, IfSet, OneOf, Required};
use super::rules::{Check, Rule, apply};
use crate::error::Cause;
use crate::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BAD_OPERATOR: &str = "not a valid selector operator";

/// The effects of taints.
pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

const POD: &[Rule] = &[
    ("affinity.nodeAffinity", By(nodes)),
    ("affinity.podAffinity affinity.podAntiAffinity", By(pods)),
    ("tolerations[]", By(toleration)),
    ("topologySpreadConstraints", By(spread)),
];

/// Checks where a pod may run.
pub(super) fn of_pod(spec: &Field<'_>) {
    apply(POD, spec);
}

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

/// Checks a weight, which is required.
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
        let (operator, values, key) =
            (field.get("operator"), field.get("values"), field.get("key"));
        match operator.text() {
            "In" | "NotIn" if values.count() == 1 => {}
            "In" | "NotIn" => values.required("must be a single value for fields of nodes"),
            _ => operator.invalid(BAD_OPERATOR),
        }
        if key.text() != "metadata.name" {
            key.invalid("not a valid field selector key");
            continue;
        }
        for value in values.each() {
            value.problem(names::subdomain(value.text()));
        }
    }
}

fn pods(affinity: &Field<'_>) {
    for term in affinity.items(REQUIRED) {
        pod_term(&term);
    }
    for preferred in affinity.items(PREFERRED) {
        weight(&preferred);
        pod_term(&preferred.get("podAffinityTerm"));
    }
}

fn pod_term(term: &Field<'_>) {
    const TERM: &[Rule] = &[
        ("labelSelector namespaceSelector", By(selector)),
        ("topologyKey", Required),
        ("topologyKey", By(qualified)),
    ];
    apply(TERM, term);
    for namespace in term.items("namespaces") {
        // Kubernetes reports the field in the singular.
        let path = format!("{}.namespace", term.path);
        let problem = names::dns_label(namespace.text());
        namespace.reported_at(path).problem(problem);
    }
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        label_keys(term, list);
    }
    let others = term.get("mismatchLabelKeys").texts();
    for key in term.items("matchLabelKeys") {
        if others.contains(&key.text()) {
            key.invalid("exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Checks keys of labels that extend a selector.
fn label_keys(term: &Field<'_>, list: &str) {
    let keys = term.get(list);
    if keys.count() > 0 && !term.get("labelSelector").is_set() {
        return keys.forbidden("must not be specified when labelSelector is not set");
    }
    for key in keys.each() {
        qualified(&key);
    }
}

/// Checks a toleration.
pub(super) fn toleration(toleration: &Field<'_>) {
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
        "" | "Equal" => operator.problem(names::label_value(value.text())),
        "Exists" if !value.is_empty() => operator.invalid("requires an empty `value`"),
        "Exists" => {}
        _ => operator.not_supported(&["Equal", "Exists"]),
    }
    EmptyOrOneOf(EFFECTS).apply(&effect);
}

fn spread(all: &Field<'_>) {
    const POLICY: Check = OneOf(&["Honor", "Ignore"]);
    const CONSTRAINT: &[Rule] = &[
        ("maxSkew", By(positive)),
        ("topologyKey", Required),
        (
            "whenUnsatisfiable",
            ExactlyOneOf(&["DoNotSchedule", "ScheduleAnyway"]),
        ),
        ("minDomains", IfSet(&[("", By(positive))])),
        ("nodeAffinityPolicy nodeTaintsPolicy", POLICY),
        ("labelSelector", By(selector)),
    ];
    let pair =
        |of: &Field<'_>| [of.text_of("topologyKey"), of.text_of("whenUnsatisfiable")].join(", ");
    let pairs: Vec<String> = all.each().map(|constraint| pair(&constraint)).collect();
    for (i, constraint) in all.each().enumerate() {
        apply(CONSTRAINT, &constraint);
        label_keys(&constraint, "matchLabelKeys");
        if pairs[i + 1..].contains(&pairs[i]) {
            let path = format!("{}.{{topologyKey, whenUnsatisfiable}}", constraint.path);
            constraint.report(Cause::duplicate(path, &json!(pairs[i])));
        }
        let domains = constraint.get("minDomains");
        if domains.is_set() && constraint.text_of("whenUnsatisfiable") != "DoNotSchedule" {
            domains.invalid("requires whenUnsatisfiable=DoNotSchedule");
        }
    }
}
