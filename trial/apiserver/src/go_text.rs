//! Names of JSON types as Go's decoders print them, and durations in Go's format.

use serde_json::Value;

/// Returns the name of a JSON value's type in messages of Go decoders.
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

/// Parses a duration such as `1h15m30.5s` into nanoseconds.
pub(crate) fn duration(text: &str) -> Result<i128, String> {
    let invalid = || format!("time: invalid duration \"{text}\"");
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let of_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut total = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c| !of_number(c)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(number);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let (unit, after) = after.split_at(after.find(of_number).unwrap_or(after.len()));
        let nanos = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            "" => return Err(format!("time: missing unit in duration \"{text}\"")),
            _ => {
                return Err(format!(
                    "time: unknown unit \"{unit}\" in duration \"{text}\""
                ));
            }
        };
        total += number * nanos;
        rest = after;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "longer durations never end"
    )]
    let nanos = total as i128;
    Ok(sign * nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_like_in_go() {
        for (text, nanos) in [
            ("1h15m30.5s", 4_530_500_000_000),
            ("-1.5h", -5_400_000_000_000),
            ("1ns", 1),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(nanos), "{text}");
        }
        for (text, message) in [
            ("", "invalid duration \"\""),
            ("s", "invalid duration \"s\""),
            ("abc", "invalid duration \"abc\""),
            ("5", "missing unit in duration \"5\""),
            ("5x", "unknown unit \"x\" in duration \"5x\""),
        ] {
            assert_eq!(duration(text), Err(format!("time: {message}")));
        }
    }
}
