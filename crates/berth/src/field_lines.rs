//! A field with two values as text, with a line for each value, as in a unified diff.

use berth_plan::diff::shortened_pair;
use serde_json::Value;

use crate::columns::plain;

/// The side of a difference that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Old,
    New,
}

/// A line about one value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldLine {
    pub(crate) side: Side,
    /// The sign, the field and the value.
    pub(crate) text: String,
}

/// Returns the lines about a field. A value that is absent has none.
pub(crate) fn field_lines(field: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<FieldLine> {
    let (old, new) = shortened_pair(old, new);
    let sides = [(Side::Old, '-', old), (Side::New, '+', new)];
    let lines = sides.into_iter().filter_map(|(side, sign, value)| {
        let text = plain(&format!("{sign} {field}: {}", value?));
        Some(FieldLine { side, text })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_present_value_has_a_line() {
        let line = |side, text: &str| FieldLine {
            side,
            text: text.to_owned(),
        };
        let (old, new) = (json!(1), json!("a\u{1b}"));
        assert_eq!(
            field_lines("spec.a", Some(&old), Some(&new)),
            [
                line(Side::Old, "- spec.a: 1"),
                line(Side::New, "+ spec.a: \"a\\u001b\"")
            ]
        );
        assert_eq!(
            field_lines("spec.a", None, Some(&old)),
            [line(Side::New, "+ spec.a: 1")]
        );
    }
}
