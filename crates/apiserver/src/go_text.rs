//! JSON values in the words of Go, for messages that a kube-apiserver would write in them, and durations as Go writes
//! them.

use serde_json::Value;

/// What Go calls a JSON value of this type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value as Go prints maps, lists and what is in them.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", printed(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// The nanoseconds of a duration such as `1h15m30.5s`.
pub(crate) fn duration(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    while {
        let digits = |c: char| !c.is_ascii_digit() && c != '.';
        let (number, after) = rest.split_at(rest.find(digits)?);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(unit.unwrap_or(after.len()));
        let nanos = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * nanos;
        rest = after;
        !rest.is_empty()
    } {}
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is too large for that lasts for ever anyway"
    )]
    let nanos = total as i128;
    Some(sign * nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("1h15m30.5s", Some(4_530_500_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("1ns", Some(1)),
            ("0", Some(0)),
            ("", None),
            ("5", None),
            ("s", None),
            ("5x", None),
            ("abc", None),
        ] {
            assert_eq!(duration(text), nanos, "{text}");
        }
    }

    #[test]
    fn a_patch_is_shown_as_go_prints_it() {
        let patch = json!({"spec": {"b": null, "a": [1, "x", true]}, "kind": "A"});
        assert_eq!(
            printed(&patch),
            "map[kind:A spec:map[a:[1 x true] b:<nil>]]"
        );
    }
}
