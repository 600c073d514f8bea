//! Validation of label selectors.

use super::field::Field;
use crate::error::Cause;
use crate::names;

/// Checks a label selector, if present.
pub(super) fn labels(selector: &Field<'_>, causes: &mut Vec<Cause>) {
    let simple = selector.field("matchLabels");
    names::labels(simple.value, &simple.path, causes);
    for expression in selector.items("matchExpressions") {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        match operator.text() {
            "In" | "NotIn" => require_values(&values, causes),
            "Exists" | "DoesNotExist" => refuse_values(&values, causes),
            _ => operator.invalid("not a valid selector operator", causes),
        }
        expression.field("key").qualified(causes);
        for value in values.each() {
            value.problems(names::label_value(value.text()), causes);
        }
    }
}

/// Requires values, for `In` and `NotIn`.
pub(super) fn require_values(values: &Field<'_>, causes: &mut Vec<Cause>) {
    if values.count() == 0 {
        let detail = "must be specified when `operator` is 'In' or 'NotIn'";
        values.required(detail, causes);
    }
}

/// Refuses values, for `Exists` and `DoesNotExist`.
pub(super) fn refuse_values(values: &Field<'_>, causes: &mut Vec<Cause>) {
    if values.count() > 0 {
        let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        values.forbidden(detail, causes);
    }
}
