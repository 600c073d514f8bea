//! A YAML or JSON text as a tree that remembers where each value stands.
//!
//! Errors of every later step (shape, names, arguments of plugins) are found on plain values and named by a
//! path; here a path becomes a line and a column. Knows nothing of configurations.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

/// A place in a text, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl Place {
    fn of(location: Location) -> Option<Self> {
        let place = Self {
            line: location.line(),
            column: location.column(),
        };
        (place.line > 0).then_some(place)
    }
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{}{}{message}", written(.place.as_ref()), prefix(.path))]
pub struct ConfigError {
    /// The file, or what stands for one.
    pub source_name: String,
    /// Where in it, if that is known.
    pub place: Option<Place>,
    /// What it is about, as `profiles[0].plugins`; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

fn written(place: Option<&Place>) -> String {
    place.map_or_else(
        || " ".to_owned(),
        |place| format!("{}:{}: ", place.line, place.column),
    )
}

fn prefix(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

/// A text that was read.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    root: Marked,
}

impl Document {
    /// Reads one YAML document; JSON is YAML.
    ///
    /// # Errors
    /// When the text is no YAML, names a key twice, or holds more than one document.
    pub fn read(name: &str, text: &str) -> Result<Self, ConfigError> {
        let root: Spanned<Node> = serde_saphyr::from_str(text).map_err(|error| ConfigError {
            source_name: name.to_owned(),
            place: error.location().and_then(Place::of),
            path: String::new(),
            message: first_line(&error.without_snippet().to_string()),
        })?;
        Ok(Self {
            name: name.to_owned(),
            root: Marked::of(root),
        })
    }

    /// The document in a type.
    ///
    /// # Errors
    /// When it is of another shape.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.parse_value(self.value())
    }

    /// Returns the document as a plain value.
    pub(crate) fn value(&self) -> Value {
        self.root.value()
    }

    /// Decodes a value that was made of the document; errors are placed where their path leads in the document.
    ///
    /// # Errors
    /// When it is of another shape.
    pub(crate) fn parse_value<T: DeserializeOwned>(&self, value: Value) -> Result<T, ConfigError> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = match error.path().to_string() {
                path if path == "." => String::new(),
                path => path,
            };
            self.error(&path, error.into_inner().to_string())
        })
    }

    /// An error about a value, at its place.
    pub fn error(&self, path: &str, message: impl Into<String>) -> ConfigError {
        ConfigError {
            source_name: self.name.clone(),
            place: self.root.place_below(path).or(self.root.place),
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

/// The parser's words without the place, which is said already.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.rfind(" at line ") {
        Some(end) => line[..end].to_owned(),
        None => line.to_owned(),
    }
}

/// A value, and where it begins.
#[derive(Clone, Debug)]
struct Marked {
    place: Option<Place>,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Value),
    List(Vec<Marked>),
    Fields(Vec<(Key, Marked)>),
}

#[derive(Clone, Debug)]
struct Key {
    name: String,
    place: Option<Place>,
}

impl Marked {
    fn of(spanned: Spanned<Node>) -> Self {
        Self {
            place: Place::of(spanned.referenced),
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

    /// Where the path leads, or how far it leads, if it leads anywhere below this value. A field is at its key.
    fn place_below(&self, path: &str) -> Option<Place> {
        let path = path.strip_prefix('.').unwrap_or(path);
        match &self.node {
            Node::Leaf(_) => None,
            Node::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                item.place_below(rest).or(item.place)
            }
            // A key may hold dots itself: the longest that fits is meant.
            Node::Fields(fields) => {
                let fitting = fields.iter().filter_map(|(key, value)| {
                    let rest = path.strip_prefix(key.name.as_str())?;
                    let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                    ends.then_some((key, value, rest))
                });
                let (key, value, rest) = fitting.max_by_key(|(key, ..)| key.name.len())?;
                value.place_below(rest).or(key.place)
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
            items.push(Marked::of(item));
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let place = Place::of(key.referenced);
            let value = Marked::of(map.next_value::<Spanned<Node>>()?);
            fields.push((
                Key {
                    name: key.value,
                    place,
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
        let place = error.place.unwrap();
        (place.line, place.column)
    }

    #[test]
    fn a_path_becomes_a_place() {
        assert_eq!(at("profiles"), (1, 1));
        assert_eq!(at("profiles[0]"), (2, 3));
        assert_eq!(at("profiles[0].plugins.filter"), (4, 5));
        assert_eq!(at("profiles[0].plugins.filter.enabled[1]"), (5, 30));
        assert_eq!(at("profiles[0].plugins.filter.enabled[1].weight"), (5, 42));
        assert_eq!(at("profiles[1].labels.a.b/c"), (7, 12));
        assert_eq!(at("profiles[1].labels.a"), (7, 22));
    }

    #[test]
    fn a_path_that_leaves_the_tree_is_where_it_leaves_it() {
        assert_eq!(at("profiles[1].plugins.filter"), (6, 3));
        assert_eq!(at("profiles[0].plugins.score"), (3, 3));
        assert_eq!(at("empty.of.all"), (8, 1));
    }

    #[test]
    fn yaml_and_json_are_the_same_values() {
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
    fn broken_texts_are_refused_where_they_break() {
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
    fn shapes_are_checked_with_their_place() {
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
