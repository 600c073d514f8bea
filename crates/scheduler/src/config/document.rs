//! YAML and JSON documents that record the line and column of each value.
//!
//! The code that validates a document reads values without positions, and reports an error with the path of a value.
//! [`Document::error`] converts the path to a line and column. This module must not depend on the types of the
//! configuration.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

/// A position in a text. Lines and columns are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl Position {
    fn of(location: Location) -> Option<Self> {
        let position = Self {
            line: location.line(),
            column: location.column(),
        };
        (position.line > 0).then_some(position)
    }
}

/// An error in a configuration, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{}{}{message}", position_text(.position.as_ref()), prefix(.path))]
pub struct ConfigError {
    /// The name of the file or other source.
    pub source_name: String,
    /// The position in the source, if known.
    pub position: Option<Position>,
    /// The path of the value, for example `profiles[0].plugins`; empty for the whole document.
    pub path: String,
    /// The cause.
    pub message: String,
}

fn position_text(position: Option<&Position>) -> String {
    position.map_or_else(
        || " ".to_owned(),
        |position| format!("{}:{}: ", position.line, position.column),
    )
}

fn prefix(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

/// A parsed document.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    root: Located,
}

impl Document {
    /// Parses one YAML or JSON document.
    ///
    /// # Errors
    /// If the text is invalid, contains a key twice, or contains several documents.
    pub fn read(name: &str, text: &str) -> Result<Self, ConfigError> {
        let root: Spanned<Node> = serde_saphyr::from_str(text).map_err(|error| ConfigError {
            source_name: name.to_owned(),
            position: error.location().and_then(Position::of),
            path: String::new(),
            message: first_line(&error.without_snippet().to_string()),
        })?;
        Ok(Self {
            name: name.to_owned(),
            root: Located::of(root),
        })
    }

    /// Decodes the document as a value of type `T`.
    ///
    /// # Errors
    /// If the document does not match the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.parse_value(self.value())
    }

    /// Returns the document as a JSON value without positions.
    pub(crate) fn value(&self) -> Value {
        self.root.value()
    }

    /// Decodes a value that was derived from the document. An error contains the position of the value with the same
    /// path in the document.
    ///
    /// # Errors
    /// If the value does not match the type.
    pub(crate) fn parse_value<T: DeserializeOwned>(&self, value: Value) -> Result<T, ConfigError> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = match error.path().to_string() {
                path if path == "." => String::new(),
                path => path,
            };
            self.error(&path, error.into_inner().to_string())
        })
    }

    /// Returns an error about the value at a path. The error contains the position of the value in the document.
    pub fn error(&self, path: &str, message: impl Into<String>) -> ConfigError {
        ConfigError {
            source_name: self.name.clone(),
            position: self.root.position_of(path).or(self.root.position),
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

/// Returns the first line of a parser's message without the position at the end of the line, because
/// [`ConfigError::position`] already contains the position.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.rfind(" at line ") {
        Some(end) => line[..end].to_owned(),
        None => line.to_owned(),
    }
}

/// A value with its position.
#[derive(Clone, Debug)]
struct Located {
    position: Option<Position>,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Value),
    List(Vec<Located>),
    Fields(Vec<(Key, Located)>),
}

#[derive(Clone, Debug)]
struct Key {
    name: String,
    position: Option<Position>,
}

impl Located {
    fn of(spanned: Spanned<Node>) -> Self {
        Self {
            position: Position::of(spanned.referenced),
            node: spanned.value,
        }
    }

    fn value(&self) -> Value {
        match &self.node {
            Node::Leaf(value) => value.clone(),
            Node::List(items) => items.iter().map(Self::value).collect(),
            Node::Fields(fields) => {
                let fields = fields
                    .iter()
                    .map(|(key, value)| (key.name.clone(), value.value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Returns the position of the value at a path that starts at this value. If the path leads to no value, returns
    /// the position of the nearest existing parent. A field has the position of its key.
    fn position_of(&self, path: &str) -> Option<Position> {
        let path = path.strip_prefix('.').unwrap_or(path);
        match &self.node {
            Node::Leaf(_) => None,
            Node::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                item.position_of(rest).or(item.position)
            }
            // Keys may contain dots, so the longest matching key applies.
            Node::Fields(fields) => {
                let matching = fields.iter().filter_map(|(key, value)| {
                    let rest = path.strip_prefix(key.name.as_str())?;
                    let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                    ends.then_some((key, value, rest))
                });
                let (key, value, rest) = matching.max_by_key(|(key, ..)| key.name.len())?;
                value.position_of(rest).or(key.position)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(Node::Leaf(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Node>>()? {
            items.push(Located::of(item));
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let position = Position::of(key.referenced);
            let value = Located::of(map.next_value::<Spanned<Node>>()?);
            fields.push((
                Key {
                    name: key.value,
                    position,
                },
                value,
            ));
        }
        Ok(Node::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
profiles:
- schedulerName: a
  plugins:
    filter:
      enabled: [{name: One}, {name: Two, weight: 3}]
- schedulerName: b
  labels: {a.b/c: 1, a: 2}
empty:
";

    fn at(path: &str) -> (u64, u64) {
        let error = Document::read("f", TEXT).unwrap().error(path, "m");
        let position = error.position.unwrap();
        (position.line, position.column)
    }

    #[test]
    fn paths_are_converted_to_positions() {
        assert_eq!(at("profiles"), (1, 1));
        assert_eq!(at("profiles[0]"), (2, 3));
        assert_eq!(at("profiles[0].plugins.filter"), (4, 5));
        assert_eq!(at("profiles[0].plugins.filter.enabled[1]"), (5, 30));
        assert_eq!(at("profiles[0].plugins.filter.enabled[1].weight"), (5, 42));
        assert_eq!(at("profiles[1].labels.a.b/c"), (7, 12));
        assert_eq!(at("profiles[1].labels.a"), (7, 22));
    }

    #[test]
    fn unknown_paths_have_the_position_of_the_nearest_parent() {
        assert_eq!(at("profiles[1].plugins.filter"), (6, 3));
        assert_eq!(at("profiles[0].plugins.score"), (3, 3));
        assert_eq!(at("empty.of.all"), (8, 1));
    }

    #[test]
    fn equal_yaml_and_json_documents_have_equal_values() {
        let value: Value = Document::read("f", TEXT).unwrap().parse().unwrap();
        let expected = json!({
            "profiles": [
                {
                    "schedulerName": "a",
                    "plugins": { "filter": { "enabled": [{ "name": "One" }, { "name": "Two", "weight": 3 }] } },
                },
                { "schedulerName": "b", "labels": { "a.b/c": 1, "a": 2 } },
            ],
            "empty": null,
        });
        assert_eq!(value, expected);
        let pretty = serde_json::to_string_pretty(&expected).unwrap();
        for text in [pretty.clone(), pretty.replace("  ", "\t")] {
            let document = Document::read("f", &text).unwrap();
            assert_eq!(document.parse::<Value>().unwrap(), expected);
        }
    }

    #[test]
    fn syntax_errors_have_a_position() {
        for (text, expected) in [
            ("a: 1\nb: [1\n", "f:"),
            ("a: 1\na: 2\n", "f:2:1: "),
            ("a: 1\n---\nb: 1\n", "f:"),
        ] {
            let error = Document::read("f", text).unwrap_err().to_string();
            assert!(
                error.starts_with(expected) && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn type_errors_have_a_path_and_a_position() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only the error matters")]
        struct Inner {
            a: Option<u32>,
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only the error matters")]
        struct Outer {
            list: Vec<Inner>,
        }
        for (text, expected) in [
            (
                "list:\n- a: 1\n- b: 2\n",
                "f:3:3: list[1].b: unknown field `b`, expected `a`",
            ),
            (
                "list:\n- a: x\n",
                "f:2:3: list[0].a: invalid type: string \"x\", expected u32",
            ),
            ("{}", "f:1:1: missing field `list`"),
        ] {
            let error = Document::read("f", text)
                .unwrap()
                .parse::<Outer>()
                .unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
