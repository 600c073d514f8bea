//! A field with two values as text, with a line for each value, as in a unified diff.

use serde_json::Value;

use crate::columns::plain;

/// Maximum number of characters of a value.
const MAX_VALUE: usize = 120;
/// Number of characters that two long values have in common and that are shown before their difference.
const CONTEXT: usize = 20;

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
    let (old, new) = (old.map(Value::to_string), new.map(Value::to_string));
    let start = match (&old, &new) {
        (Some(old), Some(new)) => common_length(old, new),
        _ => 0,
    };
    let sides = [(Side::Old, '-', old), (Side::New, '+', new)];
    let lines = sides.into_iter().filter_map(|(side, sign, value)| {
        let text = plain(&format!("{sign} {field}: {}", shorten(&value?, start)));
        Some(FieldLine { side, text })
    });
    lines.collect()
}

/// Returns the number of characters at the start of two values that are equal.
fn common_length(old: &str, new: &str) -> usize {
    let pairs = old.chars().zip(new.chars());
    pairs.take_while(|(old, new)| old == new).count()
}

/// Shortens a long value. `common` is the number of characters before its difference from the other value.
pub(crate) fn shorten(value: &str, common: usize) -> String {
    let length = value.chars().count();
    if length <= MAX_VALUE {
        return value.to_owned();
    }
    let skipped = if common > MAX_VALUE / 2 {
        common.saturating_sub(CONTEXT)
    } else {
        0
    };
    let shown: String = value.chars().skip(skipped).take(MAX_VALUE).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let after = if skipped + MAX_VALUE < length {
        "…"
    } else {
        ""
    };
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_value_is_shortened_around_its_difference() {
        let long = |end: &str| format!("{}{end}", "a".repeat(200));
        let (old, new) = (long("old"), long("new"));
        let common = common_length(&old, &new);
        assert_eq!(
            shorten(&old, common),
            format!("…{}old", "a".repeat(CONTEXT))
        );
        assert_eq!(shorten("short", 3), "short");
        assert_eq!(shorten(&old, 0), format!("{}…", "a".repeat(MAX_VALUE)));
    }

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
