//! JSON that is kept as text, such as a file in a ConfigMap: patched without changing what the patch does not name. The
//! order of fields and the way numbers are written stay, so that nobody who reads the file notices more than the patch.
//! Spaces between values go, and `<`, `>` and `&` are written as escapes, as Karmada does it.

use std::fmt::{self, Write as _};

use berth_api::override_policy::OverriderOperator;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A part of a document.
#[derive(Debug)]
enum Node {
    /// As it was read.
    Text(Box<RawValue>),
    /// Fields in their order.
    Object(Vec<(String, Self)>),
    /// Items.
    Array(Vec<Self>),
}

/// A document.
#[derive(Debug)]
pub(super) struct Document(Node);

/// Why a patch does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    /// There is nothing at the path.
    #[error("the path leads nowhere")]
    Missing,
    /// There is no such operation.
    #[error("there is no such operator")]
    Operator,
}

/// Fields in the order in which they were read; of two with one name the later value counts.
struct Fields(Vec<(String, Node)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, Node)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    let node = Node::Text(value);
                    match fields.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, known)) => *known = node,
                        None => fields.push((key, node)),
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Document {
    /// Reads a document.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self(Node::Text(serde_json::from_str(text)?)))
    }

    /// One operation of a JSON patch. Indexes below zero count from the end.
    pub(super) fn patch(
        &mut self,
        path: &str,
        operator: &OverriderOperator,
        value: Option<&Value>,
    ) -> Result<(), Misfit> {
        let node = || {
            let text = value.map_or_else(|| "null".to_owned(), Value::to_string);
            let raw = RawValue::from_string(text).map_err(|_| Misfit::Missing)?;
            Ok(Node::Text(raw))
        };
        let Some((parent, key)) = path.rsplit_once('/') else {
            return match operator {
                OverriderOperator::Add | OverriderOperator::Replace if path.is_empty() => {
                    self.0 = node()?;
                    Ok(())
                }
                _ => Err(Misfit::Missing),
            };
        };
        let mut tokens = parent.split('/');
        if !parent.is_empty() && tokens.next() != Some("") {
            return Err(Misfit::Missing);
        }
        let mut place = &mut self.0;
        for token in tokens.filter(|_| !parent.is_empty()) {
            place = place.child(token).ok_or(Misfit::Missing)?;
        }
        match operator {
            OverriderOperator::Add => place.add(key, node()?),
            OverriderOperator::Replace => {
                *place.child(key).ok_or(Misfit::Missing)? = node()?;
                Ok(())
            }
            OverriderOperator::Remove => place.remove(key),
            OverriderOperator::Other(_) => Err(Misfit::Operator),
        }
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.0.write(&mut text);
        f.write_str(&text)
    }
}

impl Node {
    /// Takes a text apart, if it is an object or a list.
    fn open(&mut self) {
        let Self::Text(raw) = self else { return };
        let text = raw.get();
        let opened = if text.starts_with('{') {
            serde_json::from_str::<Fields>(text)
                .map(|fields| Self::Object(fields.0))
                .ok()
        } else if text.starts_with('[') {
            serde_json::from_str::<Vec<Box<RawValue>>>(text)
                .map(|items| Self::Array(items.into_iter().map(Self::Text).collect()))
                .ok()
        } else {
            None
        };
        if let Some(opened) = opened {
            *self = opened;
        }
    }

    fn child(&mut self, token: &str) -> Option<&mut Self> {
        self.open();
        match self {
            Self::Object(fields) => {
                let key = unescaped(token);
                let mut fields = fields.iter_mut();
                fields
                    .find(|(known, _)| *known == key)
                    .map(|(_, node)| node)
            }
            Self::Array(items) => {
                let index = index(token, items.len())?;
                items.get_mut(index)
            }
            Self::Text(_) => None,
        }
    }

    fn add(&mut self, token: &str, node: Self) -> Result<(), Misfit> {
        self.open();
        match self {
            Self::Object(fields) => {
                let key = unescaped(token);
                match fields.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = node,
                    None => fields.push((key, node)),
                }
                Ok(())
            }
            Self::Array(items) => {
                let end = items.len();
                let index = match token {
                    "-" => end,
                    _ => index(token, end + 1).ok_or(Misfit::Missing)?,
                };
                items.insert(index, node);
                Ok(())
            }
            Self::Text(_) => Err(Misfit::Missing),
        }
    }

    fn remove(&mut self, token: &str) -> Result<(), Misfit> {
        self.child(token).ok_or(Misfit::Missing)?;
        match self {
            Self::Object(fields) => {
                let key = unescaped(token);
                fields.retain(|(known, _)| *known != key);
            }
            Self::Array(items) => {
                let index = index(token, items.len()).ok_or(Misfit::Missing)?;
                items.remove(index);
            }
            Self::Text(_) => {}
        }
        Ok(())
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Text(raw) => text.push_str(&compact(raw.get())),
            Self::Object(fields) => {
                text.push('{');
                for (position, (key, node)) in fields.iter().enumerate() {
                    if position > 0 {
                        text.push(',');
                    }
                    text.push_str(&compact(&Value::String(key.clone()).to_string()));
                    text.push(':');
                    node.write(text);
                }
                text.push('}');
            }
            Self::Array(items) => {
                text.push('[');
                for (position, node) in items.iter().enumerate() {
                    if position > 0 {
                        text.push(',');
                    }
                    node.write(text);
                }
                text.push(']');
            }
        }
    }
}

/// The place in a list of so many that a token names, counted from the end if it is below zero.
pub(super) fn index(token: &str, length: usize) -> Option<usize> {
    let place = match token.strip_prefix('-') {
        Some(back) => length.checked_sub(back.parse().ok()?)?,
        None => token.parse().ok()?,
    };
    (place < length).then_some(place)
}

/// A token of a JSON pointer as the name of a field.
pub(super) fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// JSON without spaces between values, and without characters that mean something in HTML.
pub(super) fn compact(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            _ if quoted || !c.is_ascii_whitespace() => text.push(c),
            _ => {}
        }
        if quoted && c == '\\' && !escaped {
            escaped = true;
        } else {
            if c == '"' && !escaped {
                quoted = !quoted;
            }
            escaped = false;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(text: &str, operator: &str, path: &str, value: &Value) -> Result<String, Misfit> {
        let mut document = Document::read(text).unwrap();
        let operator = serde_json::from_value(json!(operator)).unwrap();
        document.patch(path, &operator, Some(value))?;
        Ok(document.to_string())
    }

    #[test]
    fn what_a_patch_does_not_name_stays_as_it_is_written() {
        let text = "{ \"z\": 1.0, \"a\": {\"y\": 1e3, \"b\": [1, 2,\n3], \"s\": \"a \\\" { < b\"},\"big\":12345678901234567890123 }";
        for (operator, path, value, expected) in [
            (
                "replace",
                "/a/b/0",
                json!(9),
                r#"{"z":1.0,"a":{"y":1e3,"b":[9,2,3],"s":"a \" { \u003c b"},"big":12345678901234567890123}"#,
            ),
            (
                "add",
                "/a/new",
                json!({"d": 1, "c": "&"}),
                r#"{"z":1.0,"a":{"y":1e3,"b":[1,2,3],"s":"a \" { \u003c b","new":{"c":"\u0026","d":1}},"big":12345678901234567890123}"#,
            ),
            (
                "remove",
                "/a",
                Value::Null,
                r#"{"z":1.0,"big":12345678901234567890123}"#,
            ),
            ("add", "", json!([]), "[]"),
        ] {
            assert_eq!(
                patched(text, operator, path, &value).as_deref(),
                Ok(expected),
                "{operator} {path}"
            );
        }
    }

    #[test]
    fn lists_are_counted_from_either_end_and_names_may_hold_slashes() {
        for (text, operator, path, expected) in [
            ("[1,2]", "add", "/-", Ok("[1,2,7]")),
            ("[1,2]", "add", "/0", Ok("[7,1,2]")),
            ("[1,2]", "add", "/2", Ok("[1,2,7]")),
            ("[1,2]", "add", "/3", Err(Misfit::Missing)),
            ("[1,2]", "add", "/-1", Ok("[1,2,7]")),
            ("[1,2]", "add", "/-3", Ok("[7,1,2]")),
            ("[1,2]", "replace", "/-1", Ok("[1,7]")),
            ("[1,2]", "remove", "/-2", Ok("[2]")),
            ("[1,2]", "remove", "/-3", Err(Misfit::Missing)),
            (r#"{"a/b":1,"~":2}"#, "remove", "/a~1b", Ok(r#"{"~":2}"#)),
            (r#"{"a":1}"#, "replace", "/b", Err(Misfit::Missing)),
            (r#"{"a":1}"#, "remove", "/b", Err(Misfit::Missing)),
            (r#"{"a":1}"#, "add", "/b/c", Err(Misfit::Missing)),
            (r#"{"a":1}"#, "add", "b", Err(Misfit::Missing)),
            (r#"{"a":1}"#, "add", "/a/b", Err(Misfit::Missing)),
            (
                r#"{"a":1,"b":2,"a":3}"#,
                "replace",
                "/b",
                Ok(r#"{"a":3,"b":7}"#),
            ),
            (r#"{"a":1}"#, "test", "/a", Err(Misfit::Operator)),
        ] {
            let result = patched(text, operator, path, &json!(7));
            let result = result.as_deref().map_err(|misfit| *misfit);
            assert_eq!(result, expected, "{text} {operator} {path}");
        }
    }
}
