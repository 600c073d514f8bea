//! The normal form of recorded objects: values that differ in each run are replaced by fixed values.

use std::collections::BTreeMap;

use serde_json::Value;

/// The time in place of all recorded times. It is later than the times in the inputs, such as those of rescheduling
/// requests.
pub const TIME: &str = "2026-11-20T00:00:00Z";

/// Returns a message of Karmada's scheduler in which the clusters of a result are sorted.
pub fn message(text: &str) -> String {
    let list = text
        .strip_suffix('}')
        .and_then(|text| text.split_once("Result: {"));
    let Some((head, list)) = list else {
        return text.to_owned();
    };
    let mut entries: Vec<&str> = list.split(", ").collect();
    entries.sort_unstable();
    format!("{head}Result: {{{}}}", entries.join(", "))
}

/// Replaces all times in a value by [`TIME`].
pub fn replace_times(value: &mut Value) {
    each_text(value, &mut |text| {
        if is_time(text) {
            TIME.clone_into(text);
        }
    });
}

/// Replaces all UUIDs in a value by numbered ones, in the order of their first occurrence. Equal UUIDs stay equal.
pub fn number_ids(value: &mut Value) {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    each_text(value, &mut |text| {
        let mut at = 0;
        while at + UUID_LEN <= text.len() {
            let found = text
                .get(at..at + UUID_LEN)
                .filter(|part| has_shape(part, UUID));
            let Some(found) = found.map(str::to_owned) else {
                at += 1;
                continue;
            };
            let next = numbers.len() + 1;
            let number = *numbers.entry(found).or_insert(next);
            let id = format!("00000000-0000-4000-8000-{number:012}");
            text.replace_range(at..at + UUID_LEN, &id);
            at += UUID_LEN;
        }
    });
}

/// Calls `change` for each string in a value.
pub(super) fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| each_text(field, change)),
        _ => {}
    }
}

/// Reports whether a text is a time in UTC, such as `2026-01-31T12:00:00Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    has_shape(text.get(..19).unwrap_or_default(), "0000-00-00T00:00:00") && text.ends_with('Z')
}

const UUID: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
const UUID_LEN: usize = UUID.len();

/// Reports whether a text has the shape of a pattern, in which `0` stands for a digit and `x` for a hexadecimal digit.
fn has_shape(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text
            .bytes()
            .zip(pattern.bytes())
            .all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_hexdigit(),
                other => byte == other,
            })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_in_messages_have_one_order() {
        for (text, expected) in [
            ("done. Result: {b:1, a:2}", "done. Result: {a:2, b:1}"),
            ("other", "other"),
        ] {
            assert_eq!(message(text), expected);
            assert_eq!(message(expected), expected);
        }
    }

    #[test]
    fn ids_are_numbered_and_times_are_replaced() {
        let mut value = json!({
            "a": "x-0b9a4c3e-1111-4222-8333-aabbccddeeff/1b9a4c3e-1111-4222-8333-aabbccddeeff",
            "b": ["0b9a4c3e-1111-4222-8333-aabbccddeeff", "2026-11-20T16:39:11Z", "2026-11-20", 7],
        });
        number_ids(&mut value);
        replace_times(&mut value);
        let id = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
        assert_eq!(
            value,
            json!({ "a": format!("x-{}/{}", id(1), id(2)), "b": [id(1), TIME, "2026-11-20", 7] })
        );
    }
}
