//! Validation of affinity, tolerations and topology spread.

use serde_json::{Value, json};

use super::field::Field;
use super::selector::{self, refuse_values, require_values};
use crate::error::Cause;
use crate::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BAD_OPERATOR: &str = "not a valid selector operator";
pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks where a pod may run.
pub(super) fn of_pod(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let affinity = spec.field("affinity");
    nodes(&affinity.field("nodeAffinity"), causes);
    for kind in ["podAffinity", "podAntiAffinity"] {
        pods(&affinity.field(kind), causes);
    }
    for toleration in spec.items("tolerations") {
        self::toleration(&toleration, causes);
    }
    spread(spec, causes);
}

fn nodes(affinity: &Field<'_>, causes: &mut Vec<Cause>) {
    let required = affinity.field(REQUIRED);
    if required.is_set() {
        let terms = required.field("nodeSelectorTerms");
        if terms.count() == 0 {
            terms.required("must have at least one node selector term", causes);
        }
        for term in terms.each() {
            node_term(&term, causes);
        }
    }
    for preferred in affinity.items(PREFERRED) {
        weight(&preferred, causes);
        node_term(&preferred.field("preference"), causes);
    }
}

fn weight(preferred: &Field<'_>, causes: &mut Vec<Cause>) {
    let weight = preferred.field("weight");
    let number = weight.number().unwrap_or(0);
    if !(1..=100).contains(&number) {
        weight.invalid("must be in the range 1-100", causes);
    }
}

fn node_term(term: &Field<'_>, causes: &mut Vec<Cause>) {
    for expression in term.items("matchExpressions") {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        match operator.text() {
            "In" | "NotIn" => require_values(&values, causes),
            "Exists" | "DoesNotExist" => refuse_values(&values, causes),
            "Gt" | "Lt" => {
                if values.count() != 1 {
                    let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    values.required(detail, causes);
                }
            }
            _ => operator.invalid(BAD_OPERATOR, causes),
        }
        expression.field("key").qualified(causes);
        for value in values.each() {
            value.problems(names::label_value(value.text()), causes);
        }
    }
    for field in term.items("matchFields") {
        let (operator, values, key) = (
            field.field("operator"),
            field.field("values"),
            field.field("key"),
        );
        match operator.text() {
            "In" | "NotIn" => {
                if values.count() != 1 {
                    let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    values.required(detail, causes);
                }
            }
            _ => operator.invalid(BAD_OPERATOR, causes),
        }
        if key.text() == "metadata.name" {
            for value in values.each() {
                value.problems(names::subdomain(value.text()), causes);
            }
        } else {
            key.invalid("not a valid field selector key", causes);
        }
    }
}

fn pods(affinity: &Field<'_>, causes: &mut Vec<Cause>) {
    for term in affinity.items(REQUIRED) {
        pod_term(&term, causes);
    }
    for preferred in affinity.items(PREFERRED) {
        weight(&preferred, causes);
        pod_term(&preferred.field("podAffinityTerm"), causes);
    }
}

fn pod_term(term: &Field<'_>, causes: &mut Vec<Cause>) {
    selector::labels(&term.field("labelSelector"), causes);
    selector::labels(&term.field("namespaceSelector"), causes);
    for namespace in term.field("namespaces").each() {
        if let Some(problem) = names::dns_label(namespace.text()) {
            term.field("namespace").invalid(&problem, causes);
        }
    }
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        label_keys(term, list, causes);
    }
    let other = term.field("mismatchLabelKeys");
    for key in term.items("matchLabelKeys") {
        if other
            .value
            .as_array()
            .is_some_and(|o| o.contains(key.value))
        {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            key.invalid(detail, causes);
        }
    }
    let key = term.field("topologyKey");
    if key.text().is_empty() {
        key.required("can not be empty", causes);
    }
    key.qualified(causes);
}

/// Checks keys of labels that extend a selector.
fn label_keys(term: &Field<'_>, list: &str, causes: &mut Vec<Cause>) {
    let keys = term.field(list);
    if keys.count() > 0 && !term.field("labelSelector").is_set() {
        let detail = "must not be specified when labelSelector is not set";
        keys.forbidden(detail, causes);
        return;
    }
    for key in keys.each() {
        key.qualified(causes);
    }
}

pub(super) fn toleration(toleration: &Field<'_>, causes: &mut Vec<Cause>) {
    let (key, operator, value) = (
        toleration.field("key"),
        toleration.field("operator"),
        toleration.field("value"),
    );
    if !key.text().is_empty() {
        key.qualified(causes);
    } else if operator.text() != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        operator.invalid(detail, causes);
    }
    let effect = toleration.field("effect");
    if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        effect.invalid(
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
            causes,
        );
    }
    match operator.text() {
        "" | "Equal" => {
            if let Some(problem) = names::label_value(value.text()) {
                operator.invalid(&problem, causes);
            }
        }
        "Exists" => {
            if !value.text().is_empty() {
                let detail = "value must be empty when `operator` is 'Exists'";
                operator.invalid(detail, causes);
            }
        }
        "Lt" | "Gt" => {
            let known = ["Equal", "Exists", "Lt", "Gt"].map(str::to_owned);
            let path = operator.path.as_str();
            causes.push(Cause::not_supported(path, operator.value, &known));
        }
        _ => operator.one_of(&["Equal", "Exists"], causes),
    }
    if !effect.text().is_empty() {
        effect.one_of(EFFECTS, causes);
    }
}

fn spread(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let all = spec.field("topologySpreadConstraints");
    let pair = |constraint: &Value| {
        let text = |field: &str| constraint[field].as_str().unwrap_or_default().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    let pairs: Vec<_> = all
        .value
        .as_array()
        .into_iter()
        .flatten()
        .map(pair)
        .collect();
    for (i, constraint) in all.each().enumerate() {
        let skew = constraint.field("maxSkew");
        if skew.number().unwrap_or(0) <= 0 {
            skew.invalid("must be greater than zero", causes);
        }
        let key = constraint.field("topologyKey");
        if key.text().is_empty() {
            key.required("can not be empty", causes);
        }
        let unsatisfiable = constraint.field("whenUnsatisfiable");
        unsatisfiable.exactly_one_of(&["DoNotSchedule", "ScheduleAnyway"], causes);
        if let Some((key, action)) = pairs.get(i).filter(|pair| pairs[i + 1..].contains(pair)) {
            causes.push(Cause::duplicate(
                format!("{}.{{topologyKey, whenUnsatisfiable}}", constraint.path),
                &json!(format!("{{{key}, {action}}}")),
            ));
        }
        let domains = constraint.field("minDomains");
        if let Some(number) = domains.number() {
            if number <= 0 {
                domains.invalid("must be greater than zero", causes);
            }
            let action = unsatisfiable.text();
            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                domains.invalid(&detail, causes);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint
                .field(policy)
                .one_of(&["Honor", "Ignore"], causes);
        }
        label_keys(&constraint, "matchLabelKeys", causes);
        selector::labels(&constraint.field("labelSelector"), causes);
    }
}
