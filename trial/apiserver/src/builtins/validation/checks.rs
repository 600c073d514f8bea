//! Checks of fields that the validation of several kinds uses.

use std::net::IpAddr;

use super::field::Field;
use crate::text_rules;

/// Checks a qualified name, such as `example.com/name`. The domain is optional.
pub(super) fn qualified(field: &Field<'_>) {
    field.problem(text_rules::qualified_name(field.text()));
}

/// Checks a qualified name if the field is set.
pub(super) fn optionally_qualified(field: &Field<'_>) {
    if field.is_set() {
        qualified(field);
    }
}

/// Checks the keys and values of a map of labels.
pub(super) fn labels(field: &Field<'_>) {
    text_rules::labels(field.value, &field.path, &mut field.causes.borrow_mut());
}

/// Checks that the keys of a map are qualified names.
pub(super) fn keys(field: &Field<'_>) {
    text_rules::keys(field.value, &field.path, &mut field.causes.borrow_mut());
}

/// Checks a label selector if the field is set.
pub(super) fn selector(selector: &Field<'_>) {
    labels(&selector.get("matchLabels"));
    for expression in selector.items("matchExpressions") {
        operator(&expression, |operator, _| {
            operator.invalid("not a valid selector operator");
        });
    }
}

/// Checks a requirement of a selector. `other` checks the operators that only some kinds of selectors have.
pub(super) fn operator(expression: &Field<'_>, other: fn(&Field<'_>, &Field<'_>)) {
    let (operator, values) = (expression.get("operator"), expression.get("values"));
    match operator.text() {
        "In" | "NotIn" => {
            if values.count() == 0 {
                values.required("must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if values.count() > 0 {
                values.forbidden("must be empty when `operator` is 'Exists' or 'DoesNotExist'");
            }
        }
        _ => other(&operator, &values),
    }
    qualified(&expression.get("key"));
    for value in values.each() {
        value.problem(text_rules::label_value(value.text()));
    }
}

/// Checks a path with a domain prefix, such as `acme.io/foo`.
pub(super) fn domain_path(field: &Field<'_>) {
    match field.text().split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            field.problem(text_rules::subdomain(domain));
        }
        _ => field.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

/// Checks that a field is a valid port number.
pub(super) fn port_number(field: &Field<'_>) {
    field.problem(text_rules::port_number(field.number().unwrap_or(0)));
}

/// Checks that a field is the name or the number of a port.
pub(super) fn port(field: &Field<'_>) {
    if field.value.is_string() {
        field.problem(text_rules::port_name(field.text()));
    } else {
        port_number(field);
    }
}

/// Checks that a field is absent, a number that is not negative, or a percentage.
pub(super) fn count_or_percent(field: &Field<'_>) {
    if field.value.is_string() {
        field.problem(text_rules::percent(field.text()));
    } else if field.number().is_some_and(|number| number < 0) {
        field.invalid("must be greater than or equal to 0");
    }
}

/// Checks that a field is at most 100% if it is a percentage.
pub(super) fn at_most_all(field: &Field<'_>) {
    let share = field.text().strip_suffix('%').map(str::parse::<u64>);
    if share.is_some_and(|share| share.is_ok_and(|share| share > 100)) {
        field.invalid("must not be greater than 100%");
    }
}

/// Checks that a number is set and greater than zero.
pub(super) fn positive(field: &Field<'_>) {
    if field.number().unwrap_or(0) <= 0 {
        field.invalid("must be greater than zero");
    }
}

/// Checks that the address of an endpoint is neither unspecified nor a loopback address.
pub(super) fn public_address(field: &Field<'_>) {
    match field.text().parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => field.invalid("may not be unspecified (0.0.0.0 or ::)"),
        Ok(ip) if ip.is_loopback() => field.invalid("may not be a loopback address"),
        Ok(_) => {}
        Err(_) => field.problem(text_rules::ip(field.text())),
    }
}

/// Returns the fields with these names that are set.
pub(super) fn set_among<'a>(field: &Field<'a>, names: &[&str]) -> Vec<Field<'a>> {
    let fields = names.iter().map(|name| field.get(name));
    fields.filter(Field::is_set).collect()
}
