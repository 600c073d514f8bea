//! The checks of selectors of objects by their labels.

use super::place::Place;
use crate::builtin::names;
use crate::error::Cause;

/// A label selector, where it is there at all.
pub(super) fn labels(selector: &Place<'_>, causes: &mut Vec<Cause>) {
    let simple = selector.field("matchLabels");
    names::labels(simple.value, &simple.path, causes);
    for expression in selector.items("matchExpressions") {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        match operator.text() {
            "In" | "NotIn" => needs_values(&values, causes),
            "Exists" | "DoesNotExist" => needs_none(&values, causes),
            _ => operator.invalid("not a valid selector operator", causes),
        }
        expression.field("key").qualified(causes);
        for value in values.each() {
            value.problems(names::label_value(value.text()), causes);
        }
    }
}

/// `In` and `NotIn` compare with something.
pub(super) fn needs_values(values: &Place<'_>, causes: &mut Vec<Cause>) {
    if values.count() == 0 {
        let why = "must be specified when `operator` is 'In' or 'NotIn'";
        values.required(why, causes);
    }
}

/// `Exists` and `DoesNotExist` do not.
pub(super) fn needs_none(values: &Place<'_>, causes: &mut Vec<Cause>) {
    if values.count() > 0 {
        let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        values.forbidden(why, causes);
    }
}
