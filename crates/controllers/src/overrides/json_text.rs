//! Patches of JSON documents in text fields, such as a file in a ConfigMap. The order of fields and the format of
//! numbers do not change. As in Karmada, whitespace between values is removed, and `<`, `>` and `&` are escaped.

use std::fmt::{self, Write as _};

use berth_api::override_policy::OverriderOperator;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A node of a document. Nodes are parsed on first access.
#[derive(Debug)]
enum Node {
    /// An unparsed value.
    Text(Box<RawValue>),
    /// The fields of an object, in their original order.
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
}

/// A JSON document.
#[derive(Debug)]
pub(super) struct Document(Node);

/// An error: a patch does not fit the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
    /// The path does not exist.
    #[error("the path does not exist")]
    MissingPath,
    /// The operator is unknown.
    #[error("the operator is unknown")]
    UnknownOperator,
}

/// The fields of an object in their original order. The last value of a duplicate field wins.
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
    /// Parses a document.
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self(Node::Text(serde_json::from_str(text)?)))
    }

    /// Applies one JSON patch operation. A negative index counts from the end of a list.
    pub(super) fn patch(
        &mut self,
        path: &str,
        operator: &OverriderOperator,
        value: Option<&Value>,
    ) -> Result<(), PatchError> {
        let node = || {
            let text = value.map_or_else(|| "null".to_owned(), Value::to_string);
            let raw = RawValue::from_string(text).map_err(|_| PatchError::MissingPath)?;
            Ok(Node::Text(raw))
        };
        let Some((parent, key)) = path.rsplit_once('/') else {
            return match operator {
                OverriderOperator::Add | OverriderOperator::Replace if path.is_empty() => {
                    self.0 = node()?;
                    Ok(())
                }
                _ => Err(PatchError::MissingPath),
            };
        };
        let mut tokens = parent.split('/');
        if !parent.is_empty() && tokens.next() != Some("") {
            return Err(PatchError::MissingPath);
        }
        let mut target = &mut self.0;
        for token in tokens.filter(|_| !parent.is_empty()) {
            target = target.child(token).ok_or(PatchError::MissingPath)?;
        }
        match operator {
            OverriderOperator::Add => target.add(key, node()?),
            OverriderOperator::Replace => {
                *target.child(key).ok_or(PatchError::MissingPath)? = node()?;
                Ok(())
            }
            OverriderOperator::Remove => target.remove(key),
            OverriderOperator::Other(_) => Err(PatchError::UnknownOperator),
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
    /// Parses an unparsed object or array one level deep.
    fn expand(&mut self) {
        let Self::Text(raw) = self else { return };
        let text = raw.get();
        let expanded = if text.starts_with('{') {
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
        if let Some(expanded) = expanded {
            *self = expanded;
        }
    }

    fn child(&mut self, token: &str) -> Option<&mut Self> {
        self.expand();
        match self {
            Self::Object(fields) => {
                let key = unescape(token);
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

    fn add(&mut self, token: &str, node: Self) -> Result<(), PatchError> {
        self.expand();
        match self {
            Self::Object(fields) => {
                let key = unescape(token);
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
                    _ => index(token, end + 1).ok_or(PatchError::MissingPath)?,
                };
                items.insert(index, node);
                Ok(())
            }
            Self::Text(_) => Err(PatchError::MissingPath),
        }
    }

    fn remove(&mut self, token: &str) -> Result<(), PatchError> {
        self.child(token).ok_or(PatchError::MissingPath)?;
        match self {
            Self::Object(fields) => {
                let key = unescape(token);
                fields.retain(|(known, _)| *known != key);
            }
            Self::Array(items) => {
                let index = index(token, items.len()).ok_or(PatchError::MissingPath)?;
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

/// Parses a token of a JSON pointer as an index of a list. A negative index counts from the end of the list.
pub(super) fn index(token: &str, length: usize) -> Option<usize> {
    let index = match token.strip_prefix('-') {
        Some(back) => length.checked_sub(back.parse().ok()?)?,
        None => token.parse().ok()?,
    };
    (index < length).then_some(index)
}

/// Decodes a token of a JSON pointer.
pub(super) fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Removes whitespace between values and escapes HTML characters.
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

    fn patched(
        text: &str,
        operator: &str,
        path: &str,
        value: &Value,
    ) -> Result<String, PatchError> {
        let mut document = Document::parse(text).unwrap();
        let operator = serde_json::from_value(json!(operator)).unwrap();
        document.patch(path, &operator, Some(value))?;
        Ok(document.to_string())
    }

    #[test]
    fn values_outside_the_patch_keep_their_format() {
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
    fn paths_may_have_negative_indexes_and_escaped_tokens() {
        for (text, operator, path, expected) in [
            ("[1,2]", "add", "/-", Ok("[1,2,7]")),
            ("[1,2]", "add", "/0", Ok("[7,1,2]")),
            ("[1,2]", "add", "/2", Ok("[1,2,7]")),
            ("[1,2]", "add", "/3", Err(PatchError::MissingPath)),
            ("[1,2]", "add", "/-1", Ok("[1,2,7]")),
            ("[1,2]", "add", "/-3", Ok("[7,1,2]")),
            ("[1,2]", "replace", "/-1", Ok("[1,7]")),
            ("[1,2]", "remove", "/-2", Ok("[2]")),
            ("[1,2]", "remove", "/-3", Err(PatchError::MissingPath)),
            (r#"{"a/b":1,"~":2}"#, "remove", "/a~1b", Ok(r#"{"~":2}"#)),
            (r#"{"a":1}"#, "replace", "/b", Err(PatchError::MissingPath)),
            (r#"{"a":1}"#, "remove", "/b", Err(PatchError::MissingPath)),
            (r#"{"a":1}"#, "add", "/b/c", Err(PatchError::MissingPath)),
            (r#"{"a":1}"#, "add", "b", Err(PatchError::MissingPath)),
            (r#"{"a":1}"#, "add", "/a/b", Err(PatchError::MissingPath)),
            (
                r#"{"a":1,"b":2,"a":3}"#,
                "replace",
                "/b",
                Ok(r#"{"a":3,"b":7}"#),
            ),
            (r#"{"a":1}"#, "test", "/a", Err(PatchError::UnknownOperator)),
        ] {
            let result = patched(text, operator, path, &json!(7));
            let result = result.as_deref().map_err(|error| *error);
            assert_eq!(result, expected, "{text} {operator} {path}");
        }
    }
}
