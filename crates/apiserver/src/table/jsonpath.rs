//! The part of JSONPath that printer columns use: `.a.b`, `['x']`, `[0]`, `[*]`, `[?(@.type=="Ready")]`.

use serde_json::Value;

/// All values `path` leads to.
pub(crate) fn find<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut current = vec![value];
    let mut rest = path
        .trim()
        .trim_start_matches('{')
        .trim_end_matches('}')
        .trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let Some(end) = closing(after) else {
                return Vec::new();
            };
            current = current
                .into_iter()
                .flat_map(|v| bracket(v, &after[..end]))
                .collect();
            rest = &after[end + 1..];
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            let (name, next) = field(after);
            if !name.is_empty() {
                current = if name == "*" {
                    current.into_iter().flat_map(children).collect()
                } else {
                    current.into_iter().filter_map(|v| v.get(&name)).collect()
                };
            } else if next == rest {
                return Vec::new();
            }
            rest = next;
        }
    }
    current
}

/// A field name up to the next step; a backslash escapes a dot.
fn field(text: &str) -> (String, &str) {
    let (mut name, mut escaped) = (String::new(), false);
    for (i, c) in text.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return (name, &text[i..]),
            _ => {
                name.push(c);
                escaped = false;
            }
        }
    }
    (name, "")
}

fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(i, c)| {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, ']') => return Some(i),
            _ => {}
        }
        None
    })
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn bracket<'a>(value: &'a Value, inside: &str) -> Vec<&'a Value> {
    let inside = inside.trim();
    if inside == "*" {
        return children(value);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        let (left, right, equal) = match (filter.split_once("!="), filter.split_once("==")) {
            (Some((l, r)), _) => (l, r, false),
            (_, Some((l, r))) => (l, r, true),
            _ => return Vec::new(),
        };
        let path = left.trim().trim_start_matches('@');
        let wanted = right.trim().trim_matches(['"', '\'']);
        return children(value)
            .into_iter()
            .filter(|v| {
                let same = find(v, path).iter().any(|x| match x {
                    Value::String(s) => s == wanted,
                    other => *other == wanted,
                });
                same == equal
            })
            .collect();
    }
    if let Ok(index) = inside.parse::<i64>() {
        let Some(items) = value.as_array() else {
            return Vec::new();
        };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let index = if index < 0 { length + index } else { index };
        return usize::try_from(index)
            .ok()
            .and_then(|i| items.get(i))
            .into_iter()
            .collect();
    }
    value
        .get(inside.trim_matches(['"', '\'']))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn printer_column_paths() {
        let object = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "F"}]},
            "metadata": {"labels": {"a.b/c": "l"}}, "spec": {"list": [1, 2]}});
        for (path, expected) in [
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                json!(["True"]),
            ),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([2])),
            (".spec.list[*]", json!([1, 2])),
            (".metadata.labels.a\\.b/c", json!(["l"])),
            (".metadata.labels['a.b/c']", json!(["l"])),
            (".nothing.here", json!([])),
        ] {
            assert_eq!(json!(find(&object, path)), expected, "{path}");
        }
    }
}
