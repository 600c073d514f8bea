//! The rule tables of validation and their evaluation: a rule names a field path and a check. The module of each kind
//! defines the table of the kind.

use berth_apimachinery::quantity::Quantity;

use super::field::Field;

/// The paths of fields, separated by spaces, and the check for these fields. [`Field::visit`] describes the paths.
pub(super) type Rule = (&'static str, Check);

/// A function that returns the problem of a text, if there is one.
pub(super) type TextRule = fn(&str) -> Option<String>;

/// A check of a field.
pub(super) enum Check {
    /// The field is neither absent nor empty.
    Required,
    /// The field is set. Its value may be an empty object.
    Present,
    /// The field is absent. The text is the message for a field that is set.
    Forbidden(&'static str),
    /// An update does not change the field.
    Immutable,
    /// The number is at least 0. An absent field is valid.
    NotNegative,
    /// The number is in this range. An absent field is valid.
    Between(i64, i64),
    /// The quantity is at least 0. An absent field is valid.
    NotNegativeAmount,
    /// The quantity is greater than 0. An absent field is valid.
    PositiveAmount,
    /// The field is absent or one of these values.
    OneOf(&'static [&'static str]),
    /// The field is absent, empty or one of these values.
    EmptyOrOneOf(&'static [&'static str]),
    /// The field is one of these values. An absent or empty field is reported as missing.
    RequiredOneOf(&'static [&'static str]),
    /// The field is one of these values. An absent field is reported as unsupported.
    ExactlyOneOf(&'static [&'static str]),
    /// The text follows this rule. An absent field is checked as an empty text.
    Text(TextRule),
    /// The field is absent or empty, or its text follows this rule.
    OptionalText(TextRule),
    /// The field is neither absent nor empty, and its text follows this rule.
    RequiredText(TextRule),
    /// The items of a list differ. If the name is not empty, only the fields with this name are compared.
    Unique(&'static str),
    /// These rules apply if the field is set.
    IfSet(&'static [Rule]),
    /// These rules apply if the field at this path has one of these texts.
    When(&'static str, &'static [&'static str], &'static [Rule]),
    /// A function for a check that a table cannot express.
    By(fn(&Field<'_>)),
}

/// Applies rules to the fields that their paths name below `field`.
pub(super) fn apply(rules: &'static [Rule], field: &Field<'_>) {
    for (paths, check) in rules {
        for path in paths.split(' ') {
            field.visit(path, &mut |field| check.apply(field));
        }
    }
}

impl Check {
    /// Applies the check to a field.
    pub(super) fn apply(&self, field: &Field<'_>) {
        match self {
            Self::Required | Self::RequiredOneOf(_) | Self::RequiredText(_) if field.is_empty() => {
                field.required("");
            }
            Self::EmptyOrOneOf(_) | Self::OptionalText(_) if field.is_empty() => {}
            Self::OneOf(_) if !field.is_set() => {}
            Self::Present if !field.is_set() => field.required(""),
            Self::Forbidden(why) if field.is_set() => field.forbidden(why),
            Self::Immutable if field.old.is_some_and(|old| old != field.value) => {
                field.invalid("field is immutable");
            }
            Self::NotNegative => Self::Between(0, i64::MAX).apply(field),
            Self::Between(least, most)
                if field.number().is_some_and(|n| n < *least || n > *most) =>
            {
                field.invalid(&range(*least, *most));
            }
            Self::NotNegativeAmount if field.quantity().is_some_and(|a| a < Quantity::ZERO) => {
                field.invalid("must be greater than or equal to 0");
            }
            Self::PositiveAmount if field.quantity().is_some_and(|a| a <= Quantity::ZERO) => {
                field.invalid("must be greater than zero");
            }
            Self::OneOf(allowed)
            | Self::EmptyOrOneOf(allowed)
            | Self::RequiredOneOf(allowed)
            | Self::ExactlyOneOf(allowed)
                if !allowed.contains(&field.text()) =>
            {
                field.not_supported(allowed);
            }
            Self::Text(rule) | Self::OptionalText(rule) | Self::RequiredText(rule) => {
                field.problem(rule(field.text()));
            }
            Self::Unique(name) => unique(field, name),
            Self::IfSet(rules) if field.is_set() => apply(rules, field),
            Self::When(path, values, rules) if values.contains(&field.text_of(path)) => {
                apply(rules, field);
            }
            Self::By(check) => check(field),
            _ => {}
        }
    }
}

/// Returns the message for a number outside of a range.
fn range(least: i64, most: i64) -> String {
    match (least, most) {
        (least, i64::MAX) => format!("must be greater than or equal to {least}"),
        (i64::MIN, most) => format!("must be less than or equal to {most}"),
        _ => format!("must be between {least} and {most}, inclusive"),
    }
}

/// Reports each item that repeats an earlier item. If `name` is not empty, only the fields with this name are compared.
fn unique(list: &Field<'_>, name: &str) {
    let mut seen = Vec::new();
    for item in list.each() {
        item.visit(name, &mut |field| {
            if seen.contains(field.value) {
                field.duplicate();
            }
            seen.push(field.value.clone());
        });
    }
}
