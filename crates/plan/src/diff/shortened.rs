//! Values of fields as short JSON text.

use serde_json::Value;

/// Maximum number of characters of a value.
const MAX_VALUE: usize = 120;
/// Number of characters that two long values have in common and that are shown before their difference.
const CONTEXT: usize = 20;

/// Returns the start of a value as JSON.
pub fn shortened(value: &Value) -> String {
    shorten(&value.to_string(), 0)
}

/// Returns two values of a field as JSON. Long values are shortened around their difference.
pub fn shortened_pair(
    old: Option<&Value>,
    new: Option<&Value>,
) -> (Option<String>, Option<String>) {
    let (old, new) = (old.map(Value::to_string), new.map(Value::to_string));
    let common = match (&old, &new) {
        (Some(old), Some(new)) => common_length(old, new),
        _ => 0,
    };
    let shorten = |value: Option<String>| value.map(|value| shorten(&value, common));
    (shorten(old), shorten(new))
}

/// Returns the number of characters at the start of two values that are equal.
fn common_length(old: &str, new: &str) -> usize {
    let pairs = old.chars().zip(new.chars());
    pairs.take_while(|(old, new)| old == new).count()
}

/// Shortens a long value. `common` is the number of characters before its difference from the other value.
fn shorten(value: &str, common: usize) -> String {
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
        let long = |end: &str| json!(format!("{}{end}", "a".repeat(200)));
        let (old, new) = (long("old"), long("new"));
        let start = "a".repeat(CONTEXT);
        let pair = (
            Some(format!("…{start}old\"")),
            Some(format!("…{start}new\"")),
        );
        assert_eq!(shortened_pair(Some(&old), Some(&new)), pair);
        let start = format!("\"{}…", "a".repeat(MAX_VALUE - 1));
        assert_eq!(
            shortened_pair(Some(&old), None),
            (Some(start.clone()), None)
        );
        assert_eq!(shortened(&old), start);
        assert_eq!(shortened(&json!("short")), "\"short\"");
    }
}
