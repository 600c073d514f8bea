//! List items of built-in kinds, which omit `apiVersion` and `kind`. The two members are cut out of the bytes without
//! parsing the object.

use bytes::{BufMut, BytesMut};
use memchr::memchr2;

/// Appends a JSON object without its members `apiVersion` and `kind`.
pub(super) fn put_untyped(out: &mut BytesMut, object: &[u8]) {
    let start = out.len();
    if cut(out, object).is_none() {
        // The object has an unexpected form and is copied as it is.
        out.truncate(start);
        out.put_slice(object);
    }
}

fn cut(out: &mut BytesMut, object: &[u8]) -> Option<()> {
    let mut at = 1;
    let (mut omitted, mut separator) = (0, "");
    out.put_u8(*object.first().filter(|first| **first == b'{')?);
    while omitted < 2 && *object.get(at)? != b'}' {
        let name_end = string_end(object, at)?;
        let end = value_end(object, name_end + 1)?;
        match object.get(at..name_end)? {
            b"\"apiVersion\"" | b"\"kind\"" => omitted += 1,
            _ => {
                out.put_slice(separator.as_bytes());
                out.put_slice(object.get(at..end)?);
                separator = ",";
            }
        }
        at = end + usize::from(*object.get(end)? == b',');
    }
    let rest = object.get(at..)?;
    if *rest.first()? != b'}' {
        out.put_slice(separator.as_bytes());
    }
    out.put_slice(rest);
    Some(())
}

/// Returns the end of the string that starts at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        match text[at] {
            b'"' => return Some(at + 1),
            // Skips the escaped character.
            _ => at += 2,
        }
    }
}

/// Returns the end of the value that starts at `at`.
fn value_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0;
    loop {
        match text.get(at)? {
            b'"' => at = string_end(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' | b':' if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let scalar = |byte: &u8| !matches!(byte, b',' | b'}' | b']');
                at += text
                    .get(at..)?
                    .iter()
                    .take_while(|byte| scalar(byte))
                    .count();
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn untyped(object: &Value) -> Value {
        let mut out = BytesMut::new();
        put_untyped(&mut out, &serde_json::to_vec(object).unwrap());
        serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {out:?}"))
    }

    #[test]
    fn only_the_type_of_the_outer_object_is_omitted() {
        let inner = json!({"apiVersion": "v1", "kind": "Inner", "a": [{"kind": "x"}, [], {}, null, 1.5, "]}\"\\"]});
        for mut object in [
            json!({"apiVersion": "v1", "kind": "A"}),
            json!({"apiVersion": "v1", "data": inner, "kind": "A", "metadata": inner, "z": false}),
            json!({"apiVersion": "v1", "b": -1e3, "data": {"\"kind\":\"A\"": "{\"kind\":\"A\",\\"}, "kind": "A"}),
            json!({"a": [[], {}], "apiVersion": "v1", "e": {}, "kind": "A", "metadata": {}}),
            json!({"data": "no type", "spec": {"kind": "inner"}}),
            json!({}),
        ] {
            let found = untyped(&object);
            if let Some(members) = object.as_object_mut() {
                members.remove("apiVersion");
                members.remove("kind");
            }
            assert_eq!(found, object);
        }
    }

    #[test]
    fn malformed_objects_are_copied() {
        for text in ["", "[]", "{\"kind\":", "{\"a"] {
            let mut out = BytesMut::new();
            put_untyped(&mut out, text.as_bytes());
            assert_eq!(out, text);
        }
    }
}
